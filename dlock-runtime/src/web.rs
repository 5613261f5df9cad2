//! HTTP responses for lock errors: a [`LockError`](crate::LockError) is a response of axum and of actix-web.
//!
//! The response contains problem details (RFC 9457) as `application/problem+json`:
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! content-type: application/problem+json
//! retry-after: 1
//! cache-control: no-store
//!
//! {"type":"about:blank","title":"Conflict","status":409,
//!  "detail":"Another operation on this resource is in progress. Try again shortly.","code":"busy"}
//! ```
//!
//! | `code` | status | `Retry-After` |
//! |---|---|---|
//! | `busy` | 409 | 1 s |
//! | `unavailable` | 503 | 1 s; 30 s if an operator has to fix something first |
//! | `lost` | 503 | none: part of the work may be done, so an automatic retry is unsafe |
//! | `invalid-key` | 400 | none |
//! | `closed` | 503 | 5 s |
//! | `would-deadlock`, `would-block`, `invalid-option`, `not-installed` | 500 | none |
//!
//! The response never contains the key, the holder, or the name or address of a host or process. The text of a
//! [`LockError`](crate::LockError) contains them: write it to logs only. The lock logs a failed acquisition itself, so
//! the conversion to a response logs nothing.
//!
//! To override the defaults for the whole application, use [`Problems`] and [`install`]. To change one response, use
//! the methods of [`Problem`]:
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! use dlock::{LockError, web::Problem};
//!
//! fn answer(error: &LockError, order: u64) -> Problem {
//!     let problem = Problem::of(error).with_member("order", order);
//!     match error {
//!         LockError::Busy { .. } => problem.with_detail("This order is already being paid."),
//!         _ => problem,
//!     }
//! }
//! ```
//!
//! A handler can also return `Result<_, Problem>`: the attribute converts a [`LockError`](crate::LockError) into a
//! [`Problem`].
//!
//! # Clients that disconnect
//!
//! When a framework detects that the client has disconnected, it drops the handler's future. The lock is then released,
//! or, with `on_cancel = detach`, the body continues under its lock. Detection depends on the framework:
//!
//! - **axum** (with hyper, HTTP/1): as soon as the client closes its side of the connection. The exceptions are a
//!   client that has pipelined another request, and a request body that the handler does not read. Extractors such as
//!   `Json` read it.
//! - **actix-web** (HTTP/1): only with `HttpServer::h1_allow_half_closed(false)`. By default, actix-web assumes that a
//!   client that has closed its side still reads: the handler runs to its end and holds the lock until then. A reset of
//!   the connection is always detected.
//!
//! Behind a proxy, the client's disconnection is detected when the proxy closes its connection. Safety does not depend
//! on this: a lease outlives its process by at most its TTL, and `wait` limits how long a handler waits for its lock.

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

// The frameworks use different versions of the crate `http`, with the same `StatusCode` API.
#[cfg(feature = "axum")]
use ::http::StatusCode;
#[cfg(not(feature = "axum"))]
use actix_web::http::StatusCode;

/// The media type of a problem.
const CONTENT_TYPE: &str = "application/problem+json";
/// The next request may get the lock, so no response may be cached.
const CACHE_CONTROL: &str = "no-store";

/// Returns the reason phrase of `status`.
fn phrase(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Error")
}

/// Returns `true` if `status` is a client or server error.
fn is_error(status: u16) -> bool {
    (400..600).contains(&status)
}
