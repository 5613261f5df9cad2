//! The parts of a store that its requests share, and the names and wishes that they are about.

use std::sync::Arc;

use dlock_runtime::store::OwnerId;
use tokio::sync::watch;

use crate::{
    claims::Claims, config::Config, follow::Follow, keys, leases::Leases, places::Places,
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

/// The names that a request is about.
pub(crate) struct Names {
    /// That of the claim.
    pub(crate) own: Vec<u8>,
    /// Those of all claims on the key.
    pub(crate) all: (Vec<u8>, Vec<u8>),
}

/// The lease and the labels that a claim asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) seconds: i64,
    pub(crate) label: &'a str,
    pub(crate) function: &'a str,
}

impl Core {
    pub(crate) fn names(&self, key: &str, owner: OwnerId) -> Names {
        let namespace = &self.config.namespace;
        Names {
            own: keys::claim(namespace, key, owner),
            all: keys::range(namespace, key),
        }
    }
}

pub(crate) fn word(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
