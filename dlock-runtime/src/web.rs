//! HTTP responses: a [`LockError`](crate::LockError) is a response of axum and of actix-web.
//!
//! The response has the problem details of RFC 9457, `application/problem+json`:
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! content-type: application/problem+json
//! retry-after: 1
//! cache-control: no-store
//!
//! {"type":"about:blank","title":"Conflict","status":409,
//!  "detail":"Another request is working on this. Try again shortly.","code":"busy"}
//! ```
//!
//! | `code` | status | `Retry-After` |
//! |---|---|---|
//! | `busy` | 409 | when the holder's lease ends, at most 1 s |
//! | `unavailable` | 503 | 1 s; 30 s if an operator must fix something first |
//! | `lost` | 503 | none: part of the work may be done, so a repeated request is unsafe |
//! | `invalid-key` | 400 | none |
//! | `closed` | 503 | 5 s |
//! | `would-deadlock`, `invalid-option`, `not-installed` | 500 | none |
//!
//! The response never contains the key, the holder, a host, a process or an address: the texts of a
//! [`LockError`](crate::LockError) are for logs. The lock itself logs its failures, so a response logs nothing.
//!
//! Override the defaults for the whole application with [`Problems`] and [`install`], or for one response with the
//! methods of [`Problem`]:
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! use dlock::{LockError, web::Problem};
//!
//! fn answer(error: &LockError, order: u64) -> Problem {
//!     let problem = Problem::of(error).with_member("order", order);
//!     match error {
//!         LockError::Busy { .. } => problem.with_detail("Your order is already being paid."),
//!         _ => problem,
//!     }
//! }
//! ```
//!
//! A locked function can also return `Result<_, Problem>`: the attribute converts a
//! [`LockError`](crate::LockError) into a problem.
//!
//! # Clients that disconnect
//!
//! A framework that notices a disconnect drops the handler. The lock is then released; with `on_cancel = detach`,
//! the body continues under its lock. The frameworks differ in what they notice:
//!
//! - **axum** (by hyper, HTTP/1): as soon as the client closes its side, unless the client has pipelined another
//!   request or sent a body that the handler has not read. Extractors such as `Json` read the body.
//! - **actix-web** (HTTP/1): only with `HttpServer::h1_allow_half_closed(false)`. By default, actix-web assumes that
//!   a client that has closed its side still reads: the handler runs to its end and holds the lock until then. A
//!   reset of the connection is always noticed.
//!
//! A client behind a proxy disconnects when the proxy does. Safety does not depend on any of this: a lease never
//! outlives its process by more than its TTL, and `wait` limits how long a handler waits for its lock.

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

// The frameworks depend on different versions of the crate `http`. The items used here are the same in both.
#[cfg(feature = "axum")]
use ::http::StatusCode;
#[cfg(not(feature = "axum"))]
use actix_web::http::StatusCode;

/// The media type of a problem.
const CONTENT_TYPE: &str = "application/problem+json";
/// The next request may acquire the lock, so no response may be cached.
const CACHE_CONTROL: &str = "no-store";

/// Returns the reason phrase of `status`.
fn phrase(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Error")
}

/// Returns `true` if `status` is an error.
fn is_error(status: u16) -> bool {
    (400..600).contains(&status)
}
