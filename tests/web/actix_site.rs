//! The shop as actix-web serves it.

use std::{net::TcpListener, time::Duration};

use actix_web::{
    App, HttpResponse, HttpServer, Responder, ResponseError, get,
    http::StatusCode,
    post, route,
    web::{Data, Json, Path, Query},
};
use dlock::{LockError, distributed_lock, web::Problem};
use tokio::task::JoinSet;

use crate::site::{AppError, Payment, Receipt, Shop, Wish, problem};

impl ResponseError for AppError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Lock(error) => problem(error).status_code(),
            Self::SoldOut => StatusCode::GONE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        match self {
            Self::Lock(error) => problem(error).into(),
            Self::SoldOut => HttpResponse::new(self.status_code()),
        }
    }
}

/// A lease and a wait are long enough for a machine that stands still for a second.
#[post("/pay/{shop}/{id}")]
#[distributed_lock(key = "order:<path.0>/<path.1>", wait = "2s", ttl = "5s", manager = site.locks)]
async fn pay(
    site: Data<Shop>,
    path: Path<(String, u64)>,
    wish: Query<Wish>,
    payment: Json<Payment>,
) -> Result<impl Responder, AppError> {
    site.work(wish.pause).await;
    if payment.cents == 0 {
        return Err(AppError::SoldOut);
    }
    let (shop, order) = path.into_inner();
    Ok(HttpResponse::Created().json(Receipt {
        shop,
        order,
        cents: payment.cents,
    }))
}

#[post("/ship/{shop}/{id}")]
#[distributed_lock(
    key = "order:<path.0>/<path.1>",
    wait = "2s",
    ttl = "5s",
    on_cancel = detach,
    manager = site.locks
)]
async fn ship(
    site: Data<Shop>,
    path: Path<(String, u64)>,
    wish: Query<Wish>,
    payment: Json<Payment>,
) -> Result<Json<Receipt>, AppError> {
    site.work(wish.pause).await;
    let (shop, order) = path.into_inner();
    Ok(Json(Receipt {
        shop,
        order,
        cents: payment.cents,
    }))
}

#[route("/plain/{shop}/{id}", method = "GET", method = "HEAD")]
#[distributed_lock(key = "order:<path.0>/<path.1>", wait = never, manager = site.locks)]
async fn plain(site: Data<Shop>, path: Path<(String, u64)>) -> Result<impl Responder, LockError> {
    site.work(false).await;
    Ok("paid")
}

#[get("/problem/{shop}/{id}")]
#[distributed_lock(key = "order:<path.0>/<path.1>", wait = never, manager = site.locks)]
async fn as_problem(site: Data<Shop>, path: Path<(String, u64)>) -> Result<&'static str, Problem> {
    site.work(false).await;
    Ok("paid")
}

#[get("/redeem")]
#[distributed_lock(key = "coupon:<wish.coupon>", wait = never, manager = site.locks)]
async fn redeem(site: Data<Shop>, wish: Query<Wish>) -> Result<impl Responder, AppError> {
    site.work(wish.pause).await;
    Ok("redeemed")
}

#[get("/again/{id}")]
#[distributed_lock(key = "order:<path.0>", manager = site.locks)]
async fn again(site: Data<Shop>, path: Path<(u64,)>) -> Result<&'static str, AppError> {
    inner(&site, path.0).await?;
    Ok("twice")
}

#[distributed_lock(key = "order:<id>", manager = site.locks)]
async fn inner(site: &Shop, id: u64) -> Result<(), AppError> {
    site.work(false).await;
    Ok(())
}

#[get("/brief/{id}")]
#[distributed_lock(key = "order:<path.0>", ttl = Duration::from_secs(path.0), manager = site.locks)]
async fn brief(site: Data<Shop>, path: Path<(u64,)>) -> Result<&'static str, AppError> {
    site.work(false).await;
    Ok("brief")
}

#[get("/nobodys/{id}")]
#[distributed_lock(key = "order:<path.0>")]
async fn nobodys(site: Data<Shop>, path: Path<(u64,)>) -> Result<&'static str, AppError> {
    site.work(false).await;
    Ok("whose?")
}

pub(crate) fn serve(
    server: &mut JoinSet<()>,
    listener: TcpListener,
    shop: Shop,
    half_closed: bool,
) {
    let app = move || {
        App::new()
            .app_data(Data::new(shop.clone()))
            .service(pay)
            .service(ship)
            .service(plain)
            .service(as_problem)
            .service(redeem)
            .service(again)
            .service(brief)
            .service(nobodys)
    };
    let running = HttpServer::new(app)
        .workers(1)
        .disable_signals()
        .h1_allow_half_closed(half_closed)
        .listen(listener)
        .unwrap()
        .run();
    server.spawn(async move { running.await.unwrap() });
}
