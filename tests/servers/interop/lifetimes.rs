//! Leases that run out, are renewed, or never end.

use std::time::Duration;

use dlock::{LockError, Wait};
use dlock_testkit::machine_time;
use tokio::time::{Instant, sleep};

use crate::common::{Env, HasServer, LIMIT, RawKeys, soon};
use crate::interop::{KEY, foreign};

const BRIEF: Duration = Duration::from_secs(3);

#[tokio::test]
async fn what_they_let_run_out_is_free_and_not_theirs_any_more() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(BRIEF)).await;
    let before = Instant::now();
    assert_eq!(foreign.ask("try").await, "True");
    let lock = manager.lock(KEY).wait(LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    // One millisecond is what a server's clock may round away.
    assert!(before.elapsed() + Duration::from_millis(1) >= BRIEF);
    assert_eq!(foreign.ask("release").await, "LockNotOwnedError");
    soon(guard.release()).await.expect("it was still ours");
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn a_killed_holder_keeps_the_lock_for_its_time_to_live_only() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(BRIEF)).await;
    let before = Instant::now();
    assert_eq!(foreign.ask("try").await, "True");
    foreign.process.kill();
    let lock = manager.lock(KEY).wait(LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(before.elapsed() + Duration::from_millis(1) >= BRIEF);
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn a_killed_holder_without_a_time_to_live_is_told_of_and_left_alone() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), None).await;
    assert_eq!(foreign.ask("try").await, "True");
    foreign.process.kill();
    for wait in [Wait::Never, Wait::For(BRIEF)] {
        let error = soon(manager.lock(KEY).wait(wait).acquire())
            .await
            .unwrap_err();
        let LockError::Busy { holder, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((&holder.label, holder.ttl), (&None, None));
        let text = error.to_string();
        assert!(
            text.contains("held by another client without a TTL; delete the key"),
            "{text}"
        );
    }
    assert_eq!(env.locks().await, [KEY]);

    // What the error tells to do helps.
    let waiting = tokio::spawn(manager.lock(KEY).wait(LIMIT).acquire());
    env.delete(KEY).await;
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn a_lease_is_renewed_while_they_wait_for_it() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(BRIEF)).await;
    // Long enough for a machine that stands still for a second.
    let ttl = 2 * BRIEF;
    let lock = manager.lock(KEY).ttl(ttl);
    let guard = soon(lock.acquire()).await.unwrap();
    foreign.tell(&format!("wait {}", LIMIT.as_secs())).await;
    let since = Instant::now();
    while since.elapsed() < ttl + BRIEF {
        guard.ensure_held().expect("it is renewed");
        sleep(BRIEF / 10).await;
    }
    let ended = machine_time();
    soon(guard.release()).await.unwrap();
    let outcome = foreign.outcome().await;
    let got = outcome
        .strip_prefix("True ")
        .unwrap_or_else(|| panic!("{outcome}"));
    let got = Duration::from_nanos(got.parse().unwrap());
    assert!(got > ended, "{got:?} is before {ended:?}");
    env.delete(KEY).await;
    env.assert_clean(1, &[&manager]).await;
}
