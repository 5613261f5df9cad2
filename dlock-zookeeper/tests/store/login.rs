//! Users.

use dlock::LockError;
use dlock_runtime::StoreErrorKind;
use dlock_testkit::ZooKeepers;

use crate::world::{SESSION, manager};

#[tokio::test]
async fn only_the_user_of_the_url_gets_to_its_nodes() {
    let servers = ZooKeepers::shared().await;
    let hosts = format!("127.0.0.1:{}/shop", servers.port(0));
    let url = |login: &str| ZooKeepers::url_of(&format!("{login}{hosts}"), SESSION);
    let shop = manager(&url("shop:p%40ss@")).await;
    let held = shop.lock("order:42").acquire().await.unwrap();
    let other = manager(&url("")).await;
    let error = other.lock("order:42").try_acquire().await.unwrap_err();
    let LockError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Denied, "{reason}");
    held.release().await.unwrap();
}
