//! Responses of JSON.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;
use serde_json::json;

/// Returns a document.
pub(super) fn document(value: &impl Serialize) -> Response {
    with_status(StatusCode::OK, value)
}

/// Returns the reason why there is no document.
pub(super) fn failure(status: StatusCode, text: impl Into<String>) -> Response {
    with_status(status, &json!({ "error": text.into() }))
}

/// Returns the text of a document.
pub(super) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("all keys are texts")
}

fn with_status(status: StatusCode, value: &impl Serialize) -> Response {
    let mut response = of_text(text(value));
    *response.status_mut() = status;
    response
}

/// Returns a document that is a text already.
pub(super) fn of_text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
