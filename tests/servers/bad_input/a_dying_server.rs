//! A server that dies while its locks are held and wanted.

use std::time::Duration;

use dlock::{LostCause, store::StoreErrorKind};

use crate::bad_input::{WAIT, assert_says, refusal, unavailable};
use crate::common::{Env, Redis, assert_idle, is_lost, soon};

/// Long enough for a body to begin, and for a renewal to fail before the deadline, on a machine that stands still for a second.
const TTL: Duration = Duration::from_secs(4);

#[tokio::test]
async fn ends_the_body_when_its_lease_cannot_be_renewed() {
    let env = Redis::start().await;
    let manager = env
        .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
        .await;
    let body = manager.lock("order:42").ttl(TTL).run(async |_| {
        env.server.kill();
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    let unreachable = |cause: &LostCause| {
        matches!(cause, LostCause::NotRenewed { reason }
            if reason.kind() == StoreErrorKind::Unreachable)
    };
    assert!(is_lost(&outcome, unreachable), "{outcome:?}");
    assert_says(
        &outcome.unwrap_err(),
        &[
            "`order:42`",
            "check the data that the critical section wrote",
        ],
    );
    assert_idle(&[&manager]).await;
}

#[tokio::test]
async fn does_not_spoil_the_result_of_a_body_that_was_done_in_time() {
    let env = Redis::start().await;
    let manager = env
        .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
        .await;
    let body = manager.lock("order:42").ttl(TTL).run(async |_| {
        env.server.kill();
        "done"
    });
    assert_eq!(soon(body).await, Ok("done"));
    assert_idle(&[&manager]).await;
}

#[tokio::test]
async fn refuses_who_waits_when_the_wait_is_over() {
    let env = Redis::start().await;
    let manager = env
        .manager_with(|it| it.response_timeout(Duration::from_millis(300)).wait(WAIT))
        .await;
    env.server.kill();
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unreachable);
}

/// It has forgotten everything, and the tokens still grow.
#[tokio::test]
async fn that_comes_back_empty_gives_greater_tokens() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    env.server.restart().await;
    let other = env.manager().await;
    let next = soon(other.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    let outcome = soon(guard.release()).await;
    // Either it was told, or it was not told anything.
    let told = is_lost(&outcome, |cause| *cause == LostCause::Revoked);
    assert!(told || outcome.is_ok(), "{outcome:?}");
    soon(next.release())
        .await
        .expect("its lock was not touched");
}
