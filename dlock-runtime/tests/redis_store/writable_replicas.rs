//! A master that becomes a replica and goes on taking writes: `replica-read-only no`.

use std::time::{Duration, Instant};

use dlock_runtime::store::{
    AcquireOutcome, LockStore, ReleaseRequest, Released, RenewBatch, Renewal, StoreErrorKind,
};
use dlock_testkit::{Make, RedisServer, eventually};
use redis::aio::MultiplexedConnection;

use crate::{DEADLINE, connect, key, owner, renewal, run, server_and_store, take, try_take};

/// The time that the guarantees promise.
const TRUSTED_FOR: Duration = Duration::from_millis(100);

/// A replica of a master that it does not reach. Its connections stay. Returns the moment from which it is one.
async fn becomes_replica(behind: &mut MultiplexedConnection) -> Instant {
    run(behind, "CONFIG SET replica-read-only no").await;
    run(behind, "REPLICAOF 127.0.0.1 1").await;
    Instant::now()
}

pub(crate) async fn a_replica_that_takes_writes_grants_nothing_over_open_connections(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    for protocol in ["resp3", "resp2"] {
        let store = connect(&format!("{}?protocol={protocol}", server.url())).await;
        let (lock, me) = (key("k"), owner());
        take(&store, &lock, me).await;
        let replica_since = becomes_replica(&mut behind).await;
        // Other writes are taken.
        run(&mut behind, "SET x y").await;
        eventually(DEADLINE, "it is refused", async || {
            let asked = Instant::now();
            match try_take(&store, &lock, me).await {
                Ok(AcquireOutcome::Granted { .. }) => {
                    let after = asked.saturating_duration_since(replica_since);
                    assert!(
                        after < TRUSTED_FOR,
                        "broken promise: a replica grants a lock {after:?} after it has become one"
                    );
                    false
                }
                Ok(other) => panic!("the lock is the owner's: {other:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}");
                    assert!(!error.has_no_effect(), "the replica has carried it out");
                    true
                }
            }
        })
        .await;
        run(&mut behind, "REPLICAOF NO ONE").await;
        eventually(DEADLINE, "it is a master again", async || {
            try_take(&store, &lock, me).await.is_ok()
        })
        .await;
        eventually(DEADLINE, "it is released", async || {
            let released = store.release(ReleaseRequest::new(&lock, me)).await;
            released == Ok(Released::WasHeld)
        })
        .await;
    }
}

pub(crate) async fn a_replica_that_takes_writes_does_not_keep_a_lease(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, other, me) = (key("k"), key("other"), owner());
    take(&store, &lock, me).await;
    // The connection for renewals is opened by the first one.
    eventually(DEADLINE, "it is renewed", async || {
        store.renew_one(renewal(&lock, me)).await == Ok(Renewal::Renewed)
    })
    .await;
    let replica_since = becomes_replica(&mut behind).await;
    eventually(DEADLINE, "it is not believed any more", async || {
        replica_since.elapsed() >= TRUSTED_FOR
    })
    .await;
    let keys = [lock, other];
    eventually(DEADLINE, "both are refused", async || {
        let asked = Instant::now();
        let renewals = keys.each_ref().map(|key| renewal(key, me));
        let mut refused = 0;
        for answer in store.renew(RenewBatch::new(&renewals)).await {
            match answer {
                Ok(_) => {
                    let after = asked.saturating_duration_since(replica_since);
                    assert!(
                        after < TRUSTED_FOR,
                        "broken promise: a replica renews a lease {after:?} after it has become one"
                    );
                }
                Err(error) if error.kind() == StoreErrorKind::ReadOnly => refused += 1,
                Err(_) => {}
            }
        }
        refused == keys.len()
    })
    .await;
    run(&mut behind, "REPLICAOF NO ONE").await;
    eventually(DEADLINE, "it is renewed", async || {
        store.renew_one(renewal(&keys[0], me)).await == Ok(Renewal::Renewed)
    })
    .await;
}

/// The price of the promise.
pub(crate) async fn a_role_is_asked_for_seldom(make: Make) {
    let (server, store, _behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    let (hellos, begun) = (server.command_count("hello").await, Instant::now());
    for _ in 0..300 {
        take(&store, &lock, me).await;
    }
    let elapsed = begun.elapsed();
    let asked = server.command_count("hello").await - hellos;
    // Each look at the counts logs in.
    let most = 3 + elapsed.as_millis() / TRUSTED_FOR.as_millis();
    assert!(
        u128::from(asked) <= most,
        "{asked} times within {elapsed:?}"
    );
}
