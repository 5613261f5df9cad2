//! The schemes of URLs, by which stores of other crates are named.

use std::{future::Future, time::Duration};

use super::LockStore;
use crate::error::ConnectError;

/// Options of a manager that concern its store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The name of the process for other clients: `application@host/pid`, in printable ASCII without spaces.
    pub label: String,
    /// The prefix of all keys.
    pub namespace: String,
    /// The time that one request may take.
    pub response_timeout: Duration,
    /// The time that the first connection may take.
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

/// Makes the stores that URLs of one scheme name.
///
/// A store in a crate of its own implements it, and programs register it with
/// [`LockManagerBuilder::scheme`](crate::LockManagerBuilder::scheme). A URL belongs to a scheme by what is
/// before its first colon, in whatever case, and is passed on as it was written: `dir:/locks` is one as well as
/// `dir://locks`. All that follows is the scheme's own: hosts, options and credentials.
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
///                 reason: "nothing follows the scheme".to_owned(),
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

    /// Makes the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is wrong. Its text must not hold a password of the URL.
    fn open(&self, url: &str, options: &StoreOptions) -> Result<Self::Store, ConnectError>;

    /// Waits until the store answers. A store that is always ready needs none of its own.
    ///
    /// After [`connect_timeout`](StoreOptions::connect_timeout) it is dropped, and connecting has failed.
    ///
    /// It is called by [`connect`](crate::LockManagerBuilder::connect) and not by
    /// [`connect_lazy`](crate::LockManagerBuilder::connect_lazy).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Unavailable`] when the store cannot be reached, or refuses the connection.
    ///
    /// # Cancel safety
    ///
    /// The store is dropped with the future.
    fn ready(
        &self,
        _store: &Self::Store,
        _options: &StoreOptions,
    ) -> impl Future<Output = Result<(), ConnectError>> + Send {
        async { Ok(()) }
    }
}
