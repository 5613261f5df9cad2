//! Distributed locks for async Rust, declared with one attribute, over Redis, Valkey, PostgreSQL, etcd and ZooKeeper.
//!
//! ```
//! use dlock::{LockError, LockManager, distributed_lock};
//!
//! #[distributed_lock(key = "order:<id>", ttl = "30s", lease = lease)]
//! async fn settle(id: u64) -> Result<(), LockError> {
//!     println!("order {id} is locked, fencing token {}", lease.fencing_token());
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! dlock::install(LockManager::connect("memory://").await?)?; // or redis://127.0.0.1:6379
//! settle(42).await?;
//! # Ok(()) }
//! ```
//!
//! Across all processes that use the same server, one call of `settle(42)` runs at a time. Other calls wait their turn, first
//! come, first served. dlock renews the lease while the body runs. If the lease is lost, dlock drops the body's future at
//! its next await and returns [`LockError::Lost`]. Each exclusive holder gets a [`FencingToken`] that is greater than every
//! earlier one for its key.
//!
//! # Where to find what
//!
//! | task | item |
//! |---|---|
//! | lock a function | [`distributed_lock`], and its options in [the book][attribute] |
//! | use a struct or an enum in a key | [`derive(KeyPart)`](derive@KeyPart) |
//! | connect and configure | [`LockManager::connect`], [`LockManager::builder`], [the URLs][urls] |
//! | choose a store | [Which store?][which-store]; PostgreSQL, etcd and ZooKeeper are packages: `dlock-postgres`, `dlock-etcd`, `dlock-zookeeper` |
//! | use one manager in the whole program | [`install`], [`shutdown`] |
//! | use another manager for one call, for example in a test | [`with_manager`], [`LockManager::memory`] |
//! | lock without the attribute | [`LockManager::lock`], [`LockManager::lock_all`] |
//! | lock in code without async | the attribute on a plain `fn`, or [`blocking`] |
//! | handle errors | [`LockError`], and [every error with its remedy][errors] |
//! | write a store | [`store::LockStore`], and the package `dlock-conformance` |
//!
//! # Guarantees
//!
//! On one Redis server, two holders of a key never overlap, as long as the server keeps its data. A failover or a restart without
//! persistence can lose a lock: the fencing token protects your data then, if the resource compares tokens.
//! [Guarantees][guarantees] lists each kind of deployment and each fault.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `redis` | Redis and Valkey | yes |
//! | `tls` | `rediss://` URLs; needs a C compiler | yes |
//! | `axum`, `actix-web` | [`LockError`] as an HTTP response, module `web` | |
//! | `metrics` | counters and histograms through the crate `metrics` | |
//! | `admin` | module `admin`: locks, holders and waiters of a server | |
//! | `admin-web` | `admin::web`: a page that shows them in a browser, as a router of axum | |
//! | `registry` | `lock_sites()`: every annotated function of the program | |
//!
//! [attribute]: crate::book::attribute
//! [errors]: crate::book::errors
//! [guarantees]: crate::book::guarantees
//! [urls]: crate::book::urls
//! [which-store]: crate::book::which_store
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Derives the trait `KeyPart`, so that values of a struct or an enum can stand in a key.
///
/// ```
/// use dlock::{KeyPart, LockError, LockManager, distributed_lock};
///
/// #[derive(KeyPart)]
/// struct Order {
///     shop: u32,
///     number: u64,
///     #[key_part(skip)]
///     note: String,
/// }
///
/// #[derive(KeyPart)]
/// #[key_part(rename_all = "snake_case")]
/// enum Step {
///     TakeMoney,
///     SendGoods,
/// }
///
/// #[distributed_lock(key = "step:<order>:<step>", lease = lease)]
/// async fn run(order: &Order, step: Step) -> Result<String, LockError> {
///     println!("{}", order.note);
///     Ok(lease.key().to_string())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// # dlock::with_manager(LockManager::memory(), async {
/// let order = Order { shop: 3, number: 42, note: "fragile".to_owned() };
/// assert_eq!(run(&order, Step::TakeMoney).await?, "step:3%3a42:take_money");
/// assert_eq!(run(&order, Step::SendGoods).await?, "step:3%3a42:send_goods");
/// # Ok(()) }).await }
/// ```
pub use dlock_macros::KeyPart;
/// Acquires a lock before the body of a function, renews it while the body runs, and releases it afterwards.
///
/// ```
/// use dlock::{Lease, LockError, LockManager, distributed_lock};
///
/// #[derive(Debug, PartialEq)]
/// enum Night {
///     Done,
///     Skipped,
/// }
///
/// struct Reports {
///     locks: LockManager,
/// }
///
/// impl Reports {
///     /// Every replica starts this job, and one replica does it.
///     #[distributed_lock(
///         key = "report:<day>",
///         ttl = "30s",
///         wait = never,
///         min_hold = "10m",
///         on_busy = Ok(Night::Skipped),
///         lease = lease,
///         manager = self.locks
///     )]
///     async fn write(&self, day: u32) -> Result<Night, LockError> {
///         self.store(day, lease)?;
///         Ok(Night::Done)
///     }
///
///     fn store(&self, day: u32, lease: &Lease) -> Result<(), LockError> {
///         lease.ensure_held()?;
///         println!("day {day}, token {}", lease.fencing_token());
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// let reports = Reports { locks: LockManager::memory() };
/// assert_eq!(reports.write(7).await?, Night::Done);
/// assert_eq!(reports.write(7).await?, Night::Skipped);
/// # Ok(()) }
/// ```
pub use dlock_macros::distributed_lock;
pub use dlock_runtime::{
    AlreadyInstalled, ConnectError, FencingToken, Holder, InvalidKeyReason, KeyPart, Lease,
    LockError, LockGuard, LockKey, LockKeyBuilder, LockManager, LockManagerBuilder, LockMode,
    LockRequest, LockSite, LostCause, MAX_TTL, MIN_TTL, OnLost, PartWriter, Release, RunWhileHeld,
    ShutdownReport, StoreError, StoreErrorKind, Wait, blocking, clock, install, install_with,
    installed, random, shutdown, store, with_manager,
};

/// For operators: who holds and awaits which lock, and how the servers are set up.
#[cfg(feature = "admin")]
pub mod admin {
    #[doc(inline)]
    pub use dlock_admin::*;

    /// A page that shows the locks and lets operators release them.
    #[cfg(feature = "admin-web")]
    pub mod web {
        #[doc(inline)]
        pub use dlock_admin_web::*;
    }
}

#[cfg(any(feature = "axum", feature = "actix-web"))]
pub use dlock_runtime::web;

#[cfg(feature = "registry")]
pub use dlock_runtime::{assert_lock_sites_agree, lock_sites};

/// Functions that generated code calls. Not part of the public API.
#[doc(hidden)]
pub use dlock_runtime::support as __private;

/// The book: tutorial, how-to pages, reference and explanation.
#[cfg(doc)]
pub mod book;
