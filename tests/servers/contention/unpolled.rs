//! Waiters whose futures are not polled when it is their turn: another process waits for moments, not for their TTL.

use std::time::Duration;

use dlock::Wait;

use crate::common::{Env, TestClock, begin, soon};

/// Longer than a test waits.
const TTL: Duration = Duration::from_secs(60);

pub(crate) async fn a_lease_that_its_task_does_not_take_is_soon_that_of_another_process<E: Env>() {
    let env = E::start().await;
    let patient = |builder: dlock::LockManagerBuilder| {
        let builder = builder.ttl(TTL).wait(Wait::Forever);
        builder.clock(TestClock::new())
    };
    let managers = [
        env.manager_with(patient).await,
        env.manager_with(patient).await,
    ];
    let [one, other] = &managers;
    let guard = soon(one.lock("order:42").acquire()).await.unwrap();
    let mut unpolled = Box::pin(one.lock("order:42").acquire());
    begin(&mut unpolled).await;
    soon(guard.release()).await.unwrap();

    let guard = soon(other.lock("order:42").acquire()).await.unwrap();
    let earlier = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    let guard = soon(unpolled).await.unwrap();
    assert!(
        guard.fencing_token() > earlier,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &managers.each_ref()).await;
}
