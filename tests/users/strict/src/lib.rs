//! A user whose crate denies every lint there is.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    future_incompatible,
    keyword_idents,
    let_underscore,
    nonstandard_style,
    refining_impl_trait,
    rust_2018_idioms,
    rust_2024_compatibility,
    unused,
    absolute_paths_not_starting_with_crate,
    ambiguous_negative_literals,
    closure_returning_async_block,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    ffi_unwind_calls,
    if_let_rescope,
    impl_trait_redundant_captures,
    let_underscore_drop,
    macro_use_extern_crate,
    meta_variable_misuse,
    missing_abi,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    non_ascii_idents,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    tail_expr_drop_order,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unstable_features,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    clippy::all,
    clippy::nursery,
    clippy::pedantic,
    clippy::restriction
)]
#![expect(
    clippy::arbitrary_source_item_ordering,
    clippy::blanket_clippy_restriction_lints,
    clippy::implicit_return,
    clippy::single_call_fn,
    reason = "these cannot be denied together with the others, or are about these examples"
)]

use core::{error::Error, pin::Pin, time::Duration};

use async_trait::async_trait;
use dlock::{LockError, LockManager, distributed_lock};

/// How long somebody who ships may take.
const LONGEST: Duration = Duration::from_secs(60);

/// An error as services have: lock failures are one case among others.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShopError {
    /// The lock could not be had.
    Lock(LockError),
    /// There is no such order.
    Missing,
}

impl From<LockError> for ShopError {
    #[inline]
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// Settles an order.
///
/// # Errors
///
/// When it is missing, or its lock cannot be had.
#[inline]
#[distributed_lock(key = "order:<id>", ttl = "30s", wait = "1s", lease = lease)]
pub async fn settle(id: u64) -> Result<String, ShopError> {
    if id == 0 {
        return Err(ShopError::Missing);
    }
    Ok(lease.key().as_str().to_owned())
}

/// Holds two locks, or one if they are the same.
///
/// # Errors
///
/// When a lock cannot be had.
#[inline]
#[distributed_lock(key = ["account:<from>", "account:<to>"], wait = never, lease = lease)]
pub async fn transfer(from: u64, to: u64) -> Result<usize, ShopError> {
    Ok(lease.fencing_tokens().count())
}

/// Imports a feed, on a thread that blocks.
///
/// # Errors
///
/// When it has no name, or its lock cannot be had.
#[inline]
#[distributed_lock(key = "feed:<feed>", wait = never, lease = lease, on_lost = finish)]
pub fn import(feed: &str, mut rows: Vec<u8>) -> Result<String, ShopError> {
    if feed.is_empty() {
        return Err(ShopError::Missing);
    }
    rows.push(1);
    lease
        .ensure_held()
        .map(|()| lease.key().as_str().to_owned())
        .map_err(ShopError::Lock)
}

/// The same as a job, which has nothing to return.
#[must_use]
#[inline]
#[distributed_lock(key = "job:<day>", on_busy = skip, on_lost = finish, on_error = |_| None, enabled = day > 0)]
pub fn nightly(day: u32) -> Option<u32> {
    Some(day)
}

/// Has everything in its body that lints are told to look at.
///
/// # Errors
///
/// When it is no number, or its lock cannot be had.
///
/// # Panics
///
/// When there is no more.
#[expect(
    clippy::question_mark_used,
    clippy::shadow_reuse,
    clippy::unwrap_used,
    reason = "what is said of the body without the attribute is said with it"
)]
#[inline]
#[distributed_lock(key = "parsed:<text>", on_error = |error| Err(Box::from(error)))]
pub async fn parsed(text: &str, more: Option<u8>) -> Result<u8, Box<dyn Error + Send + Sync>> {
    let more = more.unwrap();
    drop(settle(1).await.map_err(|fault| text_of(&fault))?);
    let number = text.parse::<u8>()?;
    let mut sum: u8 = 0;
    for step in 0..number {
        if step > more {
            break;
        }
        sum = sum.saturating_add(step);
    }
    Ok(sum)
}

/// The text of a fault.
fn text_of(fault: &ShopError) -> String {
    format!("{fault:?}")
}

/// Answers in one expression.
///
/// # Errors
///
/// When its lock cannot be had.
#[inline]
#[distributed_lock(key = "short")]
pub async fn short() -> Result<u8, ShopError> {
    Ok(1)
}

/// Takes what is generic, and arguments by patterns.
///
/// # Errors
///
/// When its lock cannot be had.
#[inline]
#[distributed_lock(key = "generic:<first>:<_second>")]
pub async fn generic<T, const N: usize>(
    (first, _second): (u8, u8),
    value: T,
) -> Result<[T; N], ShopError>
where
    T: Copy + Send,
{
    Ok([value; N])
}

/// A shop with locks of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct Shop {
    /// How many orders it has.
    orders: u32,
    /// Where it takes locks.
    locks: LockManager,
    /// Whose it is.
    tenant: String,
}

impl Shop {
    /// Says how many orders there are, or nothing while somebody else does so.
    #[inline]
    #[distributed_lock(
        key = "count:<self.tenant>",
        manager = self.locks,
        wait = never,
        on_busy = None,
        on_error = |_error| None
    )]
    pub async fn count(&self) -> Option<u32> {
        Some(self.orders)
    }

    /// Counts the orders if there may be others who do, and nobody else does so now.
    ///
    /// # Errors
    ///
    /// When its lock cannot be had.
    #[inline]
    #[distributed_lock(
        key = "recount:<self.tenant>",
        manager = self.locks,
        enabled = self.orders > 0,
        on_busy = skip,
        metric = "recount"
    )]
    pub async fn recount(&self) -> Result<Option<u32>, ShopError> {
        Ok(Some(self.orders))
    }

    /// A shop without orders.
    #[must_use]
    #[inline]
    pub const fn new(tenant: String, locks: LockManager) -> Self {
        Self {
            orders: 0,
            locks,
            tenant,
        }
    }

    /// Ships all orders.
    ///
    /// # Errors
    ///
    /// When its lock cannot be had.
    #[inline]
    #[distributed_lock(
        key = "ship:<self.tenant>/<self.orders>",
        manager = self.locks,
        max_hold = LONGEST,
        ttl = ttl,
        on_lost = finish
    )]
    pub async fn ship(&mut self, ttl: Duration) -> Result<u32, ShopError> {
        self.orders = self.orders.saturating_sub(1);
        Ok(self.orders)
    }

    /// Ships without its caller if need be.
    ///
    /// # Errors
    ///
    /// When its lock cannot be had.
    #[inline]
    #[distributed_lock(key = "last", manager = self.locks, on_cancel = detach, min_hold = "1ms")]
    pub async fn ship_last(self) -> Result<u32, ShopError> {
        Ok(self.orders)
    }
}

/// What a shop takes money with.
#[async_trait]
pub trait Till {
    /// Takes an amount.
    ///
    /// # Errors
    ///
    /// When its lock cannot be had.
    async fn take(&self, amount: u8) -> Result<u8, ShopError>;
}

#[async_trait]
impl Till for Shop {
    #[inline]
    #[distributed_lock(key = "till:<amount>", manager = self.locks)]
    async fn take(&self, amount: u8) -> Result<u8, ShopError> {
        if amount == 0 {
            return Err(ShopError::Missing);
        }
        Ok(amount)
    }
}

/// Returns a box.
#[must_use]
#[inline]
#[distributed_lock(key = "boxed:<id>")]
pub fn boxed(id: u8) -> Pin<Box<dyn Future<Output = Result<u8, ShopError>> + Send>> {
    Box::pin(async move { Ok(id) })
}
