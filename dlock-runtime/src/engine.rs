//! The drivers: they carry out the decisions of the state, for one process and one store.
//!
//! ```text
//! acquire_all · hints    several keys of one call; wake-up messages of the store
//! acquire                one key: request, wait, request again
//! release                releases leases, also when their task is gone
//! renewer                one task that renews all leases of a manager
//! blocking               connects code that blocks to the futures of a lock
//! acquisition            one attempt of one task at one key
//! core                   the state that the acquisitions of a manager share
//! table · limits         the keys of this process, each with its state; bounds of a manager
//! stall · reentrancy     bodies that are not polled; the keys of the code that is running
//! pool                   blocking pools that are full of threads that wait
//! spawn                  properties of the runtimes on which tasks are spawned
//! ```

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod acquisition;
pub(crate) mod blocking;
pub(crate) mod core;
mod hints;
pub(crate) mod limits;
mod pool;
pub(crate) mod reentrancy;
pub(crate) mod release;
pub(crate) mod renewer;
pub(crate) mod spawn;
mod stall;
pub(crate) mod table;
