//! The payment of an order, which must happen once for any number of requests.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use dlock::{Lease, distributed_lock};
use serde::Serialize;

use crate::{error::ShopError, web::Shop};

/// The response to a payment request.
#[derive(Debug, Serialize)]
pub(crate) struct Payment {
    outcome: Outcome,
    by: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Paid,
    AlreadyPaid,
}

type Answer = Result<Json<Payment>, ShopError>;

// With `wait = never`, a second request gets a `Busy` response at once. If the client disconnects, the body is
// dropped and the lock is released.
#[distributed_lock(key = "shop:order:<id>", wait = never, lease = lease)]
pub(crate) async fn pay(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Answer {
    settle(&shop, id, Some(lease)).await
}

// A second request waits for up to 10 s. With `on_cancel = detach`, a payment that has started runs to its end
// although the client disconnects.
#[distributed_lock(key = "shop:order:<id>", wait = "10s", on_cancel = detach, lease = lease)]
pub(crate) async fn pay_to_the_end(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Answer {
    settle(&shop, id, Some(lease)).await
}

/// A payment without a lock.
pub(crate) async fn pay_unlocked(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Answer {
    settle(&shop, id, None).await
}

async fn settle(shop: &Shop, id: i64, lease: Option<&Lease>) -> Answer {
    let order = shop.orders.find(id).await?;
    let order = order.ok_or(ShopError::NoSuchOrder(id))?;
    if let Some(by) = order.paid_by {
        let outcome = Outcome::AlreadyPaid;
        return Ok(Json(Payment { outcome, by }));
    }
    // A process may have crashed between the charge and the write below. The check and the charge are two steps,
    // which is safe only under the lock.
    if !shop.provider.has_charged(id).await? {
        shop.provider.charge(id, order.cents).await?;
    }
    // The last check before the write: this process may have been paused for longer than its lease. The token
    // covers the time between this check and the write, because the database compares it.
    if let Some(lease) = lease {
        lease.ensure_held()?;
    }
    let token = lease.map(Lease::fencing_token);
    if !shop.orders.mark_paid(id, &shop.name, token).await? {
        return Err(ShopError::Overtaken(id));
    }
    Ok(Json(Payment {
        outcome: Outcome::Paid,
        by: shop.name.clone(),
    }))
}
