//! The attribute on handlers of axum: a lease that is checked in the transaction of each request.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use dlock::{LockError, LockManager, distributed_lock};
use dlock_sqlx::{Fence, FenceError};
use sqlx::PgPool;
use tokio::sync::{Notify, Semaphore};
use tower::ServiceExt;

use crate::database::Database;

/// A process of the application.
#[derive(Clone)]
struct Bank {
    locks: LockManager,
    pool: PgPool,
    /// Notified when a request has its lock.
    entered: Arc<Notify>,
    /// A request goes on with one of these.
    may_go_on: Arc<Semaphore>,
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            // The release says so too, and then comes before the error of the body.
            Self::Fence(FenceError::NotHeld { .. }) | Self::Lock(LockError::Lost { .. }) => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}

/// Reads and then writes, as code does that needs a lock.
#[distributed_lock(key = "account:<id>", lease = lease, manager = bank.locks)]
async fn withdraw(
    State(bank): State<Bank>,
    Path((id, cents)): Path<(i64, i64)>,
) -> Result<String, Refusal> {
    bank.entered.notify_one();
    let permit = bank.may_go_on.acquire().await;
    permit.expect("it is never closed").forget();
    let mut tx = bank.pool.begin().await?;
    lease.fence(&mut tx).await?;
    let had: i64 = sqlx::query_scalar("SELECT cents FROM account WHERE id = $1")
        .bind(id)
        .fetch_one(&mut *tx)
        .await?;
    sqlx::query("UPDATE account SET cents = $1 WHERE id = $2")
        .bind(had - cents)
        .bind(id)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok((had - cents).to_string())
}

async fn bank(database: &Database, permits: usize) -> Bank {
    Bank {
        locks: database.manager().await,
        pool: database.pool.clone(),
        entered: Arc::new(Notify::new()),
        may_go_on: Arc::new(Semaphore::new(permits)),
    }
}

async fn answer(bank: Bank, path: &'static str) -> (StatusCode, String) {
    let router = Router::new().route("/account/{id}/withdraw/{cents}", post(withdraw));
    let request = Request::post(path).body(Body::empty()).unwrap();
    let response = router.with_state(bank).oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await;
    (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_two_processes_lose_no_update() {
    let database = Database::new().await;
    let banks = [bank(&database, 20).await, bank(&database, 20).await];
    let mut requests = tokio::task::JoinSet::new();
    for bank in banks.iter().cycle().take(20) {
        requests.spawn(answer(bank.clone(), "/account/7/withdraw/3"));
    }
    for (status, body) in requests.join_all().await {
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    let left = "SELECT cents FROM account WHERE id = 7";
    assert_eq!(database.number(left).await, 40);
}

#[tokio::test]
async fn a_request_that_sleeps_through_its_lease_writes_nothing() {
    let database = Database::new().await;
    let late = bank(&database, 0).await;
    let other = bank(&database, 1).await;
    let request = tokio::spawn(answer(late.clone(), "/account/7/withdraw/30"));
    late.entered.notified().await;
    database.end_lease("account:7").await;
    let (status, body) = answer(other, "/account/7/withdraw/20").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "80"));
    late.may_go_on.add_permits(1);
    let (status, body) = request.await.unwrap();
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert!(body.contains("`account:7`"), "{body}");
    let left = "SELECT cents FROM account WHERE id = 7";
    assert_eq!(database.number(left).await, 80);
}
