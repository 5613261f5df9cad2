//! The shop as axum serves it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "handlers own what is extracted"
)]

use std::{net::TcpListener, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dlock::{LockError, distributed_lock, web::Problem};
use tokio::task::JoinSet;

use crate::site::{AppError, Payment, Receipt, Shop, Wish, problem};

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Lock(error) => problem(&error).into_response(),
            Self::SoldOut => StatusCode::GONE.into_response(),
        }
    }
}

/// A lease and a wait are long enough for a machine that stands still for a second.
#[distributed_lock(key = "order:<shop>/<id>", wait = "2s", ttl = "5s", manager = site.locks)]
async fn pay(
    State(site): State<Shop>,
    Path((shop, id)): Path<(String, u64)>,
    Query(wish): Query<Wish>,
    Json(payment): Json<Payment>,
) -> Result<impl IntoResponse, AppError> {
    site.work(wish.pause).await;
    if payment.cents == 0 {
        return Err(AppError::SoldOut);
    }
    let receipt = Receipt {
        shop,
        order: id,
        cents: payment.cents,
    };
    Ok((StatusCode::CREATED, Json(receipt)))
}

#[distributed_lock(
    key = "order:<shop>/<id>",
    wait = "2s",
    ttl = "5s",
    on_cancel = detach,
    manager = site.locks
)]
async fn ship(
    State(site): State<Shop>,
    Path((shop, id)): Path<(String, u64)>,
    Query(wish): Query<Wish>,
    Json(payment): Json<Payment>,
) -> Result<Json<Receipt>, AppError> {
    site.work(wish.pause).await;
    Ok(Json(Receipt {
        shop,
        order: id,
        cents: payment.cents,
    }))
}

#[distributed_lock(key = "order:<shop>/<id>", wait = never, manager = site.locks)]
async fn plain(
    State(site): State<Shop>,
    Path((shop, id)): Path<(String, u64)>,
) -> Result<&'static str, LockError> {
    site.work(false).await;
    Ok("paid")
}

#[distributed_lock(key = "order:<shop>/<id>", wait = never, manager = site.locks)]
async fn as_problem(
    State(site): State<Shop>,
    Path((shop, id)): Path<(String, u64)>,
) -> Result<&'static str, Problem> {
    site.work(false).await;
    Ok("paid")
}

#[distributed_lock(key = "coupon:<wish.coupon>", wait = never, manager = site.locks)]
async fn redeem(
    State(site): State<Shop>,
    Query(wish): Query<Wish>,
) -> Result<impl IntoResponse, AppError> {
    site.work(wish.pause).await;
    Ok("redeemed")
}

#[distributed_lock(key = "order:<id>", manager = site.locks)]
async fn again(State(site): State<Shop>, Path(id): Path<u64>) -> Result<&'static str, AppError> {
    inner(&site, id).await?;
    Ok("twice")
}

#[distributed_lock(key = "order:<id>", manager = site.locks)]
async fn inner(site: &Shop, id: u64) -> Result<(), AppError> {
    site.work(false).await;
    Ok(())
}

#[distributed_lock(key = "order:<id>", ttl = Duration::from_secs(id), manager = site.locks)]
async fn brief(State(site): State<Shop>, Path(id): Path<u64>) -> Result<&'static str, AppError> {
    site.work(false).await;
    Ok("brief")
}

#[distributed_lock(key = "order:<id>")]
async fn nobodys(State(site): State<Shop>, Path(id): Path<u64>) -> Result<&'static str, AppError> {
    site.work(false).await;
    Ok("whose?")
}

pub(crate) fn serve(server: &mut JoinSet<()>, listener: TcpListener, shop: Shop) {
    let router = Router::new()
        .route("/pay/{shop}/{id}", post(pay))
        .route("/ship/{shop}/{id}", post(ship))
        .route("/plain/{shop}/{id}", get(plain))
        .route("/problem/{shop}/{id}", get(as_problem))
        .route("/redeem", get(redeem))
        .route("/again/{id}", get(again))
        .route("/brief/{id}", get(brief))
        .route("/nobodys/{id}", get(nobodys))
        .with_state(shop);
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
}
