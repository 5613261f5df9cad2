//! Locks in one Redis or Valkey server.
//!
//! What is stored, and why it is safe, is in the heads of the three scripts beside this file. Here
//! they are called over one connection that a task of the store keeps alive, so that the requests
//! of one owner reach the server in the order in which they were made.

mod errors;
mod events;
mod hello;
mod hints;
mod link;
#[cfg(test)]
mod live_tests;
mod scheme;
mod script;
mod slot;
mod socket;
mod supervisor;
mod url;

use std::{fmt, sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{runtime, sync::watch, task::JoinHandle, time::timeout};

use self::{
    events::Events,
    hints::Hints,
    link::Handle,
    script::Call,
    supervisor::{State, Supervisor},
    url::Endpoint,
};
use super::{
    AcquireRequest, Acquisition, HintSink, LockStore, Released, RenewRequest, Renewal, StoreError,
    StoreErrorKind,
};
use crate::{
    error::ConnectError,
    key::LockKey,
    owner::{ClientId, OwnerId},
};

const LONGEST_NAMESPACE: usize = 64;

const RUNTIME_ENDED: &str = "the tokio runtime in which the store was made has ended";

/// Where the server is, and how long to wait for it.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://[user:password@]host[:port][/database]`, the same with `valkey://`, or
    /// `redis+unix:///path[?db=0&user=...&pass=...]`.
    pub url: String,
    /// What all of its keys and channels start with: 1 to 64 printable ASCII characters without
    /// spaces and braces, not ending in `:fence`.
    pub namespace: String,
    /// How long one request may take.
    pub response_timeout: Duration,
    /// How long [`RedisStore::connect`] may take.
    pub connect_timeout: Duration,
}

impl RedisConfig {
    /// The server at `url`, the namespace `dlock`, a second for a request, five to connect.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: "dlock".to_owned(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
        }
    }

    fn check(&self) -> Result<(), ConnectError> {
        const ZERO: &str = "it must be greater than zero";
        let refuse = |option, reason| Err(ConnectError::InvalidOption { option, reason });
        // A brace would choose the slot in place of the lock's name.
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if !(1..=LONGEST_NAMESPACE).contains(&self.namespace.len())
            || !self.namespace.bytes().all(plain)
        {
            return refuse(
                "namespace",
                "it must be 1 to 64 printable ASCII characters without spaces and braces",
            );
        }
        // `dlock:fence` would have locks where `dlock` has its fences.
        if self.namespace.ends_with(":fence") {
            return refuse(
                "namespace",
                "it must not end in `:fence`, where fences are kept",
            );
        }
        if self.response_timeout.is_zero() {
            return refuse("response_timeout", ZERO);
        }
        if self.connect_timeout.is_zero() {
            return refuse("connect_timeout", ZERO);
        }
        Ok(())
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            // Never as it was given: it may hold a password.
            .field("url", &Endpoint::parse(&self.url).ok())
            .field("namespace", &self.namespace)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// A [`LockStore`] in one Redis (6.2 or newer) or Valkey server.
///
/// It keeps one connection, for requests and hints alike, and makes a new one when that fails.
///
/// # Permissions
///
/// On a server with access control lists, this user can do all that locks in the namespace
/// `dlock` need; one in a database other than 0 needs `+select` as well:
///
/// ```text
#[doc = include_str!("redis/permissions.txt")]
/// ```
pub struct RedisStore {
    shown: String,
    namespace: String,
    response_timeout: Duration,
    state: watch::Receiver<State>,
    hints: Arc<Hints>,
    supervisor: JoinHandle<()>,
}

impl RedisStore {
    /// Starts to connect in the background and returns at once.
    ///
    /// The connection belongs to the tokio runtime this is called in.
    ///
    /// # Errors
    ///
    /// When the URL or an option is wrong, or no tokio runtime runs here.
    pub fn lazy(config: RedisConfig) -> Result<Self, ConnectError> {
        Self::start(config, Events::new)
    }

    fn start(
        config: RedisConfig,
        events: impl FnOnce(String) -> Events,
    ) -> Result<Self, ConnectError> {
        let endpoint = Endpoint::parse(&config.url)?;
        config.check()?;
        let shown = endpoint.to_string();
        let runtime = runtime::Handle::try_current().map_err(|_| ConnectError::Unavailable {
            url: shown.clone(),
            reason: no_runtime("no tokio runtime runs here"),
        })?;
        slot::prepare();

        let hints = Arc::new(Hints::default());
        let (sender, state) = watch::channel(State::Connecting);
        let namespace = config.namespace.clone();
        let response_timeout = config.response_timeout;
        let supervisor = Supervisor {
            endpoint,
            config,
            hints: hints.clone(),
            state: sender,
            events: events(shown.clone()),
        };
        let supervisor = runtime.spawn(supervisor.run());
        Ok(Self {
            shown,
            namespace,
            response_timeout,
            state,
            hints,
            supervisor,
        })
    }

    /// Connects, and waits until the server is ready.
    ///
    /// A server that cannot be reached yet is tried until the connect timeout has passed.
    ///
    /// # Errors
    ///
    /// As [`lazy`](Self::lazy), and with the last failure when there is no connection in time.
    pub async fn connect(config: RedisConfig) -> Result<Self, ConnectError> {
        let limit = config.connect_timeout;
        let store = Self::start(config, Events::awaited)?;
        let mut state = store.state.clone();
        let decided = |state: &State| match state {
            State::Connecting => false,
            State::Ready(_) => true,
            State::Failed(error) => error.is_final(),
        };
        let reason = match timeout(limit, state.wait_for(decided)).await {
            Ok(Ok(state)) => failure(&state),
            Ok(Err(_)) => Some(no_runtime(RUNTIME_ENDED)),
            Err(_) => match &*store.state.borrow() {
                State::Connecting => Some(store.no_connection(limit)),
                // The last failure says more than that time is up.
                State::Failed(error) => Some(errors::given_up(&store.shown, limit, error)),
                State::Ready(_) => None,
            },
        };
        match reason {
            None => Ok(store),
            Some(reason) => Err(ConnectError::Unavailable {
                url: store.shown.clone(),
                reason,
            }),
        }
    }

    async fn call(&self, call: Call) -> Result<Value, StoreError> {
        self.within_limit(async |handle: Handle| handle.run(&call).await)
            .await?
    }

    /// What `request` yields, in no more time than a request may take.
    async fn within_limit<T>(
        &self,
        request: impl AsyncFnOnce(Handle) -> T,
    ) -> Result<T, StoreError> {
        // A timer panics without one.
        if runtime::Handle::try_current().is_err() {
            return Err(no_runtime("no tokio runtime runs here").unsent());
        }
        let limit = self.response_timeout;
        timeout(limit, async {
            let handle = self.handle().await.map_err(StoreError::unsent)?;
            // From here on nobody can say of a failed request that it did nothing.
            Ok(request(handle).await)
        })
        .await
        .unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
    }

    async fn handle(&self) -> Result<Handle, StoreError> {
        if self.state.has_changed().is_err() {
            return Err(no_runtime(RUNTIME_ENDED));
        }
        if let Some(known) = known(&self.state.borrow()) {
            return known;
        }
        let mut state = self.state.clone();
        // A caller whose own limit is the same shall learn that nothing was sent.
        let limit = self.response_timeout / 10 * 9;
        match timeout(limit, state.wait_for(|state| known(state).is_some())).await {
            Ok(Ok(state)) => known(&state).expect("it was waited for"),
            Ok(Err(_)) => Err(no_runtime(RUNTIME_ENDED)),
            Err(_) => Err(self.no_connection(limit)),
        }
    }

    fn no_connection(&self, limit: Duration) -> StoreError {
        StoreError::new(
            StoreErrorKind::Unreachable,
            format!("no connection to {} within {limit:.0?}", self.shown),
        )
    }
}

fn failure(state: &State) -> Option<StoreError> {
    match state {
        State::Failed(error) => Some(error.clone()),
        State::Connecting | State::Ready(_) => None,
    }
}

/// What a caller can do at once, if anything.
fn known(state: &State) -> Option<Result<Handle, StoreError>> {
    match state {
        State::Connecting => None,
        State::Ready(handle) => Some(Ok(handle.clone())),
        State::Failed(error) => Some(Err(error.clone())),
    }
}

fn no_runtime(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NoRuntime, message)
}

