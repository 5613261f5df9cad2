//! The schemes of URLs, which name stores of other crates.

use std::{future::Future, time::Duration};

use super::LockStore;
use crate::error::ConnectError;

/// The options of a manager that apply to its store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The name of the process for other clients, `application@host/pid`, in printable ASCII without spaces.
    pub label: String,
    /// The prefix of all keys.
    pub namespace: String,
    /// The maximum time of one request.
    pub response_timeout: Duration,
    /// The maximum time of the first connection.
    pub connect_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            namespace: "dlock".to_owned(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Creates the stores that URLs of one scheme name.
///
/// Implement it for a store in a crate of its own. Programs register it with
/// [`LockManagerBuilder::scheme`](crate::LockManagerBuilder::scheme). The scheme is the text before the first
/// colon of the URL; its case does not matter. The URL is passed on unchanged, so a scheme `dir` receives
/// `dir:/locks` as well as `dir://locks`. The scheme interprets the rest: hosts, options and credentials.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{
///     ConnectError, LockManager,
///     store::{StoreOptions, StoreScheme, memory::MemoryStore},
/// };
///
/// /// One store for all managers of the program.
/// struct Shelf(MemoryStore);
///
/// impl StoreScheme for Shelf {
///     type Store = MemoryStore;
///
///     fn open(&self, url: &str, _: &StoreOptions) -> Result<MemoryStore, ConnectError> {
///         if url != "shelf://" {
///             return Err(ConnectError::InvalidUrl {
///                 url: "shelf://…".to_owned(),
///                 reason: "nothing may follow `shelf://`".to_owned(),
///             });
///         }
///         Ok(self.0.clone())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = LockManager::builder().scheme("shelf", Shelf(MemoryStore::new()));
/// let (one, other) = (builder.clone().connect("shelf://").await?, builder.connect("shelf://").await?);
/// let guard = one.lock("order:42").acquire().await?;
/// assert!(other.lock("order:42").try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(()) }
/// ```
pub trait StoreScheme: Send + Sync + 'static {
    /// The store that a URL of this scheme names.
    type Store: LockStore;

    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid. Its text must not contain a password of the URL.
    fn open(&self, url: &str, options: &StoreOptions) -> Result<Self::Store, ConnectError>;

    /// Waits until the store answers. A store that is always ready can use this default.
    ///
    /// After [`connect_timeout`](StoreOptions::connect_timeout) the future is dropped, and connecting fails.
    ///
    /// [`connect`](crate::LockManagerBuilder::connect) calls it;
    /// [`connect_lazy`](crate::LockManagerBuilder::connect_lazy) does not.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Unavailable`] when the store is unreachable or refuses the connection.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the store is dropped too.
    fn ready(
        &self,
        _store: &Self::Store,
        _options: &StoreOptions,
    ) -> impl Future<Output = Result<(), ConnectError>> + Send {
        async { Ok(()) }
    }
}
