//! Foreign values at the keys of locks do not stop an inspector.

use dlock::{
    LockKey, StoreErrorKind,
    admin::{Inspect as _, Unlocked},
};
use dlock_testkit::RedisServer;

use crate::admin::{inspector, look};
use crate::common::{ANSWER, shown, soon};

const OWNER: &str = "0123456789abcdef0123456789abcdef.7";

async fn run(server: &RedisServer, words: &[&[u8]]) {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn data_of_any_type_is_shown_or_left_out() {
    let server = RedisServer::start().await;
    let long = vec![b'x'; 1_000_000];
    let hostile = format!("{OWNER} 12 a\x1b[2J#b\u{85}c");
    for words in [
        &[&b"HSET"[..], b"dlock:{hash}", b"a", b"b"][..],
        &[b"RPUSH", b"dlock:{list}", b"a"],
        &[b"SET", b"dlock:{text}", b"token"],
        &[b"SET", b"dlock:{long}", &long],
        &[b"SET", b"dlock:{bytes}", b"\xff\xfe 1 \x00"],
        &[b"SET", b"dlock:{hostile}", hostile.as_bytes()],
        &[
            b"SET",
            b"dlock:{huge}",
            b"0123456789abcdef0123456789abcdef.7 18446744073709551615 x",
        ],
        &[b"SET", b"dlock:{}", b"empty"],
        &[b"SET", b"dlock:{\xff}", b"no text"],
        &[b"SET", b"dlock:{a}:q", b"no queue"],
        &[
            b"ZADD",
            b"dlock:{b}:q",
            b"inf",
            b"x",
            b"-inf",
            OWNER.as_bytes(),
        ],
        &[b"ZADD", b"dlock:{c}:q", b"1", OWNER.as_bytes()],
        &[b"SET", b"dlock:{c}:a", b"no set"],
        &[b"SET", b"dlock:{c}:other", b"x"],
        &[b"SET", b"dlock:process:{x}", b"x"],
        &[
            b"HSET",
            b"dlock:process:{0123456789abcdef0123456789abcdef}",
            b"a",
            b"b",
        ],
    ] {
        run(&server, words).await;
    }
    let inspector = inspector(&server.url()).await;
    let listed = soon(inspector.locks(None)).await.unwrap();
    let keys: Vec<_> = listed.iter().map(|lock| &*lock.key).collect();
    assert_eq!(keys, ["bytes", "c", "hostile", "huge", "long", "text"]);
    let text = format!("{listed:?}");
    assert!(!text.contains("token"), "it may be secret: {text}");
    for lock in &listed {
        let holder = lock.holder.as_ref();
        let said = holder.map(|it| (it.label.clone(), it.function.clone()));
        let said = format!("{said:?}");
        assert!(
            !said.contains("\\u{1b}") && !said.contains("\\u{85}"),
            "{said}"
        );
    }
    let waiter = &listed[1].waiters[0];
    assert!(!waiter.is_alive && waiter.owner.to_string() == OWNER);
    assert_eq!(soon(inspector.processes()).await.unwrap(), []);

    let hash = LockKey::new("hash").unwrap();
    let error = soon(inspector.lock(&hash)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::WrongType, "{}", shown(&error));
    for key in ["text", "long", "bytes", "hostile"] {
        let seen = look(&inspector, key).await.unwrap();
        let outcome = soon(inspector.unlock(&seen, None)).await;
        assert_eq!(outcome, Ok(Unlocked::Freed), "{key}");
        assert_eq!(look(&inspector, key).await, None);
    }
    // Nobody is the holder of what only has waiters.
    let seen = look(&inspector, "c").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Changed)
    );
}

/// A queue of any length holds nobody up: its beginning is told, and its length.
#[tokio::test]
async fn a_long_queue_is_counted() {
    let server = RedisServer::start().await;
    let mut queue = redis::cmd("ZADD");
    queue.arg("dlock:{k}:q").arg(0).arg("what is no owner");
    for attempt in 1..=5000 {
        let owner = format!("0123456789abcdef0123456789abcdef.{attempt}");
        queue.arg(attempt).arg(owner);
    }
    let mut behind = server.connection().await;
    queue.exec_async(&mut behind).await.unwrap();
    let inspector = inspector(&server.url()).await;
    let seen = look(&inspector, "k").await.unwrap();
    assert_eq!((seen.waiters.len(), seen.waiter_count), (4095, 5000));
    assert!(seen.waiters[0].owner.to_string().ends_with(".1"));
    let listed = soon(inspector.locks(None)).await.unwrap();
    assert_eq!(listed[0].waiter_count, 5000);
}

#[tokio::test]
async fn a_namespace_is_no_pattern() {
    let server = RedisServer::start().await;
    run(&server, &[b"SET", b"a*b:{k}", b"mine"]).await;
    run(&server, &[b"SET", b"axb:{k2}", b"another's"]).await;
    let config = dlock::store::redis::RedisConfig::new(server.url()).namespace("a*b");
    let config = config.response_timeout(ANSWER);
    let inspector = soon(dlock::admin::Inspector::connect(config))
        .await
        .unwrap();
    let listed = soon(inspector.locks(None)).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].key, "k");
}
