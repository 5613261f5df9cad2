//! A running system moves over as `docs/book/src/how-to/migration.md` says, over a real server.

use dlock::{LockError, LockManager, Wait};
use dlock_testkit::{RedisServer, eventually};

use crate::common::{LIMIT, builder, connect, is_busy, soon};

const KEY: &str = "order:42";

/// One with the plain locks of the old program, and one with those of dlock.
async fn managers(server: &RedisServer) -> (LockManager, LockManager) {
    let plain = builder().raw_keys(true);
    let plain = soon(plain.connect(&server.url())).await.unwrap();
    let own = connect(&server.url()).await;
    (plain, own)
}

/// The release between: both locks, one inside the other.
async fn settle(
    old: &LockManager,
    new: &LockManager,
    body: impl AsyncFnOnce(),
) -> Result<(), LockError> {
    let section = old.lock(KEY).wait(Wait::Never).run(async |_old| {
        let lock = new.lock(KEY).wait(Wait::Never);
        lock.run(async |_lease| body().await).await
    });
    soon(section).await?
}

#[tokio::test]
async fn who_takes_both_locks_excludes_who_takes_either() {
    let server = RedisServer::start().await;
    let (old, new) = managers(&server).await;
    let (first_release, third_release) = managers(&server).await;
    let settled = settle(&old, &new, async || {
        assert!(
            is_busy(&first_release, KEY).await,
            "broken promise: two hold the key"
        );
        assert!(
            is_busy(&third_release, KEY).await,
            "broken promise: two hold the key"
        );
    });
    settled.await.unwrap();
    for other in [&first_release, &third_release] {
        let guard = soon(other.lock(KEY).acquire()).await.unwrap();
        let refused = settle(&old, &new, async || panic!("somebody else is there")).await;
        assert!(refused.unwrap_err().is_busy());
        soon(guard.release()).await.unwrap();
    }
    settle(&old, &new, async || ()).await.unwrap();
}

/// Else who asks for the lock of the one kind would make a waiter of the other its holder.
#[tokio::test]
async fn a_plain_lock_has_a_queue_of_its_own() {
    let server = RedisServer::start().await;
    let (plain, own) = managers(&server).await;
    let (other, _) = managers(&server).await;
    let held = soon(plain.lock(KEY).acquire()).await.unwrap();
    let waiter = tokio::spawn(async move { other.lock(KEY).wait(LIMIT).acquire().await });
    eventually(LIMIT, "it waits", async || {
        !server.keys(&format!("dlock:{{{KEY}}}:rq")).await.is_empty()
    })
    .await;
    let asked = soon(own.lock(KEY).try_acquire()).await.unwrap();
    soon(asked.expect("nobody has it").release()).await.unwrap();
    assert!(!waiter.is_finished(), "broken promise: two hold the key");
    let last = held.fencing_token();
    soon(held.release()).await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(
        guard.fencing_token() > last,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
}
