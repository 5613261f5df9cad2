//! Keys whose claims make an answer larger than clients of gRPC usually accept.

use dlock_runtime::store::{AcquireOutcome, LockStore, ReleaseRequest};
use dlock_testkit::EtcdServer;

use crate::quiet::{ask, key, owner, store};

#[tokio::test]
async fn a_waiter_waits_although_the_claims_of_its_key_are_large() {
    let server = EtcdServer::start().await;
    let store = store(&server.url());
    let (large, waiter) = (key("order:1"), owner());
    let value = "x".repeat(1024 * 1024);
    for number in 0..5 {
        let name = format!("dlock/order:1/{number}");
        server.put(&name, &value).await;
    }
    let answer = ask(&store, &large, waiter).await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Busy(_))),
        "{answer:?}"
    );
    let request = ReleaseRequest::new(&large, waiter);
    store.release(request).await.unwrap();
    assert_eq!(server.keys("dlock/order:1/").await.len(), 5);
}
