//! The idle streams of a connection that keep leases alive. `keep_alive.rs` uses them.
//!
//! A stream costs its client and its member more than a keep-alive does, so it is used for later ones again.
//!
//! # Rules
//!
//! - **Safety.** The answers of a stream follow its requests. A stream is used again only when each of its requests was
//!   answered: a caller that gives up drops the stream, so no answer to an earlier request is taken for that to a later
//!   one. (`a_stream_with_an_open_request_is_not_used_again`)
//! - A member can end a stream that is idle. A keep-alive that fails on such a stream is repeated on a new one.
//!   (`a_stream_that_has_ended_is_replaced`)

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tonic::Streaming;

use crate::proto::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};

/// The idle streams of a connection. Those beyond end.
const MOST_IDLE: usize = 4;

/// The idle streams of a connection. They end with it.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Vec<Stream>>);

/// A stream whose requests have all been answered.
pub(crate) struct Stream {
    pub(crate) requests: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    pub(crate) answers: Streaming<LeaseKeepAliveResponse>,
}

impl Streams {
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Stream>> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<Stream> {
        self.idle().pop()
    }

    pub(crate) fn give(&self, stream: Stream) {
        let mut idle = self.idle();
        if idle.len() < MOST_IDLE {
            idle.push(stream);
        }
    }
}

impl Stream {
    pub(crate) fn send(&self, leases: &[i64]) {
        send(&self.requests, leases);
    }
}

/// Sends a keep-alive for each of these leases.
pub(crate) fn send(requests: &mpsc::UnboundedSender<LeaseKeepAliveRequest>, leases: &[i64]) {
    for id in leases {
        // A stream that has ended has no answer either.
        requests.send(LeaseKeepAliveRequest { id: *id }).ok();
    }
}
