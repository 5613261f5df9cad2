//! Time and chance of a manager, for tests that have to decide them.
//!
//! A program needs none of it: a manager reads the clocks of its machine and draws random numbers by itself.
//! Tests of code under locks mostly need a paused clock of tokio's and
//! [`LockManager::memory`](crate::LockManager::memory) only.
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::SystemTime;
//! use dlock::{LockManager, testing::{Clock, Moment, SystemClock}};
//!
//! /// A machine that is never taken for one that was suspended.
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
