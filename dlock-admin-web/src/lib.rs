//! A page for operators in a browser: all locks with their holders and waiters, the processes, and the findings about the
//! servers, as a router of axum.
//!
//! ```no_run
//! # fn example(inspector: std::sync::Arc<dyn dlock::admin::Inspect>) -> axum::Router {
//! use axum::Router;
//! use dlock::admin::web;
//!
//! // The page is at `/locks-of-shop/`, beside the other routes of a service.
//! Router::new().nest("/locks-of-shop", web::router(inspector))
//! # }
//! ```
//!
//! The command `dlock serve` serves the same page by itself.
//!
//! # Access
//!
//! The router asks for no name and no password. Each client that reaches it sees all keys, the labels of all holders with
//! their hosts and process ids, the addresses of the servers, and what is wrong with them. Keys often contain the ids of
//! customers. Serve it on a loopback address, or put it behind the login of your service:
//!
//! - Add a layer that checks the session of an operator **outside** of the router.
//! - Do not mount it in a service that the public can reach without such a layer.
//! - Name the server with [`Page::hosts`]. A request is answered only if its `Host` is an IP address, `localhost`, or one of
//!   these names. Otherwise another site can let its name point to the address of the server, loopback or private, and read
//!   the page with the browser of an operator. [`Page::any_host`] is for services that check the name themselves.
//!
//! The page is read-only. [`Page::allow_unlock`] lets the holder of a token release a lock by force.
//!
//! # Cost
//!
//! The locks are read once for all browsers, at an [interval](Page::interval), and only while a browser shows the page. All
//! readings keep within the limit of [`Inspect`]: at most 5 % of a server's time in any minute. A page that has just been
//! opened may use half a second of it at once, in which Redis tells of more than 10,000 locks. Other clients are served between the
//! steps of a reading, each of which takes some milliseconds.
//!
//! Work on many locks, such as their order, is done by the runtime's threads for blocking work. No other task waits for it.
//!
//! # Protection
//!
//! All responses have a content security policy that allows no code but that of the page, no frame, and no other site. Text
//! from the store is shown as text. A request of another site is refused, by `Sec-Fetch-Site` and `Origin`.
//!
//! At most 256 streams of events are open at the same time. A stream ends if the server takes no event of it for 60 s, which
//! means that its client reads nothing. The router sees no connections: your server limits their number, the time for the head of
//! a request, and the time for which a client reads nothing, as `dlock serve` does.

mod assets;
mod attention;
mod desk;
mod events;
mod examine;
mod feeds;
mod history;
mod hosts;
mod looks;
mod moment;
mod past;
mod picture;
mod processes;
mod protect;
mod query;
mod rate;
mod reply;
mod room;
mod routes;
mod server;
#[cfg(test)]
mod tests;
mod token;
mod unlock;
mod views;
mod work;

use std::{fmt, sync::Arc, time::Duration};

use axum::Router;
#[cfg(feature = "redis")]
use dlock_admin::RedisJudge;
use dlock_admin::{Inspect, doctor::Judge};
#[cfg(feature = "redis")]
use dlock_runtime::{ConnectError, store::redis::RedisConfig};
use futures_util::future::{BoxFuture, FutureExt as _, Shared};

use self::{
    desk::{Desk, InspectorSource},
    events::Streams,
    examine::Examination,
    hosts::Hosts,
    looks::Looks,
    room::Room,
    token::Token,
};
#[doc(hidden)]
pub use self::{server::Server, token::fault_of_token};

/// The time between two readings, unless another is set.
const INTERVAL: Duration = Duration::from_secs(2);

/// The shortest time between two readings.
const SHORTEST: Duration = Duration::from_millis(100);

/// Returns a router with a read-only page about the locks that `inspector` reads, to be nested below any prefix.
///
/// [Access](self#access) is for the caller to restrict. The router answers requests whose `Host` is an IP
/// address or `localhost`, and refuses others with status 403: [`Page::hosts`] adds the names of the server. [`Page`] has
/// more options.
///
/// ```no_run
/// # async fn example() -> Result<axum::Router, Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use axum::Router;
/// use dlock::{admin::{Inspector, web}, store::redis::RedisConfig};
///
/// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
/// Ok(Router::new().nest("/locks", web::router(Arc::new(inspector))))
/// # }
/// ```
pub fn router(inspector: Arc<dyn Inspect>) -> Router {
    Page::new(inspector).into_router()
}

/// A page about the locks of a store, with its options.
///
/// ```no_run
/// # fn example(inspector: std::sync::Arc<dyn dlock::admin::Inspect>, token: String) -> axum::Router {
/// use std::time::Duration;
/// use dlock::admin::web::Page;
///
/// let page = Page::new(inspector).namespace("shop").interval(Duration::from_secs(5));
/// page.hosts(["locks.shop.example"]).allow_unlock(token).into_router()
/// # }
/// ```
#[must_use = "a page does nothing until `into_router` is called"]
pub struct Page {
    source: InspectorSource,
    namespace: Option<String>,
    interval: Duration,
    hosts: Hosts,
    token: Option<Token>,
    end: Option<Shared<BoxFuture<'static, ()>>>,
    judge: Option<Arc<dyn Judge>>,
}

impl Page {
    /// Creates a read-only page about the locks that `inspector` reads.
    pub fn new(inspector: Arc<dyn Inspect>) -> Self {
        Self::of(InspectorSource::Connected(inspector))
    }

