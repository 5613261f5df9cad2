//! A waiter whose connection breaks and comes back.

use dlock::{LockGuard, LockManager, Wait};
use dlock_testkit::{Proxy, eventually};
use tokio::task::JoinHandle;

use crate::common::{Env, LIMIT, OneKey, Redis, connect, soon};
use crate::contention::lost_hints::fence;

/// Two waiters, of whom the first is behind a proxy.
struct Behind {
    env: Redis,
    proxy: Proxy,
    managers: [LockManager; 3],
    key: OneKey<<Redis as Env>::Store>,
    guard: Option<LockGuard>,
    first: JoinHandle<LockGuard>,
    second: JoinHandle<LockGuard>,
}

async fn wait(manager: &LockManager) -> LockGuard {
    let lock = manager.lock("order:42").wait(Wait::Forever);
    lock.acquire().await.unwrap()
}

impl Behind {
    async fn start() -> Self {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let managers = [
            env.manager().await,
            connect(&proxy.url()).await,
            env.manager().await,
        ];
        let key = OneKey::new(env.store().await, "order:42");
        let guard = Some(soon(wait(&managers[0])).await);
        let [_, first, second] = managers.clone();
        let first = tokio::spawn(async move { wait(&first).await });
        key.until_waiting(1).await;
        let second = tokio::spawn(async move { wait(&second).await });
        key.until_waiting(2).await;
        Self {
            env,
            proxy,
            managers,
            key,
            guard,
            first,
            second,
        }
    }

    /// The lock goes to the first one, which is reached from then on; the fence of its grant.
    async fn release(&mut self) -> u64 {
        let guard = self.guard.take().expect("it is released once");
        soon(guard.release()).await.unwrap();
        self.proxy.accept();
        fence(&self.env).await
    }

    /// The first gets what it was granted, and then comes the second.
    async fn finish(self, granted: u64) {
        let first = soon(self.first).await.unwrap();
        assert_eq!(first.fencing_token().fence(), granted);
        assert!(!self.second.is_finished());
        soon(first.release()).await.unwrap();
        let second = soon(self.second).await.unwrap();
        assert!(
            second.fencing_token().fence() > granted,
            "broken promise: the token did not grow"
        );
        soon(second.release()).await.unwrap();
        let managers: Vec<_> = self.managers.iter().collect();
        self.env.assert_clean(1, &managers).await;
    }
}

#[tokio::test]
async fn a_waiter_that_comes_back_in_time_has_kept_its_place() {
    let mut behind = Behind::start().await;
    let before = behind.proxy.accepted_connections();
    behind.proxy.cut();
    eventually(LIMIT, "the connection is back", async || {
        behind.proxy.accepted_connections() > before
    })
    .await;
    behind.key.until_waiting(2).await;
    let granted = behind.release().await;
    behind.finish(granted).await;
}

/// There was nobody to hear the hint.
#[tokio::test]
async fn a_grant_during_an_outage_is_found_after_it() {
    let mut behind = Behind::start().await;
    behind.proxy.refuse();
    behind.proxy.cut();
    let granted = behind.release().await;
    behind.finish(granted).await;
}
