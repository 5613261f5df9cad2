//! Locks of dlock in PostgreSQL, which a transaction can check and then rely on until its commit.
//!
//! ```no_run
//! use dlock_postgres::{Fence, Postgres};
//! use dlock_runtime::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut client: tokio_postgres::Client = unimplemented!();
//! let manager = LockManager::builder()
//!     .scheme("postgres", Postgres)
//!     .connect("postgres://shop@db.internal/shop")
//!     .await?;
//!
//! let guard = manager.lock("account:7").acquire().await?;
//! let tx = client.transaction().await?;
//! // From here on, nobody else gets `account:7` before this transaction has ended.
//! guard.fence(&tx).await?;
//! tx.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
//! tx.commit().await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! The statements of [`Schema::migration`] make the tables. A manager never changes a schema.
//!
//! A manager uses two connections, whatever the number of its locks, on a thread of its own.
//!
//! With the feature `admin`, the module `admin` has an inspector for operators, and applies the migration, as `dlock postgres
//! migrate` does.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod config;
mod errors;
mod fence;
mod hints;
mod schema;
mod scheme;
mod session;
mod store;
mod tls;
mod worker;

pub use fence::{Fence, FenceError, lock_in};
pub use schema::{InvalidSchema, Schema};
pub use scheme::Postgres;
pub use store::PostgresStore;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
