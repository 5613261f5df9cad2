//! The way to one server: from the socket to a node that is connected again after each loss.
//!
//! ```text
//! node ─► supervisor ─┬─► connection ─► session ─► socket ─► handshake ─► tls
//!                     │        │            └──► early_error
//!                     │        └──► server_check · hints · subscriber
//!                     └─► source ─► sentinel
//! ```
//!
//! One RESP3 connection per node carries requests and hints, so the requests of one claim arrive in order. Renewals, whose
//! order does not matter, have one more. The supervisor is the only task that connects. The client library's own manager
//! does not fit: it never reconnects after time-outs, and blocks for seconds while it reconnects. After each connection
//! the scripts are loaded and the subscriptions confirmed, then every waiter polls.
//!
//! A request has one timer: the store's, or that of a caller with less time. A request that times out makes the
//! supervisor send a PING. That waits behind all earlier requests, so the connection is kept as long as anything
//! comes on it (`activity.rs`).
//!
//! With `protocol=resp2` hints have a connection of their own (`subscriber.rs`). The two are opened, watched and closed as
//! one: each ping goes over both, and when one breaks, both are replaced and every waiter polls.
//!
//! `session.rs` is the one place where a connection is made: `socket.rs` and `tcp.rs` open it, `handshake.rs` makes it a TLS connection,
//! and the library logs in with the credentials of that moment. Over RESP2 `resp2_auth.rs` logs in first, since the library
//! hides why a login failed. `server_check.rs` judges the server's answer to `HELLO`. A server that hangs up may have sent
//! the reason before any request, which the library does not read: `early_error.rs` does.
//!
//! The supervisor, the task that keeps up with a cluster, the one that asks replicas and the one that writes presence are
//! services (`service.rs`): after a panic one goes on after a pause, and after the end of its runtime it goes on on the
//! runtime of the next request. Events of the store do not unwind. A connection that was cut short is closed before the
//! next one is opened.
//!
//! `protocol/errors.rs` sorts failures by what a caller can do. *Busy* and *not yours* are answers; an error of a store means
//! that the outcome is unknown. `events.rs` logs an outage once, and that a server may evict locks. Of a URL only parts that were
//! understood and are not secret are shown.

mod activity;
pub(super) mod connection;
#[cfg_attr(not(feature = "metrics"), path = "net/no_counts.rs")]
pub(super) mod counts;
mod early_error;
pub(super) mod events;
#[cfg(feature = "tls")]
pub(super) mod handshake;
pub(super) mod hints;
#[cfg(feature = "admin")]
pub(super) mod listen;
#[cfg(not(feature = "tls"))]
pub(super) mod no_tls;
pub(super) mod node;
mod resp2_auth;
pub(super) mod server_check;
pub(super) mod service;
pub(super) mod session;
mod socket;
mod stream;
mod subscriber;
pub(super) mod supervisor;
mod tcp;
#[cfg(feature = "tls")]
pub(super) mod tls;
