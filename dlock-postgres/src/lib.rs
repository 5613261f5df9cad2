//! Distributed locks of dlock in PostgreSQL, and leases that a transaction checks and then relies on until its commit.
//!
//! 1. Execute the statements of [`Schema::migration`] in your database, once. They create the tables and functions in a
//!    schema of their own. A manager never changes a schema.
//! 2. Register [`Postgres`] for the URLs of your manager. [`Postgres`] lists the options of a URL.
//! 3. Lock as with every store: by the attribute `#[distributed_lock]` of dlock-rs, or by a guard as here.
//! 4. Check the lease in each transaction that depends on it, with [`Fence::fence`].
//!
//! ```no_run
//! use dlock::LockManager;
//! use dlock_postgres::{Fence, Postgres};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "postgres://shop@db.internal/shop";
//! let manager = LockManager::builder().scheme("postgres", Postgres).connect(url).await?;
//!
//! let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//!
//! let guard = manager.lock("account:7").acquire().await?;
//! let tx = client.transaction().await?;
//! // From here on, no other holder gets `account:7` before this transaction has ended.
//! guard.fence(&tx).await?;
//! tx.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
//! tx.commit().await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! With the attribute, `lease = lease` gives the body the lease. Add `on_lost = finish`: once `fence` returns `Ok`, the
//! commit is right even if the lease ends before it. The default would cancel the body and report a loss.
//!
//! ```no_run
//! use dlock::{LockError, distributed_lock};
//! use dlock_postgres::{Fence, FenceError};
//!
//! #[distributed_lock(key = "account:<id>", lease = lease, on_lost = finish)]
//! async fn withdraw(id: i32, db: &mut tokio_postgres::Client) -> Result<(), AccountError> {
//!     let tx = db.transaction().await?;
//!     lease.fence(&tx).await?;
//!     tx.execute("UPDATE account SET cents = cents - 100 WHERE id = $1", &[&id]).await?;
//!     Ok(tx.commit().await?)
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! enum AccountError {
//!     #[error(transparent)]
//!     Lock(#[from] LockError),
//!     #[error(transparent)]
//!     Fence(#[from] FenceError),
//!     #[error(transparent)]
//!     Database(#[from] tokio_postgres::Error),
//! }
//! ```
//!
//! A lock that needs no lease, because it ends with one transaction, is [`lock_in`].
//!
//! A manager has two connections, whatever the number of its locks, and at times a third connection. One of the two connections is
//! for renewals, on a thread of its own. Requests work behind a pooler in transaction mode.
//!
//! With the feature `admin`, the module `admin` has an inspector for operators, and applies the migration, as `dlock postgres
//! migrate` does.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod calls;
mod check;
mod config;
mod dial;
mod errors;
mod fence;
mod hints;
mod hosts;
mod line;
mod message;
mod pooled;
mod pump;
mod releases;
mod requests;
mod schema;
mod scheme;
mod session;
mod store;
mod sweep;
mod tls;
mod trust;

pub use check::{Adoption, FenceError, LeaseStatement};
pub use fence::{Fence, lock_in};
pub use schema::{InvalidSchema, Schema};
pub use scheme::Postgres;
pub use store::PostgresStore;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
