//! Problems as responses of axum.

use ::http::{
    StatusCode,
    header::{self, HeaderValue},
};
use axum_core::{
    body::Body,
    response::{IntoResponse, Response},
};

use super::{CACHE_CONTROL, CONTENT_TYPE, problem::Problem};
use crate::error::LockError;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body()));
        *response.status_mut() =
            StatusCode::from_u16(self.status()).expect("a problem has a status from 400 to 599");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static(CACHE_CONTROL),
        );
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Responds with the [`Problem`] of this error.
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        Problem::of(&self).into_response()
    }
}
