//! Distributed locks of dlock in etcd: locks that no failover loses, and leases that a transaction in etcd can check.
//!
//! 1. Register [`Etcd`] for the URLs of your manager. [`Etcd`] lists the options of a URL.
//! 2. Lock as with every store: by the attribute `#[distributed_lock]` of dlock-rs, or by a guard as here.
//!
//! ```no_run
//! use dlock::LockManager;
//! use dlock_etcd::Etcd;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "etcd://etcd-1:2379,etcd-2:2379,etcd-3:2379";
//! let manager = LockManager::builder().scheme("etcd", Etcd).connect(url).await?;
//!
//! let guard = manager.lock("order:42").acquire().await?;
//! // … the critical section …
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! TTLs are whole seconds: dlock rounds a `ttl` up, and refuses a `ttl` below one second. The shortest lease of etcd is one and a
//! half election timeouts, 2 s by default. After a crash of its holder, a lock is therefore free after 2 s at the earliest.
//!
//! If the resource that the lock protects is in the same etcd, [`Compare::compare`] makes its transactions exact.
//!
//! With the feature `admin`, the module `admin` has an inspector for operators.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod base;
mod beat;
mod calls;
mod claims;
mod compare;
mod config;
mod conn;
mod core;
mod dial;
mod doubt;
mod errors;
mod follow;
mod followed;
mod holder;
mod keep_alive;
mod keys;
mod leases;
mod names;
mod near;
mod notices;
mod ops;
mod places;
mod proto;
mod queue;
mod raise;
mod release;
mod renew;
mod requests;
#[cfg(test)]
mod scene;
mod scheme;
mod session;
mod settle;
mod store;
mod streams;
mod version;
mod wait;

pub use compare::{Compare, CompareError, LeaseKey};
pub use scheme::Etcd;
pub use store::EtcdStore;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
