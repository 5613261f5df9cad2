//! Grants to waiters, as they are told.

use dlock::FencingToken;
use dlock_admin::{Grants, Inspect};
use dlock_runtime::{StoreErrorKind, store::OwnerId};
use dlock_testkit::{Proxy, ZooKeepers, eventually, within};

use super::{Place, SESSION, inspector, seen};
use crate::{
    scripted::{Reply, Scripted, UNIMPLEMENTED},
    world::LIMIT,
};

/// The request for a watch of a node and all below it.
const ADD_WATCH: i32 = 106;

/// The next grant: its key, its owner and its token.
async fn next(grants: &mut Grants) -> (String, OwnerId, FencingToken) {
    let told = within(LIMIT, grants.next()).await.flatten();
    let grant = told.expect("it is told");
    let token = FencingToken::from_fence(grant.fence).unwrap();
    (grant.key, grant.owner, token)
}

#[tokio::test]
async fn each_grant_to_a_waiter_is_told_until_the_connection_breaks() {
    let place = Place::new("grants").await;
    let proxy = Proxy::start(place.servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}/grants", proxy.port()), SESSION);
    let (one, other) = (place.manager("one").await, place.manager("other").await);
    let waits = async |key: &str, count: usize| {
        let directory = format!("/lock:{key}");
        let is_there = async || place.children(&directory).await.len() == count;
        eventually(LIMIT, "it waits", is_there).await;
    };
    // One waits before the stream begins.
    let first = one.lock("early").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("early").wait(LIMIT).acquire());
    waits("early", 2).await;
    let inspector = inspector(&url).await;
    let mut grants = inspector.grants().await.unwrap();
    let owner = seen(&inspector, "early").await.waiters[0].owner;
    // A lock that is free is granted to no waiter.
    let free = other.lock("free").acquire().await.unwrap();
    free.release().await.unwrap();
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    let token = second.fencing_token();
    assert_eq!(next(&mut grants).await, ("early".to_owned(), owner, token));

    let writer = one.lock("late").acquire().await.unwrap();
    let reader = tokio::spawn(other.lock("late").shared().wait(LIMIT).acquire());
    waits("late", 2).await;
    let owner = seen(&inspector, "late").await.waiters[0].owner;
    writer.release().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    let token = reader.fencing_token();
    assert_eq!(next(&mut grants).await, ("late".to_owned(), owner, token));

    proxy.cut();
    let ended = within(LIMIT, grants.next()).await;
    assert!(matches!(ended, Some(None)), "{ended:?}");
    reader.release().await.unwrap();
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_publishes_no_grants_is_named() {
    let server = Scripted::start(|request| {
        (request.code == ADD_WATCH).then_some(Reply::Refused(UNIMPLEMENTED))
    })
    .await;
    let inspector = inspector(&server.url()).await;
    let error = inspector.grants().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("ZooKeeper 3.6 does"), "{error}");
    assert!(error.has_no_effect(), "{error:?}");
}
