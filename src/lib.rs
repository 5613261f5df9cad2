// Here the README's links to a file lead to a module: of two definitions of a link the first counts.
#![doc = "[comparison]: crate::book::alternatives\n[errors]: crate::book::errors\n[guarantees]: crate::book::guarantees\n[migration]: crate::book::migration\n[observability]: crate::book::metrics\n[operations]: crate::book::operations\n[operations-raw]: crate::book::operations#with-clients-in-other-languages\n[protocol]: crate::book::protocol\n"]
// Its code is tested in the package of the tests, which has the crates that it uses.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Makes a struct or an enum one of the values that stand in a key.
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
/// Takes a lock before the body of an async function, and gives it back behind it.
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
///     /// A job that every replica starts, and one does.
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
    LockError, LockGuard, LockKey, LockKeyBuilder, LockManager, LockManagerBuilder, LockRequest,
    LockSite, LostCause, MAX_TTL, MIN_TTL, OnLost, PartWriter, Release, RunWhileHeld,
    ShutdownReport, StoreError, StoreErrorKind, Wait, blocking, install, install_with, installed,
    shutdown, store, testing, with_manager,
};

#[cfg(feature = "admin")]
pub use dlock_runtime::admin;

#[cfg(any(feature = "axum", feature = "actix-web"))]
pub use dlock_runtime::web;

#[cfg(feature = "registry")]
pub use dlock_runtime::{assert_lock_sites_agree, lock_sites};

/// What generated code calls; not for use by hand.
#[doc(hidden)]
pub use dlock_runtime::support as __private;

/// The book: how-to pages, reference and explanation.
#[cfg(doc)]
pub mod book;
