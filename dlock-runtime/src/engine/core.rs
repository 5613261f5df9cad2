//! The state that all clones, guards and tasks of a manager share.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{limits::Bounds, renewer::schedule::Renewer, table::Table};
use crate::{
    attempt::AttemptIds,
    clock::{Clock, Moment},
    error::LockError,
    key::LockKey,
    options::{Options, Timing},
    owner::Owners,
    random::Random,
    state::Context,
    store::OwnStore,
};

/// The state that all clones, guards and tasks of a manager share.
pub(crate) struct Core<A> {
    pub(crate) store: OwnStore,
    pub(crate) attempts: AttemptIds,
    pub(crate) owners: Owners,
    pub(crate) defaults: Timing,
    /// The holder's label that other processes see.
    pub(crate) label: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// The maximum time to wait for one answer of the store.
    pub(crate) response_limit: Duration,
    /// The runtime on which the manager was created, if any.
    pub(crate) home: Option<Handle>,
    /// `true` if a lease may pass from one task of this process to the next.
    pub(crate) handover: bool,
    /// Whether leases are renewed on a separate thread, if the user has chosen.
    pub(crate) renewal_thread: Option<bool>,
    pub(crate) table: Table<Arc<A>>,
    pub(crate) renewer: Renewer<A>,
    pub(crate) bounds: Bounds,
}

impl<A> Core<A> {
    pub(crate) fn context(&self, now: Moment) -> Context<'_> {
        Context {
            now,
            response_limit: self.response_limit,
            handover: self.handover,
            grants: self.store.hands_on(),
            random: &*self.random,
            owners: &self.owners,
        }
    }

    /// Merges the options of a lock of `key` with the manager's defaults, and checks them against their
    /// ranges and the store's properties.
    pub(crate) fn timing(&self, options: Options, key: &LockKey) -> Result<Timing, LockError> {
        let timing = options.resolve(&self.defaults, key)?;
        let fault = self.store.fault(&timing);
        fault.map_or(Ok(timing), |(option, reason)| {
            Err(LockError::InvalidOption {
                key: key.clone(),
                option,
                reason: reason.into(),
            })
        })
    }

    /// Returns `true` if a request ends within `limit` without a timer.
    pub(crate) fn store_gives_up_within(&self, limit: Duration) -> bool {
        let by_itself = self.store.gives_up_after();
        by_itself.is_some_and(|by_itself| by_itself <= limit)
    }

    /// Returns a number that distinguishes this manager from others.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
