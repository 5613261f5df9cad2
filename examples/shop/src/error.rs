//! The errors of a request, and their HTTP responses.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use dlock::LockError;
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShopError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("order {0} does not exist")]
    NoSuchOrder(i64),
    #[error("{0}")]
    Input(&'static str),
    #[error("a later payment of order {0} was written first")]
    Overtaken(i64),
    #[error("cannot use the database")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, title) = match self {
            // `LockError` is a response itself: 409 with `Retry-After` for a busy lock.
            Self::Lock(error) => return error.into_response(),
            Self::NoSuchOrder(_) => (StatusCode::NOT_FOUND, "Order not found"),
            Self::Input(_) => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid order"),
            Self::Overtaken(order) => {
                tracing::error!(
                    order,
                    "charged, but a later payment was written first: check for a second charge"
                );
                (StatusCode::CONFLICT, "A later payment was written first")
            }
            Self::Database(ref error) => {
                tracing::error!(%error, "cannot use the database");
                (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
            }
        };
        let problem = json!({
            "type": "about:blank",
            "title": title,
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, Json(problem)).into_response()
    }
}
