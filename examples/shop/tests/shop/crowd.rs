//! Many clients pay the same orders through three copies of the shop.

use dlock_testkit::RedisServer;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::shop::{Shop, nothing_is_left_in};

const ORDERS: usize = 20;
const PAYMENTS: usize = 200;
/// Of a payment that got no lock, because the server did not answer in time.
const REPEATS: usize = 10;

/// The orders afterwards, and the outcome of each payment.
struct Crowd {
    orders: Vec<Value>,
    outcomes: Vec<(i64, String)>,
}

/// Sends 200 payments of 20 orders at the same time. Half of them use `pay-to-the-end`.
async fn pay(server: &RedisServer, arguments: &[&str]) -> Crowd {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let all = [&["--provider-delay", "300ms"], arguments].concat();
    let start = || Shop::start(Some(server), &database, &all);
    // At the same time: each copy may be the one that creates the file.
    let (one, two, three) = tokio::join!(start(), start(), start());
    let copies = [one, two, three].map(std::sync::Arc::new);

    let mut orders = Vec::new();
    for number in 0..ORDERS {
        orders.push(copies[0].order(&format!("item {number}")).await);
    }
    let mut payments = JoinSet::new();
    for payment in 0..PAYMENTS {
        let copy = copies[payment % copies.len()].clone();
        let order = orders[payment % ORDERS];
        payments.spawn(async move {
            let how = if (payment / ORDERS).is_multiple_of(2) {
                "pay"
            } else {
                "pay-to-the-end"
            };
            let path = format!("/api/orders/{order}/{how}");
            let mut answer = copy.post(&path).await;
            // The server of the locks was too slow, as on a busy machine, and the order was not touched.
            for _ in 0..REPEATS {
                if !answer.has_no_lock() {
                    break;
                }
                answer = copy.post(&path).await;
            }
            (order, answer.outcome())
        });
    }
    let outcomes = payments.join_all().await;
    let state = copies[0].state().await;
    Crowd {
        orders: state["orders"].as_array().unwrap().clone(),
        outcomes,
    }
}

impl Crowd {
    /// Returns the orders that were not paid exactly once.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for order in &self.orders {
            let of_it = |outcome: &str| {
                let outcomes = self.outcomes.iter();
                outcomes
                    .filter(|(id, it)| order["id"] == *id && it == outcome)
                    .count()
            };
            let (paid, charges) = (of_it("paid"), &order["charges"]);
            if paid != 1 || *charges != 1 || !order["paid_by"].is_string() {
                faults.push(format!("paid {paid} times: {order}"));
            }
        }
        faults
    }
}

#[tokio::test]
async fn every_order_is_charged_once() {
    let server = RedisServer::start().await;
    let crowd = pay(&server, &[]).await;
    assert_eq!(crowd.orders.len(), ORDERS);
    assert_eq!(crowd.outcomes.len(), PAYMENTS);
    let is_twice = |order: &&Value| order["charges"].as_i64() > Some(1);
    let twice: Vec<_> = crowd.orders.iter().filter(is_twice).collect();
    assert!(twice.is_empty(), "broken promise: charged twice: {twice:?}");
    assert_eq!(crowd.faults(), Vec::<String>::new());
    for (order, outcome) in &crowd.outcomes {
        let known = ["paid", "already-paid", "busy"].contains(&outcome.as_str());
        assert!(known, "order {order}: {outcome}");
    }
    for order in &crowd.orders {
        assert_ne!(order["fence"], "0", "{order}");
    }
    nothing_is_left_in(&server).await;
}

#[tokio::test]
async fn without_a_lock_the_same_crowd_is_charged_twice() {
    let server = RedisServer::start().await;
    let crowd = pay(&server, &["--without-lock"]).await;
    let twice = crowd
        .orders
        .iter()
        .filter(|order| order["charges"].as_i64() > Some(1));
    assert!(
        twice.count() > 0,
        "no order was charged twice: {:?}",
        crowd.orders
    );
    assert_ne!(crowd.faults(), Vec::<String>::new());
    assert_eq!(server.keys("*").await, Vec::<String>::new());
}
