//! The rule for users that the documentation shows: it is enough, and nothing in it is too much.

use std::time::Duration;

use dlock::{
    LockKey, LockManager, LockMode, StoreError, StoreErrorKind,
    random::SystemRandom,
    store::{
        AcquireRequest, ClientId, LockStore, OwnerId, Queue, ReleaseRequest, RenewRequest,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{RedisServer, eventually};

use crate::common::{ANSWER, PERMISSIONS, builder, connect, set_permissions, shown, soon};
use crate::connection::{LIMIT, assert_works, refused, run};

const TTL: Duration = Duration::from_secs(30);

/// Ways to use a server that need more than the rule: what for, the rights, and the end of the URL.
const COMBINATIONS: [(&str, &str, &str); 4] = [
    ("nothing more", "", ""),
    ("RESP2", "", "?protocol=resp2"),
    ("a database", "+select", "/1"),
    ("a database by RESP2", "+select", "/1?protocol=resp2"),
];

fn url(server: &RedisServer, end: &str) -> String {
    format!("redis://app:change-me@127.0.0.1:{}{end}", server.port())
}

/// The user with this right less.
async fn take_away(server: &RedisServer, right: &str) {
    set_permissions(server, &format!("ACL SETUSER app {right}")).await;
}

async fn restored(server: &RedisServer) {
    let rule = PERMISSIONS.replace("app on", "app reset on");
    set_permissions(server, &rule).await;
}

/// The commands of the rule.
fn commands() -> Vec<&'static str> {
    let words = PERMISSIONS.split_whitespace();
    words.filter_map(|word| word.strip_prefix('+')).collect()
}

#[test]
fn the_guide_shows_the_rules() {
    let guide = include_str!("../../../docs/book/src/reference/permissions.md");
    let operator = include_str!("../../../dlock-admin/src/redis/permissions.txt");
    let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
    for rule in [PERMISSIONS, operator].map(words) {
        let shown = guide.split("```text\n").find_map(|part| {
            let (block, _) = part.split_once("```")?;
            let shown = words(block);
            shown.starts_with(&rule[..3]).then_some(shown)
        });
        assert_eq!(shown.expect("there is a rule"), rule);
    }
    let in_a_cluster =
        include_str!("../../../dlock-runtime/src/store/redis/permissions_cluster.txt").trim();
    // In a table, where a bar would end the cell.
    let in_a_cluster = in_a_cluster.replace('|', "\\|");
    assert!(guide.contains(&format!("`{in_a_cluster}`")));
}

#[tokio::test]
async fn each_combination_needs_what_it_says() {
    for (what, rights, end) in COMBINATIONS {
        let server = RedisServer::start().await;
        set_permissions(&server, PERMISSIONS).await;
        if !rights.is_empty() {
            let (kind, text) = refused(LockManager::builder(), &url(&server, end)).await;
            assert_eq!(kind, StoreErrorKind::Denied, "{what}: {text}");
            let right = rights.trim_start_matches('+');
            assert!(text.contains(&format!("'{right}'")), "{what}: {text}");
            take_away(&server, rights).await;
        }
        let one = connect(&url(&server, end)).await;
        let other = connect(&url(&server, end)).await;
        assert_works(&server, &one, &other).await;
    }
}

/// All that is asked of a server: taken, asked for again, waited for, renewed, handed on, left.
async fn whole_life(store: &RedisStore) -> Vec<StoreError> {
    let key = LockKey::new("order:42").unwrap();
    let client = ClientId::new(&SystemRandom);
    let [holder, waiter, leaver] = [1, 2, 3].map(|attempt| OwnerId::new(client, attempt));
    let asks = |owner, queue, label| {
        AcquireRequest::new(&key, owner, TTL)
            .queue(queue)
            .label(label)
    };
    let renewal = RenewRequest::new(&key, holder, TTL);
    let mut errors = Vec::new();
    errors.extend(store.acquire(asks(holder, Queue::No, "a")).await.err());
    errors.extend(store.acquire(asks(holder, Queue::No, "a")).await.err());
    errors.extend(store.renew_one(renewal).await.err());
    errors.extend(store.acquire(asks(waiter, Queue::No, "a")).await.err());
    for owner in [waiter, leaver, waiter] {
        errors.extend(store.acquire(asks(owner, Queue::ForLease, "a")).await.err());
    }
    for owner in [leaver, holder, waiter] {
        errors.extend(store.release(ReleaseRequest::new(&key, owner)).await.err());
    }
    let shared = LockKey::new("catalog").unwrap();
    let joins = |owner, mode| AcquireRequest::new(&shared, owner, TTL).mode(mode);
    let [first, second] = [LockMode::Shared, LockMode::Permits(2)];
    errors.extend(store.acquire(joins(holder, first)).await.err());
    errors.extend(store.acquire(joins(waiter, second)).await.err());
    let exclusive = joins(leaver, LockMode::Exclusive).queue(Queue::ForLease);
    errors.extend(store.acquire(exclusive).await.err());
    let renewal = RenewRequest::new(&shared, holder, TTL).mode(first);
    errors.extend(store.renew_one(renewal).await.err());
    for (owner, mode) in [
        (holder, first),
        (waiter, second),
        (leaver, LockMode::Exclusive),
    ] {
        let release = ReleaseRequest::new(&shared, owner).mode(mode);
        errors.extend(store.release(release).await.err());
    }
    // Whatever was refused on the way.
    for owner in [leaver, holder, waiter] {
        errors.extend(store.release(ReleaseRequest::new(&key, owner)).await.err());
    }
    errors
}

#[tokio::test]
async fn whoever_lacks_one_command_is_told_which() {
    // Those that a connection needs, or that are no failure; they have tests of their own.
    let others = ["subscribe", "ping", "publish"];
    let server = RedisServer::start().await;
    for command in commands() {
        if others.contains(&command) {
            continue;
        }
        restored(&server).await;
        let config = RedisConfig::new(url(&server, "")).response_timeout(ANSWER);
        let store = soon(RedisStore::connect(config)).await.unwrap();
        // Scripts that the server does not know are sent whole.
        run(&mut server.connection().await, "SCRIPT FLUSH").await;
        take_away(&server, &format!("-{command}")).await;
        let errors = soon(whole_life(&store)).await;
        let named = errors.iter().find(|error| {
            let text = error.to_string();
            let upper = format!("`{}`", command.to_uppercase());
            let lower = format!("'{command}'");
            error.kind() == StoreErrorKind::Denied
                && (text.contains(&upper) || text.contains(&lower))
        });
        assert!(named.is_some(), "without `{command}`: {errors:?}");
        for error in &errors {
            assert!(!shown(error).contains("change-me"), "{error}");
        }

        restored(&server).await;
        // Without `hdel`, a shared lock cannot be released.
        run(&mut server.connection().await, "FLUSHDB").await;
        let errors = soon(whole_life(&store)).await;
        assert_eq!(errors, [], "with `{command}` again");
    }
}

#[tokio::test]
async fn a_caller_without_a_right_leaves_nothing_when_it_is_back() {
    let server = RedisServer::start().await;
    for command in ["eval", "evalsha", "set", "time", "del"] {
        restored(&server).await;
        // Short, as one lock is left to it.
        let builder = builder().ttl(Duration::from_secs(3));
        let manager = soon(builder.connect(&url(&server, ""))).await.unwrap();
        run(&mut server.connection().await, "SCRIPT FLUSH").await;
        take_away(&server, &format!("-{command}")).await;
        // Without `del` the lock is had, and cannot be given back: its TTL frees it.
        let outcome = soon(manager.lock("order:42").run(async |_| 7)).await;
        assert_eq!(outcome.is_ok(), command == "del", "{outcome:?}");
        restored(&server).await;
        eventually(LIMIT, "nothing is left", async || {
            server.keys("dlock:{*").await.is_empty() && manager.active_keys() == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_connection_that_lacks_a_right_says_which() {
    let server = RedisServer::start().await;
    for (right, words) in [
        ("-subscribe", "`SUBSCRIBE` to `dlock:wake:*`"),
        ("resetchannels", "`SUBSCRIBE` to `dlock:wake:*`"),
    ] {
        restored(&server).await;
        take_away(&server, right).await;
        let (kind, text) = refused(LockManager::builder(), &url(&server, "")).await;
        assert_eq!(kind, StoreErrorKind::Denied, "{right}: {text}");
        assert!(text.contains(words), "{right}: {text}");
        assert!(!text.contains("change-me"), "{text}");
    }
}

#[tokio::test]
async fn keys_that_are_not_granted_are_named() {
    let server = RedisServer::start().await;
    set_permissions(&server, PERMISSIONS).await;
    let manager = connect(&url(&server, "")).await;
    take_away(&server, "resetkeys ~other:*").await;
    let error = soon(manager.lock("order:42").acquire()).await.unwrap_err();
    assert!(shown(&error).contains("`dlock:{order:42}`"), "{error}");
    assert_eq!(error.retry_after(), None);
    restored(&server).await;
    eventually(LIMIT, "nothing is left", async || {
        server.keys("dlock:{*").await.is_empty() && manager.active_keys() == 0
    })
    .await;
}

/// A hint is a courtesy: without it waiters ask.
#[tokio::test]
async fn without_publish_locks_are_handed_on_all_the_same() {
    let server = RedisServer::start().await;
    set_permissions(&server, PERMISSIONS).await;
    let one = connect(&url(&server, "")).await;
    let other = connect(&url(&server, "")).await;
    take_away(&server, "-publish").await;
    let held = soon(one.lock("order:42").acquire()).await.unwrap();
    let waits = soon(other.lock("order:42").wait(LIMIT).run(async |_| 7));
    let gives_back = async {
        crate::connection::common_queue(&server).await;
        soon(held.release()).await
    };
    let (waited, given) = tokio::join!(waits, gives_back);
    assert_eq!((waited, given), (Ok(7), Ok(())));
    let denials = run(&mut server.connection().await, "ACL LOG").await;
    assert!(
        denials.contains("publish"),
        "the server's log tells: {denials}"
    );
}

/// The answer does not matter, but each refusal would be in the server's log.
#[tokio::test]
async fn without_ping_an_idle_connection_is_logged_as_denied() {
    let server = RedisServer::start().await;
    set_permissions(&server, PERMISSIONS).await;
    take_away(&server, "-ping").await;
    for protocol in ["resp3", "resp2"] {
        let builder = LockManager::builder().response_timeout(Duration::from_millis(200));
        let url = url(&server, &format!("?protocol={protocol}"));
        let manager = soon(builder.connect(&url)).await.unwrap();
        run(&mut server.connection().await, "ACL LOG RESET").await;
        eventually(LIMIT, "it was asked", async || {
            let log = run(&mut server.connection().await, "ACL LOG").await;
            log.contains("ping")
        })
        .await;
        assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
    }
}
