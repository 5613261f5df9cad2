//! Five stores of which a majority decides, while others fail.
//!
//! The first modules are about stores in memory and paused time, where nothing is left to chance;
//! the last ones about real servers.

mod cancellation;
#[cfg(feature = "redis")]
mod clocks;
mod fences;
mod minorities;
mod notices;
mod refills;
mod rounds;
#[cfg(feature = "redis")]
mod servers;
#[cfg(feature = "redis")]
mod urls;

use std::time::Duration;

use crate::common::{OneKey, QuorumOfMemory};
use dlock::store::quorum::Quorum;

const TTL: Duration = Duration::from_secs(30);

/// A process that asks the five stores without a manager.
fn key_of(env: &QuorumOfMemory) -> OneKey<Quorum> {
    OneKey::new(env.quorum(), "order:42")
}

fn owner() -> dlock::store::OwnerId {
    OneKey::<Quorum>::owner()
}
