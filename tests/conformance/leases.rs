//! The cases of leases, and what is tested of memory alone.

pub(crate) use crate::cases::leases::*;
use crate::common::{Env, Memory, OneKey};

/// Fences of the store and of the managers above it agree.
#[tokio::test(start_paused = true)]
async fn a_token_is_made_of_the_fence_in_the_store() {
    let env = Memory::start().await;
    let manager = env.manager().await;
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let store = env.store().await;
    let key = OneKey::new(store, "order:42");
    let seen = key.busy(OneKey::<<Memory as Env>::Store>::owner()).await;
    assert_eq!(guard.fencing_token().fence(), seen.last_fence);
    guard.release().await.unwrap();
}
