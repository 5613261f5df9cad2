//! A user who depends on dlock under another name, and hands it on to others.

#![deny(warnings)]

use std::{future::Future, pin::Pin};

use async_trait::async_trait;
use locks::{KeyPart, LockError, LockManager, distributed_lock};

/// What every module of a service imports.
pub mod prelude {
    /// Under a third name.
    pub use locks as mutual_exclusion;
    pub use locks::{self, LockError, LockManager, distributed_lock};
}

#[distributed_lock(key = "order:<id>", crate = locks, lease = lease)]
pub async fn by_name(id: u64) -> Result<String, LockError> {
    Ok(lease.key().to_string())
}

#[locks::distributed_lock(crate = ::locks, key = "order:<id>", lease = lease, on_cancel = detach)]
pub async fn by_absolute_path(id: u64) -> Result<String, LockError> {
    Ok(lease.key().to_string())
}

pub mod elsewhere {
    use crate::prelude::*;

    #[distributed_lock(crate = mutual_exclusion, key = "elsewhere:<part>", lease = lease)]
    pub async fn by_prelude(part: impl super::Part) -> Result<String, LockError> {
        let _ = &part;
        Ok(lease.key().to_string())
    }
}

pub trait Part: KeyPart + Sync {}

impl Part for char {}

/// Guards a function, also where neither name of dlock is known.
#[macro_export]
macro_rules! locked {
    ($key:literal, $name:ident($id:ident: $ty:ty) $body:block) => {
        #[$crate::prelude::distributed_lock(
                            key = $key,
                            crate = $crate::prelude::locks,
                            wait = never,
                            ttl = ::core::time::Duration::from_secs(3),
                            on_busy = ::core::result::Result::Ok(::core::option::Option::None),
                        )]
        async fn $name(
            $id: $ty,
        ) -> ::core::result::Result<::core::option::Option<$ty>, $crate::prelude::LockError> {
            ::core::result::Result::Ok(::core::option::Option::Some($body))
        }
    };
}

#[async_trait]
pub trait Till {
    async fn take(&self, amount: u8) -> u8;
}

pub struct Shop(pub LockManager);

#[async_trait]
impl Till for Shop {
    #[distributed_lock(
        key = "till:<amount>",
        crate = locks,
        manager = self.0,
        on_error = |_error| 0,
        max_hold = locks::MAX_TTL
    )]
    async fn take(&self, amount: u8) -> u8 {
        amount
    }
}

#[distributed_lock(key = "boxed", crate = crate::prelude::mutual_exclusion)]
pub fn boxed() -> Pin<Box<dyn Future<Output = Result<u8, LockError>> + Send>> {
    Box::pin(async move { Ok(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    locked!("made:<id>", made(id: u8) { id + 1 });

    #[tokio::test]
    async fn run() {
        let manager = LockManager::memory();
        locks::with_manager(manager.clone(), async {
            assert_eq!(by_name(1).await.unwrap(), "order:1");
            assert_eq!(by_absolute_path(2).await.unwrap(), "order:2");
            let elsewhere = elsewhere::by_prelude('/').await;
            assert_eq!(elsewhere.unwrap(), "elsewhere:%2F");
            assert_eq!(made(3).await.unwrap(), Some(4));
            assert_eq!(boxed().await.unwrap(), 1);
        })
        .await;
        assert_eq!(manager.active_keys(), 0);
    }

    #[tokio::test]
    async fn methods() {
        let shop: &dyn Till = &Shop(LockManager::memory());
        assert_eq!(shop.take(7).await, 7);
    }
}