impl LockStore for RedisStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        let answer = self.call(Call::acquire(&self.namespace, &request)).await?;
        script::read_acquisition(&answer)
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let answer = self.call(Call::renew(&self.namespace, &request)).await?;
        script::read_renewal(&answer)
    }

    /// All in one write.
    async fn renew_all(
        &self,
        requests: &[RenewRequest<'_>],
        limit: Duration,
    ) -> Vec<Result<Renewal, StoreError>> {
        let calls: Vec<_> = requests
            .iter()
            .map(|request| Call::renew(&self.namespace, request))
            .collect();
        if calls.is_empty() {
            return Vec::new();
        }
        let answers = self.within_limit(async |handle: Handle| handle.run_all(&calls).await);
        let answers = timeout(limit, answers).await;
        match answers.unwrap_or_else(|_| Err(StoreError::timed_out(limit))) {
            Ok(answers) => {
                let read = |answer: Result<Value, StoreError>| script::read_renewal(&answer?);
                answers.into_iter().map(read).collect()
            }
            Err(error) => vec![Err(error); calls.len()],
        }
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        let answer = self
            .call(Call::release(&self.namespace, key, owner))
            .await?;
        script::read_release(&answer)
    }

    fn gives_up_after(&self) -> Option<Duration> {
        Some(self.response_timeout)
    }

    fn attach(&self, client: ClientId, hints: HintSink) {
        self.hints.attach(client, hints);
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("url", &self.shown)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let config = RedisConfig::new("redis://localhost");
        let named = |namespace: &str| RedisConfig {
            namespace: namespace.into(),
            ..config.clone()
        };
        let longest = "n".repeat(LONGEST_NAMESPACE);
        assert_eq!(named(&longest).check(), Ok(()));
        for namespace in ["", "a b", "a{b", "\u{e9}", "a:fence", &(longest + "n")] {
            let error = named(namespace).check().expect_err("it is refused");
            assert!(error.to_string().contains("`namespace`"), "{error}");
        }
        let zero = Duration::ZERO;
        assert!(
            RedisConfig {
                response_timeout: zero,
                ..config.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            RedisConfig {
                connect_timeout: zero,
                ..config
            }
            .check()
            .is_err()
        );
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        let error = RedisStore::lazy(RedisConfig::new("redis://:s3cret@localhost"))
            .expect_err("no runtime runs here");
        assert!(error.to_string().contains("no tokio runtime"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }

    #[test]
    fn nothing_shows_the_password() {
        for url in [
            "redis://me:s3cret@localhost",
            "redis://me:s3cret@localhost/x",
            "s3cret",
        ] {
            let shown = format!("{:?}", RedisConfig::new(url));
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
