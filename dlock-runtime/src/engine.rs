//! The drivers: they do what the state decides, for one process and one store.
//!
//! ```text
//! acquire_all            several keys of one call
//! acquire                one key: ask, wait, ask again
//! renewer                one task that renews all leases of a manager (lane: its thread)
//! release                gives leases back, also when their task has gone
//! acquisition            one task's wish for one key
//! table                  the keys of this process, each with its state
//! limits · stall         bounds of a manager; bodies that are not polled
//! reentrancy             the keys of the code that is running
//! ```

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod acquisition;
mod lane;
pub(crate) mod limits;
pub(crate) mod reentrancy;
pub(crate) mod release;
pub(crate) mod renewer;
pub(crate) mod stall;
pub(crate) mod table;
