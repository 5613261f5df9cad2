//! Clients that disconnect before the end of their payment.

use std::sync::Arc;

use dlock_testkit::{RedisServer, eventually};
use tokio::task::JoinHandle;

use crate::shop::{Answer, LIMIT, Shop, left_in, nothing_is_left_in};

/// Longer than the test, so a lock that disappears was released.
const TTL: [&str; 2] = ["--ttl", "10m"];

/// Starts a payment in a task. If the task is aborted, the connection closes.
async fn begin(copy: &Arc<Shop>, order: i64, how: &'static str) -> JoinHandle<Answer> {
    let client = Arc::clone(copy);
    let payment = tokio::spawn(async move { client.post(&path(order, how)).await });
    copy.asks_the_provider(order).await;
    payment
}

fn path(order: i64, how: &str) -> String {
    format!("/api/orders/{order}/{how}")
}

#[tokio::test]
async fn a_payment_ends_with_its_client_and_the_order_is_free_at_once() {
    let server = RedisServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let slow = [&TTL[..], &["--provider-delay", "10m"]].concat();
    let slow = Arc::new(Shop::start(Some(&server), &database, &slow).await);
    let quick = [&TTL[..], &["--provider-delay", "10ms"]].concat();
    let quick = Shop::start(Some(&server), &database, &quick).await;
    let order = quick.order("a lamp").await;

    let payment = begin(&slow, order, "pay").await;
    assert_eq!(quick.post(&path(order, "pay")).await.outcome(), "busy");
    assert_eq!(left_in(&server).await.len(), 1, "the lock is held");
    let holder = slow.state().await["name"].as_str().unwrap().to_owned();
    eventually(LIMIT, "the page shows the holder", async || {
        let locks = &quick.state().await["locks"];
        let held = &locks["held"][order.to_string()];
        let by = held["by"].as_str();
        by.is_some_and(|by| by.starts_with(&holder))
            && held["function"] == "shop::pay::pay"
            && locks["copies"].as_array().unwrap().len() == 2
    })
    .await;

    payment.abort();
    slow.logs(&["client disconnected", "pay"]).await;
    eventually(LIMIT, "the lock is released", async || {
        left_in(&server).await.is_empty()
    })
    .await;
    let abandoned = quick.look(order).await;
    assert!(abandoned["paid_by"].is_null(), "{abandoned}");
    assert_eq!(abandoned["charges"], 0, "{abandoned}");
    assert_eq!(quick.post(&path(order, "pay")).await.outcome(), "paid");
    assert_eq!(slow.look(order).await["charges"], 1);
    nothing_is_left_in(&server).await;
}

#[tokio::test]
async fn a_payment_to_the_end_goes_on_without_its_client() {
    let server = RedisServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&TTL[..], &["--provider-delay", "2s"]].concat();
    let database = directory.path().join("shop.db");
    let shop = Shop::start(Some(&server), &database, &arguments).await;
    let shop = Arc::new(shop);
    let order = shop.order("a chair").await;

    let payment = begin(&shop, order, "pay-to-the-end").await;
    payment.abort();
    shop.logs(&["client disconnected", "pay-to-the-end"]).await;
    eventually(LIMIT, "the order is paid", async || {
        shop.is_paid(order).await
    })
    .await;
    assert_eq!(shop.look(order).await["charges"], 1);
    let again = shop.post(&path(order, "pay")).await;
    assert_eq!(again.outcome(), "already-paid");
    nothing_is_left_in(&server).await;
}
