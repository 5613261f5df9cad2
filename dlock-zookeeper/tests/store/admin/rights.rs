//! Users that may only read, or not even that.

use dlock_admin::{Inspect, Unlocked};
use dlock_runtime::StoreErrorKind;
use tokio::time::timeout;
use zookeeper_client::{Acl, AuthId, Client, Error, Permission};

use super::{Place, SOON, key, seen, staying};
use crate::world::client_of;

/// Lets every client read the nodes, which only their user may write.
async fn let_all_read(place: &Place, key: &str) {
    let shop = client(place, "shop:hush@").await;
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

/// A reader of the URL, its login, and a login that is no reader.
const READERS: [(&str, &str, Option<&str>); 2] = [
    ("ip:127.0.0.1", "", None),
    // The hash is that of `ops:hush`.
    (
        "digest:ops:I2oGqT4aa4BNMzVw3HLrNru/ir8=",
        "ops:hush@",
        Some("ops:wrong@"),
    ),
];

#[tokio::test]
async fn readers_of_the_url_see_all_and_change_nothing() {
    for (name, (readers, login, stranger)) in ["readers-ip", "readers-ops"].into_iter().zip(READERS)
    {
        let place = Place::new(name).await;
        // The directory of the locks is older than the option.
        let older = place.manager_of("older", "shop:hush@").await;
        let guard = older.lock("other").acquire().await.unwrap();
        guard.release().await.unwrap();
        // As the servers do after a while with a directory that is not used.
        let shop = client(&place, "shop:hush@").await;
        shop.delete(&place.path("/lock:other"), None).await.unwrap();
        let url = format!("{}&readers={readers}", place.url_of("shop:hush@"));
        let shop = place.manager_at("shop", &url).await;
        let guard = shop.lock("job").acquire().await.unwrap();
        let looker = place.inspector_of(login).await;
        let lock = seen(&looker, "job").await;
        assert_eq!(looker.locks(None).await.unwrap().len(), 1);
        let label = lock.holder.as_ref().unwrap().label.as_deref();
        assert!(label.is_some_and(|it| it.starts_with("shop@")));
        let error = looker.unlock(&lock, None).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied);
        if let Some(stranger) = stranger {
            let stranger = place.inspector_of(stranger).await;
            let error = stranger.lock(&key("job")).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Denied);
        }

        let operator = place.inspector_of("shop:hush@").await;
        let unlocked = operator.unlock(&lock, None).await.unwrap();
        assert_eq!(unlocked, Unlocked::Freed);
        timeout(SOON, guard.lost()).await.expect("it is told");
        let _held = shop.lock("job").acquire().await.unwrap();
        changes_nothing(&place, login).await;
    }
}

/// A client of a user, such as `shop:hush@`, beside dlock's own.
async fn client(place: &Place, login: &str) -> Client {
    let mut connector = Client::connector();
    if let Some(login) = login.strip_suffix('@') {
        connector = connector.with_auth("digest", login.as_bytes());
    }
    client_of(place.servers, connector).await
}

/// Tries to change each kind of node.
async fn changes_nothing(place: &Place, login: &str) {
    let reader = client(place, login).await;
    let [fence, job] = ["/fence", "/lock:job"].map(|it| place.path(it));
    let mut paths = vec![
        place.path(""),
        place.path("/notice"),
        fence.clone(),
        job.clone(),
    ];
    for directory in [fence, job] {
        let children = reader.list_children(&directory).await.unwrap();
        paths.extend(children.iter().map(|it| format!("{directory}/{it}")));
    }
    assert_eq!(paths.len(), 6, "{paths:?}");
    let own = [Acl::new(Permission::ALL, AuthId::anyone())];
    for path in paths {
        // The base of the tokens is older than the option. Its name is all of it.
        let is_base = path.starts_with(&place.path("/fence/"));
        assert!(reader.get_data(&path).await.is_ok() || is_base, "{path}");
        let denied = Err(Error::NoAuth);
        assert_eq!(
            reader.set_data(&path, b"mine", None).await.map(drop),
            denied
        );
        assert_eq!(reader.set_acl(&path, &own, None).await.map(drop), denied);
        // The ACL of the parent decides on deletions, and that of the directory of all locks is open.
        let deleted = reader.delete(&path, None).await;
        let is_root = path == place.path("");
        let expected = if is_root {
            Error::NotEmpty
        } else {
            Error::NoAuth
        };
        assert_eq!(deleted, Err(expected), "{path}");
        let below = format!("{path}/mine");
        let created = reader.create(&below, b"", &staying()).await;
        assert_eq!(created.map(drop), denied);
    }
}
