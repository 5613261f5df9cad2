//! Paying an order: what must happen once, however many ask for it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use dlock::{Lease, distributed_lock};
use serde::Serialize;

use crate::{error::ShopError, web::Shop};

/// How the order came to be paid.
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

// Who comes while the order is being paid is told so at once. If the client hangs up, the body is
// dropped where it stands and the lock is given back.
#[distributed_lock(key = "shop:order:<id>", wait = never, lease = lease)]
pub(crate) async fn pay(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Answer {
    settle(&shop, id, Some(lease)).await
}

// Who comes while the order is being paid waits a little. A payment that has begun ends, in a task
// of its own if the client hangs up: it is never left half-way for that reason.
#[distributed_lock(key = "shop:order:<id>", wait = "10s", on_cancel = detach, lease = lease)]
pub(crate) async fn pay_to_the_end(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Answer {
    settle(&shop, id, Some(lease)).await
}

/// What becomes of it without a lock.
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
    // A process may have died between the charge and the write below. To look and then to charge is
    // right only because nobody else does so meanwhile.
    if !shop.provider.has_charged(id).await? {
        shop.provider.charge(id, order.cents).await?;
    }
    // The last look before the write: this process may have been stopped for longer than its lease.
    // The token is for the moment that is left, in which only the database can compare.
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
