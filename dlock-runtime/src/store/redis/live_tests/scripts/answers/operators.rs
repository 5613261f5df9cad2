//! The answers and effects of the operators' scripts.

use redis::{RedisResult, Value};

use super::{Command, LOCK, MODES, Scripts, TTL, is_refused, key, owner};
use crate::{key::LockKey, mode::LockMode, owner::OwnerId, store::StoreErrorKind};

impl Scripts {
    async fn unlock(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        claim: &str,
        digest: &str,
    ) -> RedisResult<i64> {
        let command = Command::unlock(&self.config, key, owner, claim, digest);
        self.run(&command).await
    }

    /// The server's time as a fence.
    async fn moment(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]).await;
        (seconds - 1_704_067_200) * 100_000 + micros / 10
    }
}

#[tokio::test]
async fn an_inspection_counts_those_that_it_does_not_list() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for _ in 0..3 {
        scripts.take(&lock, owner(), LockMode::Shared).await;
    }
    for _ in 0..3 {
        let answer = scripts.acquire(&lock, owner(), LockMode::Exclusive).await;
        assert!(is_refused(&answer), "{answer:?}");
        scripts.keep_waiters().await;
    }
    for (most, listed) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        let command = Command::inspect(&scripts.config, &lock, most);
        let fields: Vec<Value> = scripts.run(&command).await.unwrap();
        let [
            ..,
            Value::Array(waiters),
            Value::Int(count),
            Value::Array(holders),
        ] = fields.as_slice()
        else {
            panic!("{fields:?}");
        };
        assert_eq!((waiters.len(), *count), (3 * listed, 3), "{most}");
        assert_eq!(holders.len(), 2 + 2 * listed, "{most}");
        assert_eq!(holders[1], Value::Int(3), "{most}");
    }
}

#[tokio::test]
async fn one_or_all_lose_a_shared_lock_and_the_first_waiter_may_get_it() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for (takes_all, waits, expected) in [
        (false, false, 3),
        (false, true, 3),
        (true, false, 1),
        (true, true, 2),
    ] {
        let case = format!("{takes_all} {waits}");
        scripts.forget().await;
        let sharers = [(); 3].map(|()| owner());
        let (operator, waiter) = (owner(), owner());
        let mut fence = 0;
        for sharer in sharers {
            fence = scripts.take(&lock, sharer, LockMode::Shared).await;
        }
        if waits {
            let answer = scripts.acquire(&lock, waiter, LockMode::Exclusive).await;
            assert!(is_refused(&answer), "{case}: {answer:?}");
            scripts.keep_waiters().await;
        }
        let of_one = format!("{} {fence}", sharers[1]);
        let of_all = format!("* {fence}");
        let claim = if takes_all { of_all } else { of_one };
        // Others that have the lock in its place later are not meant.
        let later = format!("{claim}0");
        let answer = scripts.unlock(&lock, operator, &later, "").await;
        assert_eq!(answer, Ok(0), "{case}");
        let answer = scripts.unlock(&lock, operator, &claim, "").await;
        assert_eq!(answer, Ok(expected), "{case}");
        let counter = scripts.counter().await;
        let last: u64 = scripts.command(&["GET", &counter]).await;
        assert!(last > fence, "{case}: {last} after {fence}");
        match expected {
            1 => assert_eq!(scripts.server.keys(LOCK).await, [""; 0]),
            2 => {
                let value: String = scripts.command(&["GET", LOCK]).await;
                assert_eq!(value, format!("{waiter} {last} -"), "{case}");
            }
            _ => {
                let mut left: Vec<String> = scripts.command(&["HKEYS", LOCK]).await;
                left.sort_unstable();
                let [first, _, last] = sharers.map(|it| it.to_string());
                let mut stay = ["!".to_owned(), first, last];
                stay.sort_unstable();
                assert_eq!(left, stay, "{case}");
            }
        }
    }
}

/// Counted on from, it would leave no fence for anybody.
#[tokio::test]
async fn a_fence_too_great_in_a_lock_that_is_taken_away_is_not_counted_on_from() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for great in ["4503599627370496", "9007199254740992"] {
        scripts.forget().await;
        let claim = format!("{} {great}", owner());
        let value = format!("{claim} x");
        let set = ["SET", LOCK, &value, "PX", "60000"];
        scripts.command::<Value>(&set).await;
        let begun = scripts.moment().await;
        let answer = scripts.unlock(&lock, owner(), &claim, "").await;
        assert_eq!(answer, Ok(1), "{great}");
        let counter = scripts.counter().await;
        let last: u64 = scripts.command(&["GET", &counter]).await;
        let ended = scripts.moment().await;
        let is_from_then = (begun..=ended).contains(&last);
        assert!(is_from_then, "{great}: {begun} {last} {ended}");
        assert_eq!(scripts.server.keys(LOCK).await, [""; 0], "{great}");
    }
}

/// Its holder could not be told to be late.
#[tokio::test]
async fn a_lock_stays_where_its_counter_cannot_count() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for mode in MODES {
        for foreign in ["x", "-1", "9e9", "4503599627370496"] {
            scripts.forget().await;
            let me = owner();
            let fence = scripts.take(&lock, me, mode).await;
            let counter = scripts.counter().await;
            let set = ["SET", &counter, foreign];
            scripts.command::<Value>(&set).await;
            let before: Vec<u8> = scripts.command(&["DUMP", LOCK]).await;
            let claim = format!("{me} {fence}");
            let answer = scripts.unlock(&lock, owner(), &claim, "").await;
            let error = answer.expect_err("the counter is no number").to_string();
            assert!(error.contains(&counter), "{error}");
            assert!(error.contains("delete that key"), "{error}");
            let after: Vec<u8> = scripts.command(&["DUMP", LOCK]).await;
            assert_eq!(after, before, "{mode:?} {foreign}");
            let left: String = scripts.command(&["GET", &counter]).await;
            assert_eq!(left, foreign, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_value_of_another_client_is_taken_away_if_it_is_still_the_same() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    scripts.command::<Value>(&["SET", LOCK, "token"]).await;
    for (seen, expected) in [("token 7 x", 0), ("toke", 0), ("token", 1), ("token", 0)] {
        let digest = ["EVAL", "return redis.sha1hex(ARGV[1])", "0", seen];
        let digest: String = scripts.command(&digest).await;
        let answer = scripts.unlock(&lock, owner(), "", &digest).await;
        assert_eq!(answer, Ok(expected), "{seen}");
    }
    assert_eq!(scripts.server.keys(LOCK).await, [""; 0]);
}

#[tokio::test]
async fn an_operator_that_lacks_a_command_learns_which() {
    let mut scripts = Scripts::start().await;
    let (lock, me) = (key("k"), owner());
    let fence = scripts.take(&lock, me, LockMode::Exclusive).await;
    let claim = format!("{me} {fence}");
    for (denied, name, command) in [
        (
            "GET",
            "inspect",
            Command::inspect(&scripts.config, &lock, 5),
        ),
        (
            "GETEX",
            "unlock",
            Command::unlock(&scripts.config, &lock, owner(), &claim, ""),
        ),
    ] {
        let rule = format!("-{}", denied.to_lowercase());
        let rules = ["ACL", "SETUSER", "default", "+@all", &rule];
        scripts.command::<Value>(&rules).await;
        let answer: RedisResult<Value> = scripts.run(&command).await;
        let error = command.explain(&answer.expect_err(name), TTL);
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
        let place = format!("`{denied}` in script `{name}`");
        assert!(error.to_string().contains(&place), "{error}");
    }
}
