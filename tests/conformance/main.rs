//! Every store keeps one contract: the cases of `dlock-conformance`, and those of managers over a store.
//!
//! Managers stand for processes: those of one test share nothing but the store. The other makes and layouts of servers, and
//! the other ways to reach them, are those of `makes`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[macro_use]
mod cases;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod hints;
mod leases;
mod nodes;
mod protocol;

use cases::{managers, modes};

mod memory {
    cases_of_every_store! { paused crate::common::Memory }
    cases_of_stores_with_turns! { paused crate::common::Memory }
    cases_of_nodes! { paused crate::common::Memory }
}

#[cfg(feature = "redis")]
mod redis {
    cases_of_every_store! { real crate::common::Redis }
    cases_of_stores_with_turns! { real crate::common::Redis }
    cases_of_nodes! { real crate::common::Redis }
}

mod quorum {
    cases_of_every_store! { paused crate::common::QuorumOfMemory }
}

mod quorum_with_faults {
    cases_of_every_store! { paused crate::common::QuorumWithFaults }
}
