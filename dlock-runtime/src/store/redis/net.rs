//! The way to one server: from the socket to a node that is connected again after each loss.

mod activity;
pub(super) mod connection;
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
