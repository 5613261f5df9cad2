//! The pages and endpoints of the shop.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    board::{Board, Locks},
    error::ShopError,
    orders::{Order, Orders},
    pay::{pay, pay_to_the_end, pay_unlocked},
    provider::Provider,
};

/// The page contains no data. Its script requests the data and shows it as text, never as HTML.
const PAGE: &str = include_str!("../page.html");

const LONGEST_ITEM: usize = 80;
const HIGHEST_CENTS: i64 = 10_000_000;

/// The state of one copy, shared by its handlers.
#[derive(Debug)]
pub(crate) struct Shop {
    /// The name of this copy, for example `shop-8001`.
    pub(crate) name: String,
    pub(crate) orders: Orders,
    pub(crate) provider: Provider,
    pub(crate) board: Board,
}

pub(crate) fn router(shop: Shop) -> Router {
    let payments = if shop.board.is_off() {
        Router::new()
            .route("/api/orders/{id}/pay", post(pay_unlocked))
            .route("/api/orders/{id}/pay-to-the-end", post(pay_unlocked))
    } else {
        Router::new()
            .route("/api/orders/{id}/pay", post(pay))
            .route("/api/orders/{id}/pay-to-the-end", post(pay_to_the_end))
    };
    payments
        .route("/", get(async || Html(PAGE)))
        .route("/api/state", get(state))
        .route("/api/orders", post(create))
        .layer(middleware::from_fn(log_disconnects))
        .with_state(Arc::new(shop))
}

/// The data of the page.
#[derive(Serialize)]
struct Snapshot {
    name: String,
    locks: Locks,
    orders: Vec<Order>,
}

// The page polls this endpoint. A stream would keep connections open, and a graceful shutdown would wait for them.
async fn state(State(shop): State<Arc<Shop>>) -> Result<Json<Snapshot>, ShopError> {
    // Locks first: an order that is paid between the two requests is then shown as paid, not as open.
    let locks = shop.board.locks().await;
    Ok(Json(Snapshot {
        name: shop.name.clone(),
        locks,
        orders: shop.orders.latest().await?,
    }))
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
    cents: i64,
}

async fn create(
    State(shop): State<Arc<Shop>>,
    Json(order): Json<NewOrder>,
) -> Result<impl IntoResponse, ShopError> {
    let item = order.item.trim();
    if item.is_empty() || item.chars().count() > LONGEST_ITEM {
        return Err(ShopError::Input("the item must have 1 to 80 characters"));
    }
    if item.chars().any(char::is_control) {
        return Err(ShopError::Input("the item contains control characters"));
    }
    if !(1..=HIGHEST_CENTS).contains(&order.cents) {
        return Err(ShopError::Input(
            "the price must be between 0.01 and 100000.00",
        ));
    }
    let id = shop.orders.create(item, order.cents).await?;
    Ok((StatusCode::CREATED, Json(serde_json::json!({ "id": id }))))
}

/// Logs clients that disconnect before the response.
async fn log_disconnects(request: Request, next: Next) -> Response {
    struct Unanswered(String);

    impl Drop for Unanswered {
        fn drop(&mut self) {
            if !self.0.is_empty() {
                info!(request = self.0, "client disconnected");
            }
        }
    }

    let mut unanswered = Unanswered(format!("{} {}", request.method(), request.uri().path()));
    let response = next.run(request).await;
    unanswered.0.clear();
    response
}
