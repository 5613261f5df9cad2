//! Runs what a bare crate has locked.

#![deny(warnings)]

use std::time::Duration;

use dlock::{LockManager, with_manager};
use user_bare::{Shop, both, boxed, free, generic};

#[tokio::test]
async fn run() {
    let manager = LockManager::memory();
    with_manager(manager.clone(), async {
        assert_eq!(free(1, 2, 3, 4, 5).await.unwrap(), 15);
        let guard = manager.lock("free:1:2").acquire().await.unwrap();
        assert_eq!(free(1, 2, 3, 4, 5).await.unwrap(), 0, "somebody holds it");
        guard.release().await.unwrap();
        assert_eq!(both(1, 2).await.unwrap(), 3);
        let generic = generic::<_, 2>("a", 1_u8).await;
        assert_eq!(generic.unwrap(), ("a", [1, 1]));
        assert_eq!(boxed(7).await.unwrap(), 7);
    })
    .await;
    // One of them is held a little longer than its body takes.
    manager.shutdown(Duration::from_secs(5)).await;
    assert_eq!(manager.active_keys(), 0);
}

#[tokio::test]
async fn methods() {
    let locks = LockManager::memory();
    let shop = Shop { tenant: 4, locks };
    assert_eq!(shop.method().await, Some(4));
    let guard = shop.locks.lock("shop:4").acquire().await.unwrap();
    assert_eq!(shop.method().await, None);
    guard.release().await.unwrap();
    assert_eq!(shop.made(2).await.unwrap(), 6);
    assert_eq!(shop.detached().await.unwrap(), 4);
}
