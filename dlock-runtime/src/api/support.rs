//! The functions that generated code calls. Hidden, and outside the promises of semantic
//! versioning.

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
    key::{KeyPart, LockKey, LockKeys, PartWriter},
    options::{OnLost, Options, Wait, check_max_hold, check_min_hold, check_ttl},
    site::LockSite,
};

/// Code that is read by editors, and by no compiler: rust-analyzer sets this `cfg` itself.
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
// In a block of its own: statics are not hygienic, and the user's code must not see it.
#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    (
        $function:literal,
        [$template:literal $(, $more:literal)*],
        [$($options:tt)*],
        $computed:expr
        $(, $metric:literal)?
    ) => {{
        static __DLOCK_SITE: $crate::support::LockSite = $crate::support::LockSite::new(
            ::core::concat!(::core::module_path!(), "::", $function),
            ::core::file!(),
            ::core::line!(),
            ::core::concat!($template $(, ", ", $more)*),
            &[$template $(, $more)*],
            $crate::support::Options::new() $($options)*,
            &$computed,
        )$(.with_metric($metric))?;
        $crate::__register!(__DLOCK_SITE);
        &__DLOCK_SITE
    }};
}

/// Lists a site among those of the program.
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

/// A piece of a key template.
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

/// Literal text.
#[must_use]
pub const fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text)
}

/// A placeholder's value; the bound gives the error message.
pub fn part<T: KeyPart>(value: &T) -> Piece<'_> {
    Piece::Part(value)
}

/// Writes one of several parts, which need not be sized; the bound gives the error message.
pub fn push_part<T: KeyPart + ?Sized>(value: &T, out: &mut PartWriter<'_>) {
    out.push_part(&value);
}

/// Renders a key.
///
/// # Errors
///
/// [`LockError::InvalidKey`], naming the template, when a value is empty or the key too long.
pub fn key(template: &'static str, pieces: &[Piece<'_>]) -> Result<LockKey, LockError> {
    let mut builder = LockKey::builder();
    for piece in pieces {
        builder = match piece {
            Piece::Text(text) => builder.text(text),
            Piece::Part(value) => builder.part(*value),
        };
    }
    builder.build().map_err(|error| match error {
        // The part that has been rendered so far says less, and may be long.
        LockError::InvalidKey { reason, .. } => LockError::InvalidKey {
            key: template.to_owned(),
            reason,
        },
        error => error,
    })
}

/// Puts the keys of one function together.
///
/// # Errors
///
/// That of the first which has one.
pub fn keys<const N: usize>(keys: [Result<LockKey, LockError>; N]) -> Result<LockKeys, LockError> {
    LockKeys::collect(keys)
}

/// Takes the lock of an annotated function. Nothing happens before the future is polled.
pub fn acquire(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    key: Result<LockKey, LockError>,
) -> Acquire {
    let manager = manager.cloned();
    Acquire::new(Box::pin(async move {
        let refused = |error| observe::not_asked(site.into(), error);
        let key = key.map_err(refused)?;
        let Some(manager) = manager.or_else(global::current) else {
            return Err(refused(LockError::NotInstalled { key }));
        };
        let taken = acquire_in(manager.core(), key, options, site.into()).await?;
        Ok(LockGuard::new(taken))
    }))
}

/// Takes the locks of a function with several keys. Nothing happens before the future is polled.
pub fn acquire_all(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    keys: Result<LockKeys, LockError>,
) -> Acquire {
    let manager = manager.cloned();
    Acquire::new(Box::pin(async move {
        let refused = |error| observe::not_asked(site.into(), error);
        let keys = keys.map_err(refused)?;
        let Some(manager) = manager.or_else(global::current) else {
            let key = keys.first().clone();
            return Err(refused(LockError::NotInstalled { key }));
        };
        let all = acquire_all::acquire(manager.core(), keys, options, site.into()).await?;
        Ok(LockGuard::of_all(all))
    }))
}

/// The same as `acquire` for a function that blocks its thread.
///
/// # Errors
///
/// Those of the acquisition, and [`LockError::WouldBlock`] inside of an async task.
pub fn acquire_blocking(
    site: &'static LockSite,
    options: Options,
    manager: Option<&LockManager>,
    key: Result<LockKey, LockError>,
) -> Result<BlockingGuard, LockError> {
    match blocking::runtime() {
        Ok(runtime) => block_on(&runtime, acquire(site, telling(options), manager, key)),
        Err(no_wait) => Err(refused(site.into(), &no_wait, key.as_ref())),
    }
}

/// The same as `acquire_all` for a function that blocks its thread.
///
/// # Errors
///
/// Those of the acquisition, and [`LockError::WouldBlock`] inside of an async task.
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
            Err(refused(site.into(), &no_wait, key))
        }
    }
}

/// A body of a thread runs to its end in any case; by this the release tells of a loss.
fn telling(options: Options) -> Options {
    options.on_lost(OnLost::Stop)
}

fn block_on(runtime: &Handle, acquiring: Acquire) -> Result<BlockingGuard, LockError> {
    runtime.block_on(acquiring).map(BlockingGuard::new)
}

/// The future of [`acquire`]: one pointer, whatever the acquisition needs.
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

/// A return type that has room for a [`LockError`].
#[diagnostic::on_unimplemented(
    message = "a function under `#[distributed_lock]` must be able to return a lock failure",
    label = "`{Self}` has no room for a `LockError`",
    note = "return `Result<T, E>` where `E: From<dlock::LockError>`",
    note = "or turn the failure into a value with `on_error = |error| …`"
)]
pub trait Fallible {
    /// The failure as the function's value.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> Fallible for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// A return type with a value that says that nothing was done.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` needs a return type with a value that says that nothing was done",
    label = "`{Self}` has none",
    note = "return `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>`",
    note = "or write the value: `on_busy = EXPR`"
)]
pub trait Skip {
    /// The value of a call that did nothing, since another holder had the lock.
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
