//! The connection to one server: from the socket to a node that reconnects after each loss.
//!
//! ```text
//! node ─► supervisor ─┬─► connection ─► session ─► socket ─► handshake ─► tls
//!                     │        │            └──► early_error
//!                     │        └──► server_check · hints · subscriber
//!                     └─► source ─► sentinel
//! ```
//!
//! One RESP3 connection for each node carries requests and hints, so the requests of one claim arrive in order.
//! Renewals, whose order does not matter, have a second connection. Only the supervisor connects. The client
//! library's own manager is not suitable: it never reconnects after time-outs, and blocks for seconds while it
//! reconnects. After each connection the scripts are loaded and the subscriptions confirmed, then every waiter
//! polls.
//!
//! A request has one timer: the store's, or that of a caller with less time. After a request without an answer,
//! the supervisor sends a PING. The PING waits behind all earlier requests, so the connection is kept as long
//! as any bytes arrive on it (`activity.rs`).
//!
//! With `protocol=resp2`, hints have a connection of their own (`subscriber.rs`). The two connections are
//! opened, watched and closed together: each ping is sent on both, and when one breaks, both are replaced and
//! every waiter polls.
//!
//! All connections are opened in `session.rs`: `resolver.rs`, `tcp.rs` and `socket.rs` open a socket, `handshake.rs` adds
//! TLS, and the library logs in with the current credentials. Over RESP2, `resp2_auth.rs` logs in first,
//! because the library hides the reason of a failed login. `server_check.rs` checks the server's answer to
//! `HELLO`. A server that closes the connection may have sent the reason before any request. The library does
//! not read it; `early_error.rs` does.
//!
//! The supervisor, the cluster's refresh task, the replica task and the task that writes the process record are
//! services (`service.rs`). After a panic a service continues after a pause. After the end of its runtime it
//! continues on the runtime of the next request, and when its runtime does not run, on dlock's own thread
//! (`home.rs`). Events of the store do not unwind. An interrupted connection is closed before the next one is opened
//! (`task.rs`).
//!
//! `protocol/errors.rs` classifies failures by the possible reactions of a caller. *Busy* and *not the owner*
//! are answers; an error of a store means that the outcome is unknown. `events.rs` logs an outage once, and
//! warns of a server that may evict locks. Of a URL, only parts that were understood and are not secret are
//! shown.

mod activity;
pub(super) mod connection;
#[cfg_attr(not(feature = "metrics"), path = "net/no_counts.rs")]
pub(super) mod counts;
mod early_error;
pub(super) mod events;
#[cfg(feature = "tls")]
pub(super) mod handshake;
pub(super) mod hints;
pub(super) mod home;
#[cfg(feature = "admin")]
pub(super) mod listen;
#[cfg(not(feature = "tls"))]
pub(super) mod no_tls;
pub(super) mod node;
pub(super) mod resolver;
mod resp2_auth;
pub(super) mod server_check;
pub(super) mod service;
pub(super) mod session;
mod socket;
mod stream;
mod subscriber;
pub(super) mod supervisor;
mod task;
mod tcp;
#[cfg(feature = "tls")]
pub(super) mod tls;
