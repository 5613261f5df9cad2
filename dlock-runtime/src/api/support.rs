//! Functions that generated code calls. They are hidden and not covered by semantic versioning.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

use crate::{
    api::{blocking::refused, global},
    engine::{acquire::acquire as acquire_in, acquire_all, blocking},
    exclusive::Exclusive,
    observe,
    site::Origin,
};
pub use crate::{
    api::{
        blocking::{BlockingGuard, guard::finish_blocking},
        detach::{Detach, Detached},
        guard::{Lease, LockGuard, finish},
        manager::LockManager,
        optional::{OptionalBlockingGuard, OptionalGuard},
    },
    error::LockError,
    key::{KeyInMode, KeyPart, LockKey, LockKeys, PartWriter},
    mode::LockMode,
    options::{OnLost, Options, Wait, check_max_hold, check_min_hold, check_permits, check_ttl},
    site::LockSite,
};

/// Code for editors only, never compiled: rust-analyzer sets this `cfg` itself.
#[cfg(rust_analyzer)]
#[doc(hidden)]
#[macro_export]
macro_rules! __in_editors {
    ($($code:tt)*) => { $($code)* };
}

#[cfg(not(rust_analyzer))]
#[doc(hidden)]
#[macro_export]
macro_rules! __in_editors {
    ($($code:tt)*) => {};
}

pub use __in_editors as in_editors;

/// A reference to the static description of an annotated function.
//
// In its own block: statics are not hygienic, and the user's code must not see this one.
#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    (
        $function:literal,
        [$template:literal $(, $more:literal)*],
        [$($options:tt)*],
        $computed:expr
        $(, $metric:literal)?
        $(; $shared:expr)?
    ) => {{
        static __DLOCK_SITE: $crate::support::LockSite = $crate::support::LockSite::new(
            ::core::concat!(::core::module_path!(), "::", $function),
            ::core::file!(),
            ::core::line!(),
            ::core::concat!($template $(, ", ", $more)*),
            &[$template $(, $more)*],
            $crate::support::Options::new() $($options)*,
            &$computed,
        )$(.with_metric($metric))?$(.with_shared(&$shared))?;
        $crate::__register!(__DLOCK_SITE);
        &__DLOCK_SITE
    }};
}

/// Adds a site to the list of the program's sites.
#[cfg(all(feature = "registry", not(target_family = "wasm")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($site:ident) => {
        #[$crate::support::linkme::distributed_slice($crate::support::SITES)]
        #[linkme(crate = $crate::support::linkme)]
        static __DLOCK_ENTRY: &$crate::support::LockSite = &$site;
    };
}

#[cfg(not(all(feature = "registry", not(target_family = "wasm"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($site:ident) => {};
}

pub use __site as site;
#[cfg(all(feature = "registry", not(target_family = "wasm")))]
pub use {crate::api::registry::SITES, linkme};

/// One piece of a key template.
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// Literal text.
    Text(&'static str),
    /// The value of a placeholder.
    Part(&'a dyn KeyPart),
}

impl fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Part(_) => f.write_str("Part(..)"),
        }
    }
}

/// Creates a piece of literal text.
#[must_use]
pub const fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text)
}

/// Creates a piece from a placeholder's value. The bound produces the compiler's error message.
pub fn part<T: KeyPart>(value: &T) -> Piece<'_> {
    Piece::Part(value)
}

/// Writes one of several parts, which may be unsized. The bound produces the compiler's error message.
pub fn push_part<T: KeyPart + ?Sized>(value: &T, out: &mut PartWriter<'_>) {
    out.push_part(&value);
}

/// Renders a key.
///
/// # Errors
///
/// Returns [`LockError::InvalidKey`] with the template if a value is empty or the key is too long.
pub fn key(template: &'static str, pieces: &[Piece<'_>]) -> Result<LockKey, LockError> {
    let mut builder = LockKey::builder();
    for piece in pieces {
        builder = match piece {
            Piece::Text(text) => builder.text(text),
            Piece::Part(value) => builder.part(*value),
        };
    }
    builder.build().map_err(|error| match error {
        // The error names the template: the partly rendered key is less useful and may be long.
        LockError::InvalidKey { reason, .. } => LockError::InvalidKey {
            key: template.to_owned(),
            reason,
        },
        error => error,
    })
}

/// Combines the keys of one function.
///
/// # Errors
///
/// Returns the first error among the keys.
pub fn keys<const N: usize, K: Into<KeyInMode>>(
    keys: [Result<K, LockError>; N],
) -> Result<LockKeys, LockError> {
    LockKeys::collect(keys)
}

/// Marks a key of a list that is acquired in shared mode.
pub fn shared_key(key: Result<LockKey, LockError>) -> Result<KeyInMode, LockError> {
    key.map(KeyInMode::shared)
}

