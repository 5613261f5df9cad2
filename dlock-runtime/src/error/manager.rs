//! The errors of creating a manager, and of installing a second one.

use std::borrow::Cow;

use super::{
    forms::{codes, debug_with_text},
    store::StoreError,
};

/// The reason why a manager could not be created.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
/// use dlock::{ConnectError, LockManager};
///
/// let refused = LockManager::connect("mysql://localhost").await;
/// assert!(matches!(refused, Err(ConnectError::InvalidUrl { .. })));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not name a supported store.
    #[error("`{url}` is not a valid store URL: {reason}")]
    InvalidUrl {
        /// The URL without its password.
        url: String,
        /// The reason why the URL is invalid.
        reason: String,
    },
    /// `connect_env` found no `DLOCK_URL`, or an empty one.
    #[error("`DLOCK_URL` is not set; set it to the store's URL, such as `redis://127.0.0.1:6379`")]
    NoUrl,
    /// An option of the manager is out of range, or does not fit another option or the store.
    #[error("invalid manager option `{option}`: {reason}")]
    InvalidOption {
        /// The name of the invalid option.
        option: &'static str,
        /// The reason why the value is invalid.
        reason: Cow<'static, str>,
    },
    /// A certificate or a key cannot be used.
    #[error("cannot use `{option}` from `{origin}`: {reason}")]
    InvalidCertificate {
        /// `ca`, `cert` or `key`.
        option: &'static str,
        /// The path of the file, or another description of the source.
        origin: String,
        /// The reason. It contains no text of the certificate or key.
        reason: String,
    },
    /// A blocking function was called in an async task and would block the task's thread.
    #[error("`{function}` would block the thread of this async task; call `{instead}`")]
    WouldBlock {
        /// The function that was called.
        function: &'static str,
        /// The async function with the same effect.
        instead: &'static str,
    },
    /// The store did not answer correctly within the connect timeout, or there is no tokio runtime for the
    /// connection.
    #[error("cannot use the store at `{url}`: {reason}")]
    Unavailable {
        /// The URL without its password.
        url: String,
        /// The last failure.
        reason: StoreError,
    },
}

codes! { ConnectError:
    InvalidUrl => "invalid-url",
    NoUrl => "no-url",
    InvalidOption => "invalid-manager-option",
    InvalidCertificate => "invalid-certificate",
    WouldBlock => "would-block-connect",
    Unavailable => "no-connection",
}

#[cfg(feature = "net")]
impl From<dlock_net::OptionError> for ConnectError {
    fn from(error: dlock_net::OptionError) -> Self {
        Self::InvalidOption {
            option: error.option,
            reason: error.text().into(),
        }
    }
}

/// The error of a second `install`: the process already has an installed manager, which stays.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lock manager is already installed in this process; \
     install one at start-up, and use `dlock::with_manager` where another is needed"
)]
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{AlreadyInstalled, LockManager};
///
/// dlock::install(LockManager::memory())?;
/// let second = dlock::install(LockManager::memory());
/// assert!(matches!(second, Err(AlreadyInstalled { .. })));
/// # Ok::<(), AlreadyInstalled>(())
/// ```
#[non_exhaustive]
pub struct AlreadyInstalled;

debug_with_text! {
    ConnectError: |error| match error {
        ConnectError::InvalidUrl { .. } => "InvalidUrl",
        ConnectError::NoUrl => "NoUrl",
        ConnectError::InvalidOption { .. } => "InvalidOption",
        ConnectError::InvalidCertificate { .. } => "InvalidCertificate",
        ConnectError::WouldBlock { .. } => "WouldBlock",
        ConnectError::Unavailable { .. } => "Unavailable",
    },
    AlreadyInstalled: |_| "AlreadyInstalled",
}
