//! What can go wrong with a request, and what its client is told.

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
    #[error("there is no order {0}")]
    NoSuchOrder(i64),
    #[error("{0}")]
    Input(&'static str),
    #[error("order {0} was written by a later payment")]
    Overtaken(i64),
    #[error("the database cannot be used")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, title) = match self {
            // It knows its own answer: 409 for a busy lock, and when to ask again.
            Self::Lock(error) => return error.into_response(),
            Self::NoSuchOrder(_) => (StatusCode::NOT_FOUND, "No such order"),
            Self::Input(_) => (StatusCode::UNPROCESSABLE_ENTITY, "This is no order"),
            Self::Overtaken(order) => {
                tracing::error!(
                    order,
                    "charged, and then overtaken: look for a second charge"
                );
                (StatusCode::CONFLICT, "Overtaken by a later payment")
            }
            Self::Database(ref error) => {
                tracing::error!(%error, "the database cannot be used");
                (StatusCode::INTERNAL_SERVER_ERROR, "Out of order")
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
