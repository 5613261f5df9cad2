//! The drivers: they do what the state decides, for one process and one store.
//!
//! ```text
//! acquire_all · hints    several keys of one call; wake-up messages of the store
//! acquire                one key: ask, wait, ask again
//! release                gives leases back, also when their task has gone
//! renewer                one task that renews all leases of a manager
//! lane · blocking        the threads of dlock's own; the way from code that blocks to the one for it
//! acquisition            one task's wish for one key
//! core                   what the acquisitions of a manager share
//! table · limits         the keys of this process, each with its state; bounds of a manager
//! stall · reentrancy     bodies that are not polled; the keys of the code that is running
//! spawn                  which runtimes tasks are put on
//! ```

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod acquisition;
pub(crate) mod blocking;
pub(crate) mod core;
mod hints;
mod lane;
pub(crate) mod limits;
pub(crate) mod reentrancy;
pub(crate) mod release;
pub(crate) mod renewer;
pub(crate) mod spawn;
mod stall;
pub(crate) mod table;
