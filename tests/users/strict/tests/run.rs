//! Runs what a strict crate has locked.

#![deny(warnings)]

use std::time::Duration;

use dlock::{LockManager, with_manager};
use user_strict::{Shop, ShopError, Till as _, boxed, generic, parsed, settle, short, transfer};

#[tokio::test]
async fn functions() {
    let manager = LockManager::memory();
    with_manager(manager.clone(), async {
        assert_eq!(settle(7).await.unwrap(), "order:7");
        assert!(matches!(settle(0).await, Err(ShopError::Missing)));
        assert_eq!(transfer(2, 1).await.unwrap(), 2);
        assert_eq!(transfer(2, 2).await.unwrap(), 1);
        assert_eq!(parsed("4", Some(9)).await.unwrap(), 6);
        assert!(parsed("four", Some(9)).await.is_err());
        assert_eq!(short().await.unwrap(), 1);
        assert_eq!(generic::<_, 2>((1, 2), 'x').await.unwrap(), ['x'; 2]);
        assert_eq!(boxed(7).await.unwrap(), 7);
    })
    .await;
    assert_eq!(manager.active_keys(), 0);
}

#[tokio::test]
async fn methods() {
    let locks = LockManager::memory();
    let mut shop = Shop::new("nord".to_owned(), locks.clone());
    assert_eq!(shop.count().await, Some(0));
    let guard = locks.lock("count:nord").acquire().await.unwrap();
    assert_eq!(shop.count().await, None, "somebody else counts");
    guard.release().await.unwrap();
    assert_eq!(shop.ship(Duration::from_secs(1)).await.unwrap(), 0);
    assert_eq!(shop.take(2).await.unwrap(), 2);
    assert!(matches!(shop.take(0).await, Err(ShopError::Missing)));
    assert_eq!(shop.ship_last().await.unwrap(), 0);
    assert_eq!(locks.active_keys(), 0);
}