/// Marks a key beside a shared one that is acquired in the mode of the call.
pub fn own_key(key: Result<LockKey, LockError>) -> Result<KeyInMode, LockError> {
    key.map(KeyInMode::from)
}

/// Acquires the lock of an annotated function. Nothing happens before the future is polled.
pub fn acquire(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    key: Result<LockKey, LockError>,
) -> Acquire {
    let manager = manager.cloned();
    Acquire::new(Box::pin(async move {
        let origin = Origin::from(site).with(&options);
        let refused = |error| observe::not_asked(origin, error);
        let key = key.map_err(refused)?;
        let Some(manager) = manager.or_else(global::current) else {
            return Err(refused(LockError::NotInstalled { key }));
        };
        let taken = acquire_in(manager.core(), key, options, origin).await?;
        Ok(LockGuard::new(taken))
    }))
}

/// Acquires the locks of a function with several keys. Nothing happens before the future is polled.
pub fn acquire_all(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    keys: Result<LockKeys, LockError>,
) -> Acquire {
    let manager = manager.cloned();
    Acquire::new(Box::pin(async move {
        let origin = Origin::from(site).with(&options);
        let refused = |error| observe::not_asked(origin, error);
        let keys = keys.map_err(refused)?;
        let Some(manager) = manager.or_else(global::current) else {
            let key = keys.first().clone();
            return Err(refused(LockError::NotInstalled { key }));
        };
        let all = acquire_all::acquire(manager.core(), keys, options, origin).await?;
        Ok(LockGuard::of_all(all))
    }))
}

/// Acquires the lock of a blocking function, like [`acquire`].
///
/// # Errors
///
/// Returns the errors of the acquisition, and [`LockError::WouldBlock`] inside an async task.
pub fn acquire_blocking(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    key: Result<LockKey, LockError>,
) -> Result<BlockingGuard, LockError> {
    match blocking::runtime() {
        Ok(runtime) => block_on(&runtime, acquire(site, telling(options), manager, key)),
        Err(no_wait) => {
            let origin = Origin::from(site).with(&options);
            Err(refused(origin, &no_wait, key.as_ref()))
        }
    }
}

/// Acquires the locks of a blocking function with several keys, like `acquire_all`.
///
/// # Errors
///
/// Returns the errors of the acquisition, and [`LockError::WouldBlock`] inside an async task.
pub fn acquire_all_blocking(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    keys: Result<LockKeys, LockError>,
) -> Result<BlockingGuard, LockError> {
    match blocking::runtime() {
        Ok(runtime) => block_on(&runtime, acquire_all(site, telling(options), manager, keys)),
        Err(no_wait) => {
            let key = keys.as_ref().map(LockKeys::first);
            let origin = Origin::from(site).with(&options);
            Err(refused(origin, &no_wait, key))
        }
    }
}

/// A thread's body runs to its end in any case. With this option, the release reports a loss.
fn telling(options: Options) -> Options {
    options.on_lost(OnLost::Stop)
}

fn block_on(runtime: &Handle, acquiring: Acquire) -> Result<BlockingGuard, LockError> {
    blocking::wait_for_acquire(runtime, acquiring).map(BlockingGuard::new)
}

/// The future of [`acquire`]. It is one pointer, whatever the acquisition needs.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire(Exclusive<Acquiring>);

type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

impl Acquire {
    fn new(acquiring: Acquiring) -> Self {
        Self(Exclusive::new(acquiring))
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.get_mut().as_mut().poll(context)
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acquire")
    }
}

/// Returns `true` if another holder had the lock.
#[must_use]
pub fn is_busy(error: &LockError) -> bool {
    error.is_busy()
}

/// A return type that can represent a [`LockError`].
#[diagnostic::on_unimplemented(
    message = "a function with `#[distributed_lock]` must be able to return a `LockError`",
    label = "`{Self}` cannot represent a `LockError`",
    note = "return `Result<T, E>` where `E: From<dlock::LockError>`",
    note = "or convert the error to a value with `on_error = |error| …`"
)]
pub trait Fallible {
    /// Converts the error to a value of the function's return type.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> Fallible for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// A return type with a value that means "nothing was done".
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` does not support this return type",
    label = "`{Self}` has no value for a skipped call",
    note = "return `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>`",
    note = "or write the value: `on_busy = EXPR`"
)]
pub trait Skip {
    /// Returns the value of a call that was skipped because another holder had the lock.
    fn skipped() -> Self;
}

#[diagnostic::do_not_recommend]
impl Skip for () {
    fn skipped() {}
}

#[diagnostic::do_not_recommend]
impl<T> Skip for Option<T> {
    fn skipped() -> Self {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E> Skip for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> Skip for Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}
