//! Distributed locks of dlock in ZooKeeper. A majority of the servers keeps each lock in a failover or a restart. Use servers of
//! 3.9.4 or later, although the tests run with 3.8.0: earlier versions can lose writes, and with them a lock.
//!
//! ```no_run
//! use dlock::LockManager;
//! use dlock_zookeeper::ZooKeeper;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
//! let manager = builder.connect("zookeeper://zk-1,zk-2,zk-3").await?;
//! manager.lock("order:42").run(async |_lease| println!("one process at a time")).await?;
//! # Ok(()) }
//! ```
//!
//! A key is a node, and the claims for the key are the children of this node, in the order of their creation. The first children
//! hold the key. The children are ephemeral: they end with the session of their process. A fencing token is made from the number of
//! the transaction that created the child (`czxid`).
//!
//! - The lock of a crashed process is free when its session ends, not when its TTL ends. [`ZooKeeper`] has the option
//!   `session`.
//! - If the resource that the lock protects is in the same ZooKeeper, [`Check::check`] makes its transactions exact.
//!
//! With the feature `admin`, the module `admin` has an inspector for operators. The feature `tls` adds TLS, see [`ZooKeeper`].
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod answers;
mod base;
mod check;
mod config;
mod confirm;
mod creation;
mod data;
mod dial;
mod errors;
mod fence;
mod holder;
mod leftovers;
mod names;
mod notices;
mod proof;
mod queue;
mod readers;
mod repeats;
mod requests;
mod scheme;
mod session;
mod shared;
mod sinks;
mod slots;
mod store;
mod timers;
mod tls;
mod waiting;

pub use check::{Check, CheckError, LeaseNode};
pub use scheme::ZooKeeper;
pub use store::ZooKeeperStore;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
