//! The user and the password for a server whose URL contains none.

use std::{
    fmt::{self, Display},
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};

use crate::{
    lane,
    store::{StoreError, StoreErrorKind},
};

/// A user and a password. Neither is ever shown.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::redis::Credentials;
///
/// let billing = Credentials::new("billing", "secret");
/// assert_eq!(format!("{billing:?}"), "Credentials(***)");
/// let default = Credentials::of_default_user("secret");
/// assert!(billing != default);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// Returns credentials for a user of the server's access control list.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// Returns credentials for the server's default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

type CredentialsFuture = Pin<Box<dyn Future<Output = Result<Credentials, String>> + Send>>;

/// A source of credentials. It is called before every login, so that a password can change while the program runs.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::redis::{Credentials, CredentialsProvider, RedisConfig};
///
/// let provider = CredentialsProvider::new(|| async {
///     let password = tokio::fs::read_to_string("/run/secrets/redis").await?;
///     Ok::<_, std::io::Error>(Credentials::new("billing", password.trim_end()))
/// });
/// let config = RedisConfig::new("redis://redis.internal").credentials(provider);
/// # drop(config);
/// ```
#[derive(Clone)]
pub struct CredentialsProvider(Arc<dyn Fn() -> CredentialsFuture + Send + Sync>);

impl CredentialsProvider {
    /// Calls `provider` before every login; see
    /// [`LockManagerBuilder::credentials`](crate::LockManagerBuilder::credentials).
    pub fn new<F, Fut, E>(provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Display,
    {
        Self(Arc::new(move || {
            let answer = provider();
            Box::pin(async move { answer.await.map_err(|error| error.to_string()) })
        }))
    }

    /// Always returns the same credentials.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::redis::{Credentials, CredentialsProvider, RedisConfig};
    ///
    /// let password = std::env::var("REDIS_PASSWORD").unwrap_or_default();
    /// let provider = CredentialsProvider::fixed(Credentials::new("billing", password));
    /// let config = RedisConfig::new("redis://redis.internal").credentials(provider);
    /// # drop(config);
    /// ```
    #[must_use]
    pub fn fixed(credentials: Credentials) -> Self {
        Self::new(move || {
            let credentials = credentials.clone();
            async move { Ok::<_, String>(credentials) }
        })
    }

    /// Returns the current credentials, within `limit`.
    pub(crate) async fn ask(&self, limit: Duration) -> Result<Credentials, StoreError> {
        let none = |cause: &str| {
            let message = format!("cannot get credentials: {cause}");
            StoreError::new(StoreErrorKind::NoCredentials, message)
        };
        let provider = self.0.clone();
        // User code: its panic must not end the task of the connection.
        let asked = AssertUnwindSafe(async move { provider().await }).catch_unwind();
        match timeout(limit, apart(asked)).await {
            Ok(Ok(Ok(credentials))) => Ok(credentials),
            Ok(Ok(Err(error))) => Err(none(&error)),
            Ok(Err(_)) => Err(none("the callback panicked")),
            Err(_) => {
                let cause = format!("the callback did not answer within {limit:.0?}");
                Err(none(&cause))
            }
        }
    }
}

/// Runs user code on dlock's own thread: it may use the blocking pool of its runtime, which may be full of threads that
/// wait for this connection.
async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = if lane::has_virtual_clock() {
        None
    } else {
        lane::for_blocking().ok()
    };
    let Some(thread) = thread else {
        return work.await;
    };
    let (answer, answered) = oneshot::channel();
    let task = thread.spawn(async move {
        answer.send(work.await).ok();
    });
    let _given_up = AbortOnDrop(task.abort_handle());
    answered
        .await
        .expect("it does not panic, and the thread does not end")
}

/// Ends a task whose outcome is not needed any more.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Never = std::future::Pending<Result<Credentials, String>>;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn whatever_a_provider_does_is_an_answer_in_time() {
        let good = CredentialsProvider::fixed(Credentials::new("me", "s3cret"));
        let got = good.ask(LIMIT).await.expect("it has some");
        assert_eq!((got.user(), got.password()), (Some("me"), "s3cret"));
        assert!(!format!("{good:?} {got:?}").contains("s3cret"));

        let hangs = CredentialsProvider::new(|| -> Never { std::future::pending() });
        let fails = CredentialsProvider::new(|| async { Err("the vault is sealed") });
        let panics = CredentialsProvider::new(|| -> Never { panic!("at once") });
        let panics_later = CredentialsProvider::new(|| async {
            tokio::task::yield_now().await;
            assert!(LIMIT.is_zero(), "later");
            Err("never said")
        });
        for (provider, words) in [
            (hangs, "did not answer within 1s"),
            (fails, "the vault is sealed"),
            (panics, "panicked"),
            (panics_later, "panicked"),
        ] {
            let error = provider.ask(LIMIT).await.expect_err("it has none");
            assert_eq!(error.kind(), StoreErrorKind::NoCredentials);
            assert!(error.message().contains(words), "{error}");
            assert!(!error.is_final() && error.left_nothing());
        }
    }
}