    /// Creates a read-only page about the locks of a store that may not be there yet. `connect` is called when the page is
    /// shown, and again after a failure. Until it succeeds, the page shows the text of its error, which must contain no
    /// password.
    ///
    /// ```
    /// # fn example(config: dlock::store::redis::RedisConfig) -> axum::Router {
    /// use std::sync::Arc;
    /// use dlock::{ConnectError, admin::{Inspect, Inspector, web::Page}};
    ///
    /// Page::connecting(move || {
    ///     let config = config.clone();
    ///     async move {
    ///         let inspector = Inspector::connect(config).await?;
    ///         Ok::<Arc<dyn Inspect>, ConnectError>(Arc::new(inspector))
    ///     }
    /// })
    /// .into_router()
    /// # }
    /// ```
    pub fn connecting<F, E>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Arc<dyn Inspect>, E>> + Send + 'static,
        E: fmt::Display,
    {
        Self::of(InspectorSource::Connecting(Box::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map_err(|error| error.to_string()) })
        })))
    }

    fn of(source: InspectorSource) -> Self {
        Self {
            source,
            namespace: None,
            interval: INTERVAL,
            hosts: Hosts::default(),
            token: None,
            end: None,
            judge: None,
        }
    }

    /// Sets the namespace that the page shows. If not set, it shows none.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into());
        Self { namespace, ..self }
    }

    /// Sets the namespace that the page shows, and what its findings about the servers rely on: how the servers of
    /// `config` work together, its user, and the replicas that must confirm a lease. If not set, it is that of the inspector.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL is invalid.
    ///
    /// ```no_run
    /// # async fn example() -> Result<axum::Router, dlock::ConnectError> {
    /// use std::sync::Arc;
    /// use dlock::{admin::{Inspector, web::Page}, store::redis::RedisConfig};
    ///
    /// let config = RedisConfig::new("redis-sentinel://one,two,three/mymaster").namespace("shop");
    /// let inspector = Inspector::connect(config.clone()).await?;
    /// Ok(Page::new(Arc::new(inspector)).redis(&config)?.into_router())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(self, config: &RedisConfig) -> Result<Self, ConnectError> {
        let judge = Arc::new(RedisJudge::of(config)?);
        let namespace = config.namespace.clone();
        Ok(self.judged_by(judge).namespace(namespace))
    }

    /// Sets the checks of the servers. The command `dlock` uses it.
    #[doc(hidden)]
    pub fn judged_by(self, judge: Arc<dyn Judge>) -> Self {
        let judge = Some(judge);
        Self { judge, ..self }
    }

    /// Sets the time between two readings, at least 100 ms. If not set, it is 2 s.
    pub fn interval(self, interval: Duration) -> Self {
        let interval = interval.max(SHORTEST);
        Self { interval, ..self }
    }

    /// Lets the holder of `token` release a lock by force. If not set, the page is read-only.
    ///
    /// The page asks for the token and for the key of the lock. Each release, and each attempt with a wrong token, is
    /// logged at the level `WARN` under the target `dlock::admin::web`, with the address of the client if the server was
    /// started with `Router::into_make_service_with_connect_info::<SocketAddr>`. The log also has `X-Forwarded-For` and
    /// `X-Forwarded-User`, as `claimed`: a client that reaches the server without a proxy can send any.
    ///
    /// The token comes in the header `X-Dlock-Token`, or in `Authorization: Bearer` without one. The page sends the former, as
    /// a proxy with a login uses the latter.
    ///
    /// The right token is accepted at any time. After five wrong ones from an address within a minute, further wrong ones get
    /// status 429 with `Retry-After` for a minute and are not logged. This does not slow down guesses: draw a random token.
    ///
    /// The inspector needs the permissions to release locks. Draw at least 16 random characters for the token, and send
    /// it over TLS or on this machine only.
    ///
    /// # Panics
    ///
    /// If the token has fewer than 16 bytes, or is easy to guess because its bytes repeat.
    pub fn allow_unlock(self, token: impl Into<String>) -> Self {
        let token = Some(Token::new(token.into()));
        Self { token, ..self }
    }

    /// Adds names of the server, without a port. Requests are answered for them on any port, and for IP addresses and
    /// `localhost`. Those with another `Host` are refused with status 403.
    ///
    /// Behind a proxy, it is the name that the proxy sends as `Host`.
    pub fn hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hosts.add(names.into_iter().map(Into::into));
        self
    }

    /// Answers requests for any name. Only for a service that checks `Host` itself: [Access](self#access)
    /// has the reason.
    pub fn any_host(self) -> Self {
        let hosts = Hosts::Any;
        Self { hosts, ..self }
    }

    /// Ends the streams of events when `end` completes. Otherwise a server that waits for the responses under way when it
    /// is shut down, such as `axum::serve(..).with_graceful_shutdown(..)`, waits as long as a browser shows the page.
    pub fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        let end = Some(end.boxed().shared());
        Self { end, ..self }
    }

    /// Returns the router of the page. Nothing is read before the first request.
    pub fn into_router(self) -> Router {
        routes::router(Room {
            desk: Arc::new(Desk::new(self.source, self.namespace, self.interval)),
            looks: Looks::default(),
            examination: Examination::by(self.judge),
            streams: Streams::default(),
            hosts: self.hosts,
            token: self.token,
            end: self.end,
        })
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        f.debug_struct("Page")
            .field("namespace", &self.namespace)
            .field("interval", &self.interval)
            .field("hosts", &self.hosts)
            .field("can_unlock", &self.token.is_some())
            .finish_non_exhaustive()
    }
}
