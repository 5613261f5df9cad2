//! The parts of a store that its requests share, and the wishes that they are about.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    claims::Claims, config::Config, follow::Follow, leases::Leases, places::Places,
    session::Session,
};

/// A request gives up after so many changes of its key by others.
pub(crate) const ROUNDS: usize = 16;

/// All that requests need.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) session: Session,
    pub(crate) claims: Claims,
    pub(crate) leases: Leases,
    pub(crate) follow: Follow,
    pub(crate) places: Places,
    /// Releases under way without a caller that waits.
    pub(crate) departing: watch::Sender<usize>,
}

/// The lease and the labels that a claim asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) seconds: i64,
    pub(crate) label: &'a str,
    pub(crate) function: &'a str,
}

pub(crate) fn word(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
