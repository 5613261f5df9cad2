//! Users that may only read, or not even that.

use dlock_runtime::{
    StoreErrorKind,
    admin::{Inspect, Unlocked},
};
use tokio::time::timeout;
use zookeeper_client::{Acl, AuthId, Client, Error, Permission};

use super::{Place, SOON, seen};

/// Lets every client read the nodes, which only their user may write.
async fn let_all_read(place: &Place, key: &str) {
    let host = format!("127.0.0.1:{}", place.servers.port(0));
    let shop = Client::connector().with_auth("digest", b"shop:hush");
    let shop = shop.connect(&host).await.unwrap();
    let acls = [
        Acl::new(Permission::ALL, AuthId::authed()),
        Acl::new(Permission::READ, AuthId::anyone()),
    ];
    let directory = place.path(&format!("/lock:{key}"));
    let mut paths = vec![place.path(""), place.path("/fence"), directory.clone()];
    let children = shop.list_children(&directory).await.unwrap();
    paths.extend(children.iter().map(|it| format!("{directory}/{it}")));
    for path in paths {
        shop.set_acl(&path, &acls, None).await.unwrap();
    }
}

#[tokio::test]
async fn who_may_only_read_sees_all_and_ends_nothing() {
    let place = Place::new("rights").await;
    let shop = place.manager_of("shop", "shop:hush@").await;
    let guard = shop.lock("job").acquire().await.unwrap();
    let looker = place.inspector().await;
    let error = looker.locks(None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    let advice = "have their user grant you READ on `/rights`";
    assert!(error.to_string().contains(advice), "{error}");

    let_all_read(&place, "job").await;
    let lock = seen(&looker, "job").await;
    assert_eq!(looker.locks(None).await.unwrap().len(), 1);
    let label = lock.holder.as_ref().unwrap().label.as_deref();
    assert!(label.is_some_and(|it| it.starts_with("shop@")));
    let error = looker.unlock(&lock, None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.has_no_effect(), "{error:?}");
    let advice = "the lease was not ended, as you may not delete nodes in `/rights/lock:job`";
    assert!(error.to_string().contains(advice), "{error}");
    assert_eq!(place.children("/lock:job").await.len(), 1);
    guard.ensure_held().unwrap();

    // The user of the locks can, and its processes can read the message.
    let operator = place.inspector_of("shop:hush@").await;
    let unlocked = operator.unlock(&lock, None).await.unwrap();
    assert_eq!(unlocked, Unlocked::Freed);
    timeout(SOON, guard.lost()).await.expect("it is told");
    let forged = place.client.set_data("/rights/notice", b"mine", None).await;
    assert_eq!(
        forged,
        Err(Error::NoAuth),
        "a message belongs to the user of the locks"
    );
}
