//! Tokens in places where numbers are doubles.

use dlock::{FencingToken, LockManager};
use dlock_testkit::RedisServer;

/// What a script in Redis says of two arguments.
async fn lua(server: &RedisServer, expression: &str, one: &str, other: &str) -> bool {
    redis::cmd("EVAL")
        .arg(format!(
            "local a, b = ARGV[1], ARGV[2]; return {expression}"
        ))
        .arg(&["0", one, other])
        .query_async(&mut server.connection().await)
        .await
        .unwrap()
}

// H16
/// A resource in Redis that keeps the greatest token: as numbers, neighbours look the same there.
#[tokio::test]
async fn neighbours_are_told_apart_by_a_script_that_compares_them_as_text() {
    let server = RedisServer::start().await;
    // Of today, and the greatest of all.
    for fence in [9_100_000_000_000, (1 << 51) - 1] {
        let token = FencingToken::from_fence(fence).unwrap();
        // The token of the next section under the same lease.
        let next = token.to_i64() + 1;
        let [one, other] = [token.to_string(), next.to_string()];
        let same = "tonumber(a) == tonumber(b)";
        assert!(lua(&server, same, &one, &other).await, "{one} and {other}");
        let [one, other] = [token.to_sortable_string(), format!("{next:019}")];
        assert!(!lua(&server, "a == b", &one, &other).await);
        assert!(lua(&server, "a < b", &one, &other).await);
    }
    // Tokens as they come.
    let manager = LockManager::memory();
    let mut texts = Vec::new();
    for _ in 0..4 {
        let guard = manager.lock("order:42").acquire().await.unwrap();
        texts.push(guard.fencing_token().to_sortable_string());
        guard.release().await.unwrap();
    }
    for (number, one) in texts.iter().enumerate() {
        for (other_number, other) in texts.iter().enumerate() {
            let is_less = lua(&server, "a < b", one, other).await;
            assert_eq!(is_less, number < other_number, "{one} < {other}");
            let is_same = lua(&server, "a == b", one, other).await;
            assert_eq!(is_same, number == other_number, "{one} == {other}");
        }
    }
}
