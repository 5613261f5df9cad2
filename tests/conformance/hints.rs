//! Hints about grants, and the manager that gets them.

use dlock::LockManager;
#[cfg(feature = "redis")]
use dlock_testkit::{RedisServer, patient};
use tokio::time::Instant;

#[cfg(feature = "redis")]
use crate::common::{HasServer, RawKeys, Redis, soon};
use crate::{
    cases::TTL,
    common::{Env, Kind, Memory, OneKey, Wire},
};

/// A granted waiter starts on the hint alone, and nobody else is made to ask.
#[tokio::test(start_paused = true)]
async fn a_hint_reaches_the_granted_waiters_manager_only() {
    let env = Memory::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let mut wires = Vec::new();
    let mut managers = Vec::new();
    for _ in 0..3 {
        let wire = Wire::new(env.store().await);
        managers.push(
            LockManager::builder()
                .build_with_store(wire.clone())
                .unwrap(),
        );
        wires.push(wire);
    }
    let guard = managers[0].lock("order:42").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (others, manager) in (0..).zip(&managers[1..]) {
        let lock = manager.lock("order:42").wait(TTL);
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        key.until_waiting(others + 1).await;
    }
    let asked = [&wires[1], &wires[2]].map(|wire| wire.count(Kind::Acquire));
    let before = Instant::now();
    guard.release().await.unwrap();
    let next = waiting.remove(0).await.unwrap();
    assert!(before.elapsed().is_zero(), "it did not wait for its timer");
    let asks = [&wires[1], &wires[2]].map(|wire| wire.count(Kind::Acquire));
    assert_eq!(asks, asked);
    next.release().await.unwrap();
    waiting.remove(0).await.unwrap().release().await.unwrap();
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_hint_goes_to_the_channel_of_the_granted_waiter_only() {
    one_hint_for_one_grant::<Redis>().await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_hint_for_a_raw_key_goes_to_the_channel_of_the_granted_waiter_only() {
    one_hint_for_one_grant::<RawKeys>().await;
}

/// One message for one grant, on the channel of the one manager. The key looks like the queue of
/// another.
#[cfg(feature = "redis")]
async fn one_hint_for_one_grant<E: Env + HasServer>() {
    const KEY: &str = "order:42:q";

    let env = E::start().await;
    let key = OneKey::new(env.store().await, KEY);
    let [holder, first, second, newcomer] = [(); 4].map(|()| OneKey::<E::Store>::owner());
    let mut fences = [0, 0];
    let heard = messages_during(env.server(), async {
        key.granted(holder, TTL).await;
        key.busy(first).await;
        key.busy(second).await;
        key.release(holder).await;
        fences[0] = key.granted(first, TTL).await;
        // The first of those who wait is told as well when somebody else finds the lock free.
        env.delete(KEY).await;
        fences[1] = key.busy(newcomer).await.last_fence;
        key.release(newcomer).await;
        key.release(second).await;
    })
    .await;
    let told = [(first, fences[0]), (second, fences[1])].map(|(owner, fence)| {
        let channel = format!("dlock:wake:{}", owner.client());
        (channel, format!("{owner} {fence} {KEY}"))
    });
    assert_eq!(heard, told);
    env.assert_clean(1, &[]).await;
}

/// What is published on any channel while `work` is done.
#[cfg(feature = "redis")]
pub(crate) async fn messages_during(
    server: &RedisServer,
    work: impl Future<Output = ()>,
) -> Vec<(String, String)> {
    let (sender, mut pushed) = tokio::sync::mpsc::unbounded_channel();
    let client = ::redis::Client::open(server.url() + "/?protocol=resp3").unwrap();
    let config = patient().set_push_sender(sender);
    let mut listener = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap();
    listener.psubscribe("*").await.unwrap();
    work.await;
    // Whatever was published came before this.
    let mut connection = server.connection().await;
    let _: u32 = ::redis::cmd("PUBLISH")
        .arg("end")
        .arg("")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut heard = Vec::new();
    while let Some(message) = soon(pushed.recv()).await {
        let Some(message) = ::redis::Msg::from_push_info(message) else {
            continue;
        };
        if message.get_channel_name() == "end" {
            break;
        }
        let text: String = message.get_payload().unwrap();
        heard.push((message.get_channel_name().to_owned(), text));
    }
    heard
}
