//! Problems as responses of actix-web.

use actix_web::{
    HttpRequest, HttpResponse, Responder, ResponseError,
    body::BoxBody,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};

use super::{CACHE_CONTROL, CONTENT_TYPE, problem::Problem};
use crate::error::LockError;

impl From<&Problem> for HttpResponse {
    fn from(problem: &Problem) -> Self {
        let mut response = Self::with_body(problem.status_code(), BoxBody::new(problem.body()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static(CACHE_CONTROL),
        );
        if let Some(seconds) = problem.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Problem> for HttpResponse {
    fn from(problem: Problem) -> Self {
        Self::from(&problem)
    }
}

impl Responder for Problem {
    type Body = BoxBody;

    fn respond_to(self, _: &HttpRequest) -> HttpResponse {
        self.into()
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).expect("a problem has a status from 400 to 599")
    }

    fn error_response(&self) -> HttpResponse {
        self.into()
    }
}

/// Responds with the [`Problem`] of this error.
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        Problem::of(self).status_code()
    }

    fn error_response(&self) -> HttpResponse {
        Problem::of(self).into()
    }
}
