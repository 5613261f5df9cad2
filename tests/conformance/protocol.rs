//! The cases of what a store keeps, and of scripts that servers forget.

pub(crate) use crate::cases::protocol::*;
#[cfg(feature = "redis")]
use crate::common::{Env, HasServer, OldRedis, Redis, Valkey, soon};

/// A server that lost its scripts gets them again, and nothing is done twice.
#[cfg(feature = "redis")]
async fn taught_again<E: Env + HasServer>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let mut connection = env.server().connection().await;
    let mut forget = async || {
        ::redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async::<()>(&mut connection)
            .await
            .unwrap();
    };
    forget().await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    forget().await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<Redis>().await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_valkey_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<Valkey>().await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn an_old_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<OldRedis>().await;
}
