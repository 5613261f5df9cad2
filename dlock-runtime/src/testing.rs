//! The clock and the random numbers of a manager, for tests that must control them.
//!
//! Programs do not need this module: a manager reads the clocks of its machine and draws random numbers by
//! itself. Most tests of code under locks need only tokio's paused clock and
//! [`LockManager::memory`](crate::LockManager::memory).
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::SystemTime;
//! use dlock::{LockManager, testing::{Clock, Moment, SystemClock}};
//!
//! /// A machine on which no suspension is ever detected.
//! #[derive(Debug)]
//! struct WithoutTimeOfDay;
//!
//! impl Clock for WithoutTimeOfDay {
//!     fn now(&self) -> Moment {
//!         SystemClock.now()
//!     }
//!
//!     fn time_of_day(&self) -> Option<SystemTime> {
//!         None
//!     }
//! }
//!
//! let manager = LockManager::builder().clock(WithoutTimeOfDay).connect("memory://").await?;
//! manager.lock("order:42").run(async |_lease| ()).await?;
//! # Ok(()) }
//! ```

pub use crate::{
    clock::{Clock, Moment, SystemClock},
    random::{Random, SystemRandom},
};
