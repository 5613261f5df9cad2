//! Answers for HTTP clients: a [`LockError`](crate::LockError) is a response of axum and of actix-web.
//!
//! The response is a problem as RFC 9457 describes it, `application/problem+json`:
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! content-type: application/problem+json
//! retry-after: 1
//! cache-control: no-store
//!
//! {"type":"about:blank","title":"Conflict","status":409,
//!  "detail":"Somebody else is working on this. Try again shortly.","code":"busy"}
//! ```
//!
//! | `code` | status | `Retry-After` |
//! |---|---|---|
//! | `busy` | 409 | when the holder's lease ends, at most 1 s |
//! | `unavailable` | 503 | 1 s; 30 s if an operator has to fix something first |
//! | `lost` | 503 | none: part of the work may be done, so a blind repetition is unsafe |
//! | `invalid-key` | 400 | none |
//! | `closed` | 503 | 5 s |
//! | `would-deadlock`, `invalid-option`, `not-installed` | 500 | none |
//!
//! Neither the key nor the holder, nor any host, process or address is ever part of it: the texts of
//! a [`LockError`](crate::LockError) are for logs. A failure to get a lock is logged by the lock, so
//! an answer logs nothing more.
//!
//! Override the defaults once, for the whole application, by [`Problems`] and [`install`], or for
//! one answer, by the methods of [`Problem`]:
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! use dlock::{LockError, web::Problem};
//!
//! fn answer(error: &LockError, order: u64) -> Problem {
//!     let problem = Problem::of(error).with_member("order", order);
//!     match error {
//!         LockError::Busy { .. } => problem.with_detail("Your order is being paid already."),
//!         _ => problem,
//!     }
//! }
//! ```
//!
//! A function that answers nothing but problems can return `Result<_, Problem>`: the attribute turns
//! a [`LockError`](crate::LockError) into one.
//!
//! # Clients that hang up
//!
//! A framework that notices a hang-up drops the handler, and with it the lock is released, or, with
//! `on_cancel = detach`, the body goes on under its lock. When it notices is up to the framework:
//!
//! - **axum** (by hyper, HTTP/1): as soon as the client closes its side, unless the client has sent
//!   another request behind the first, or a body that is not read. Extractors such as `Json` read
//!   it.
//! - **actix-web** (HTTP/1): only with `HttpServer::h1_allow_half_closed(false)`. By default a client
//!   that has closed its side is taken for one that still listens: the handler ends, and the lock is
//!   held until then. A reset of the connection is noticed in any case.
//!
//! A client behind a proxy hangs up when the proxy does. None of this is needed for safety: a lease
//! never outlives its process by more than its TTL, and `wait` ends a handler that waits for its lock.

#[cfg(feature = "actix-web")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
mod installed;
mod problem;
mod problems;
#[cfg(test)]
mod tests;

pub use installed::install;
pub use problem::Problem;
pub use problems::{Problems, ProblemsBuilder, ProblemsError};

// The frameworks have a crate `http` of different versions; what is used of it is the same.
#[cfg(feature = "axum")]
use ::http::StatusCode;
#[cfg(not(feature = "axum"))]
use actix_web::http::StatusCode;

/// The media type of a problem.
const CONTENT_TYPE: &str = "application/problem+json";
/// The next request may get the lock: no answer is worth keeping.
const CACHE_CONTROL: &str = "no-store";

/// The phrase that belongs to `status`.
fn phrase(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Error")
}

/// `true` if an error may be answered with `status`.
fn is_error(status: u16) -> bool {
    (400..600).contains(&status)
}
