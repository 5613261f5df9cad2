//! The cases of quorum nodes, and what one server tells.

pub(crate) use crate::cases::nodes::*;

/// One message, without a fence.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_tells_who_waits_for_notice_without_a_fence() {
    use crate::{
        cases::TTL,
        common::{Env, OneKey, Redis},
        hints::messages_during,
    };

    let env = Redis::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [holder, told] = [(); 2].map(|()| OneKey::<<Redis as Env>::Store>::owner());
    let heard = messages_during(&env.server, async {
        key.granted(holder, TTL).await;
        wait_for_notice(&key, told).await;
        key.release(holder).await;
    })
    .await;
    let channel = format!("dlock:wake:{}", told.client());
    assert_eq!(heard, [(channel, format!("{told} 0 order:42"))]);
    key.release(told).await;
    assert_eq!(env.locks().await, Vec::<String>::new());
}
