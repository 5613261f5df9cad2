//! Connections that are cut, silent or terminated.

use std::{future::pending, sync::Arc, time::Duration};

use dlock_faults::{Resource, is_released, names};
use dlock_postgres::{Fence, FenceError};
use dlock_runtime::{LockError, LostCause};
use dlock_testkit::{Proxy, eventually};
use tokio::sync::Notify;

use crate::world::{CONNECTIONS, DEADLINE, END, World, client, connect};

#[tokio::test]
async fn a_silent_connection_is_replaced_and_the_lease_renewed_before_its_end() {
    let world = World::shared().await;
    let (proxy, manager) = world.behind_proxy().await;
    // A third of it is more than the connection takes to be replaced, and the rest is for a busy machine.
    let guard = manager.holds("order:42", Duration::from_secs(24)).await;
    let end = world.number(END).await;
    proxy.freeze();
    let before = proxy.accepted_connections();
    eventually(DEADLINE, "the connection is made again", async || {
        proxy.accepted_connections() > before
    })
    .await;
    proxy.thaw();
    world.until("it is renewed", END, |now| now > end).await;
    is_released(guard).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_is_lost_before_another_process_has_it() {
    let world = World::shared().await;
    let (proxy, manager) = world.behind_proxy().await;
    let other = world.manager().await;
    let (resource, entered) = (Arc::new(Resource::default()), Arc::new(Notify::new()));
    let lock = manager.lock("order:42").ttl(Duration::from_secs(5));
    let call = tokio::spawn({
        let (resource, entered) = (resource.clone(), entered.clone());
        lock.run(async move |lease| {
            let _inside = resource.enter(0, lease.fencing_token());
            entered.notify_one();
            pending::<()>().await;
        })
    });
    entered.notified().await;
    proxy.freeze();
    let next = other.lock("order:42").acquire().await.unwrap();
    resource.is_left();
    let lost = call.await.unwrap().unwrap_err();
    let LockError::Lost { cause, .. } = &lost else {
        panic!("{lost}");
    };
    assert!(matches!(cause, LostCause::NotRenewed { .. }), "{lost}");
    names(&lost, &["`order:42`", "answer"]);
    proxy.thaw();
    next.release().await.unwrap();
    world.nothing_is_left().await;
    manager.is_idle().await;
}

#[tokio::test]
async fn connections_that_are_cut_again_and_again_lose_no_lease_and_fail_no_call() {
    let world = World::shared().await;
    let (proxy, manager) = world.behind_proxy().await;
    let guard = manager.holds("order:42", DEADLINE).await;
    for _ in 0..10 {
        proxy.cut();
        manager.lock("order:43").run(async |_| ()).await.unwrap();
    }
    proxy.cut_before_reply_to("acquire");
    manager.lock("order:44").run(async |_| ()).await.unwrap();
    assert!(!proxy.is_trap_set(), "a request has lost its answer");
    is_released(guard).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn renewals_take_the_other_connection_while_theirs_cannot_be_made() {
    let world = World::shared().await;
    let proxy = Proxy::start(world.server.port());
    let url = format!("{}?listen=127.0.0.1:{}", world.url(), proxy.port());
    let manager = connect(&url).await;
    proxy.refuse();
    proxy.cut();
    let guard = manager.holds("order:42", Duration::from_secs(8)).await;
    let end = world.number(END).await + 8000;
    world
        .until("it outlives its TTL", END, |now| now > end)
        .await;
    guard.ensure_held().unwrap();
    let before = proxy.accepted_connections();
    proxy.accept();
    eventually(DEADLINE, "their connection is made again", async || {
        proxy.accepted_connections() > before
    })
    .await;
    guard.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_check_that_arrives_after_the_loss_of_the_lease_finds_none() {
    let world = World::shared().await;
    let proxy = Proxy::start(world.server.port());
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
    let mut client = client(&world.url_at(proxy.port())).await;
    let tx = client.transaction().await.unwrap();
    proxy.freeze();
    // The holder believes in its lease when it sends the check.
    let (refused, next) = tokio::join!(guard.fence(&tx), async {
        let end = "UPDATE dlock.holder SET ends = clock_timestamp()";
        world.execute(end).await;
        let next = other.lock("account:7").acquire().await.unwrap();
        proxy.thaw();
        next
    });
    let refused = refused.expect_err("broken promise: a late transaction was accepted");
    assert!(matches!(refused, FenceError::NotHeld { .. }), "{refused:?}");
    names(&refused, &["`account:7`"]);
    tx.rollback().await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_terminated_is_replaced_without_a_request() {
    let world = World::shared().await;
    let manager = world.manager().await;
    let pids = format!(
        "{} AND pid <> ALL ($1)",
        CONNECTIONS.replace("count(*)", "pid")
    );
    let client = world.client().await;
    let find = async |known: &Vec<i32>| -> Vec<i32> {
        let rows = client.query(&pids, &[known]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let mut first = Vec::new();
    eventually(DEADLINE, "there are two", async || {
        first = find(&Vec::new()).await;
        first.len() == 2
    })
    .await;
    for pid in &first {
        let ended = "SELECT pg_terminate_backend($1)";
        client.query_one(ended, &[pid]).await.unwrap();
    }
    eventually(DEADLINE, "there are two others", async || {
        find(&first).await.len() == 2
    })
    .await;
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    world.nothing_is_left().await;
}
