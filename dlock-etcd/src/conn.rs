//! One connection to one member, and its login. `calls.rs` has the requests over it.
//!
//! # Rules
//!
//! - **Safety.** A connection is never made again in place: its successor has read the base of fences again. A restored
//!   ensemble may count revisions that were given before.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use dlock_runtime::store::StoreError;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};
use tonic::{
    Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use crate::{
    base::{self, Base},
    config::Config,
    doubt::{Doubt, Unanswered},
    errors,
    proto::{
        Answer, AuthenticateRequest, AuthenticateResponse, RangeResponse, ResponseHeader,
        StatusRequest, StatusResponse,
    },
    streams::Streams,
    version,
};

pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// With TLS, old members allow 250 streams in a connection, and so do their proxies. Each request, and each watch as long as it is
/// open, is one. Renewals would wait for the next free one until their leases had ended.
const MOST_WATCHES: usize = 128;
const MOST_READS: usize = 32;

/// The header by which the server knows a login.
pub(crate) type Token = MetadataValue<Ascii>;

/// A connection to a member.
pub(crate) struct Conn {
    pub(crate) config: Arc<Config>,
    /// `host:port` of the member.
    pub(crate) place: String,
    /// The base of fences; `None` until this connection has raised it. A full database refuses that.
    pub(crate) base: Mutex<Option<Base>>,
    pub(crate) channel: Channel,
    pub(crate) streams: Streams,
    token: Mutex<Option<Token>>,
    /// Held by a login that is under way.
    login: tokio::sync::Mutex<()>,
    /// The latest term in an answer.
    pub(crate) term: AtomicU64,
    /// Each read is sent alone: the member crashes if a transaction that only reads is given up, or its version is not known.
    reads_alone: AtomicBool,
    /// The reads that may be sent at once. Many that are given up together would end the connection.
    pub(crate) reads: Semaphore,
    /// The watches that may be open at once.
    pub(crate) watches: Semaphore,
    ties: Ties,
}

/// The values that a connection shares with whoever made it.
pub(crate) struct Ties {
    /// Raised when a request has not been answered.
    pub(crate) doubt: Arc<Doubt>,
    /// Ends when the connection is given up.
    pub(crate) given_up: watch::Receiver<()>,
    /// `true` from a refusal by a full database until the next write, over any connection of the store.
    pub(crate) is_full: Arc<AtomicBool>,
    /// Counts the connections of the store, see `leases.rs`. The store's two connections have the same number.
    pub(crate) number: u64,
}

/// The version and the state of a member.
pub(crate) struct Welcome {
    pub(crate) version: String,
    pub(crate) has_leader: bool,
}

impl Conn {
    /// Logs in to the member at the other end of a channel.
    pub(crate) async fn open(
        config: Arc<Config>,
        place: String,
        channel: Channel,
        ties: Ties,
    ) -> Result<Self, StoreError> {
        let conn = Self {
            config,
            place,
            base: Mutex::default(),
            channel,
            streams: Streams::default(),
            token: Mutex::default(),
            login: tokio::sync::Mutex::default(),
            term: AtomicU64::new(0),
            reads_alone: AtomicBool::new(true),
            reads: Semaphore::new(MOST_READS),
            watches: Semaphore::new(MOST_WATCHES),
            ties,
        };
        let logged_in = conn.log_in(None).await;
        logged_in.map_err(|status| errors::of_first_request(&status, &conn.config))?;
        Ok(conn)
    }

    /// Notes the version of the member.
    pub(crate) fn met(&self, version: &str) {
        let is_crashed = version::is_crashed_by_reads(version);
        self.reads_alone.store(is_crashed, Ordering::Release);
    }

    pub(crate) fn reads_alone(&self) -> bool {
        self.reads_alone.load(Ordering::Acquire)
    }

    /// Asks a member for its version and its state.
    pub(crate) async fn welcome(&self) -> Result<Welcome, StoreError> {
        let asked = self.send(STATUS, StatusRequest {}).await;
        let status: StatusResponse =
            asked.map_err(|status| errors::of_first_request(&status, &self.config))?;
        Ok(Welcome {
            has_leader: status.leader != 0,
            version: status.version,
        })
    }

    /// Gets a token for the user of the URL, if it has one, in place of the token that was refused.
    ///
    /// Requests that come meanwhile have the old token: the server refuses one without a token for good. All that are refused
    /// wait for the same login.
    pub(crate) async fn log_in(&self, refused: Option<Token>) -> Result<(), Status> {
        let Some(login) = &self.config.login else {
            return Ok(());
        };
        let _under_way = self.login.lock().await;
        if self.token() != refused {
            return Ok(());
        }
        let request = AuthenticateRequest {
            name: login.user.clone(),
            password: login.password.clone().unwrap_or_default(),
        };
        let answer: AuthenticateResponse = self.send(AUTHENTICATE, request).await?;
        let token = MetadataValue::try_from(answer.token)
            .map_err(|_| Status::internal("the token of the login is no header"))?;
        *self.token_slot() = Some(token);
        Ok(())
    }

    /// Returns `true` if a new login may help. The server has not looked at the request then.
    pub(crate) fn may_log_in(&self, status: &Status) -> bool {
        self.config.login.is_some() && errors::wants_login(status)
    }

    /// Returns the token of the last login.
    pub(crate) fn token(&self) -> Option<Token> {
        self.token_slot().clone()
    }

    fn token_slot(&self) -> std::sync::MutexGuard<'_, Option<Token>> {
        // Every change is complete before any code can panic.
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        // A member without a leader refuses at once, and ends its streams.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = self.token() {
            metadata.insert("token", token);
        }
        request
    }

    /// The client for one request. An answer may be large: a key can have many claims, and one that is not read is an error
    /// for its caller, although etcd has carried out the request.
    pub(crate) fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    async fn send<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        let mut grpc = self.grpc();
        ready(&mut grpc).await?;
        let codec = ProstCodec::<Q, A>::default();
        // etcd 3.4 would refuse a login with the old token.
        let request = if path == AUTHENTICATE {
            Request::new(message)
        } else {
            self.request(message)
        };
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(request, path, codec).await?;
        let answer = answer.into_inner();
        self.saw(answer.header());
        Ok(answer)
    }

    pub(crate) fn saw(&self, header: ResponseHeader) {
        self.term.fetch_max(header.raft_term, Ordering::AcqRel);
    }

    /// Sends one request.
    pub(crate) async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Default + Clone + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        self.guarded(self.send_logged_in(path, message)).await
    }

    /// Sends one request. A token that has expired is replaced, as the server has not looked at the request.
    async fn send_logged_in<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + Clone + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        let again = self.config.login.is_some().then(|| message.clone());
        let token = self.token();
        match (self.send(path, message).await, again) {
            (Err(status), Some(message)) if self.may_log_in(&status) => {
                // Boxed, since it is rare and would be a part of every request's future.
                Box::pin(self.log_in(token)).await?;
                self.send(path, message).await
            }
            (other, _) => other,
        }
    }

    /// Ends a request when the connection is given up, and has the connection tried if there is no answer.
    pub(crate) async fn guarded<T>(
        &self,
        request: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let mut given_up = self.ties.given_up.clone();
        // A caller that drops this future has waited as long as it can.
        let unanswered = Unanswered(&self.ties.doubt);
        let answer = tokio::select! {
            answer = request => answer,
            _ = given_up.changed() => Err(Status::unavailable("the connection was given up before the answer came")),
        };
        std::mem::forget(unanswered);
        answer.map_err(|status| {
            if errors::is_doubtful(&status) {
                self.ties.doubt.raise();
            }
            let is_full = errors::is_full(&status);
            self.ties.is_full.fetch_or(is_full, Ordering::AcqRel);
            Failure {
                is_missing_lease: errors::is_missing_lease(&status),
                is_full,
                ..Failure::new(errors::of_status(&status, &self.config))
            }
        })
    }

    /// The ties of another connection of the same store.
    #[cfg(test)]
    pub(crate) fn ties(&self) -> Ties {
        Ties {
            doubt: self.ties.doubt.clone(),
            given_up: self.ties.given_up.clone(),
            is_full: self.ties.is_full.clone(),
            number: self.ties.number,
        }
    }

    /// Waits until the connection is given up.
    pub(crate) async fn is_given_up(&self) {
        let mut given_up = self.ties.given_up.clone();
        given_up.changed().await.ok();
    }

    /// Asks for an answer that needs a majority, and waits for it as long as for that to any request.
    pub(crate) async fn try_out(&self) -> Tried {
        self.within_limit(self.is_answered()).await
    }

    /// Asks for an answer that needs a majority. Returns `false` if the request fails.
    pub(crate) async fn is_answered(&self) -> bool {
        let request = base::read_request(&self.config.namespace);
        let asked = self.send_logged_in::<_, RangeResponse>(RANGE, request);
        let is_answered = asked.await.is_ok();
        if is_answered {
            self.ties.doubt.settle();
        }
        is_answered
    }

    pub(crate) async fn within_limit(&self, answered: impl Future<Output = bool>) -> Tried {
        match timeout(self.config.response_limit, answered).await {
            Ok(true) => Tried::Answers,
            Ok(false) => Tried::Fails,
            Err(_) => Tried::IsSilent,
        }
    }

    pub(crate) fn doubt(&self) -> &Arc<Doubt> {
        &self.ties.doubt
    }

    pub(crate) fn number(&self) -> u64 {
        self.ties.number
    }

    /// Notes that the server has carried out a write.
    pub(crate) fn wrote(&self) {
        self.ties.is_full.store(false, Ordering::Release);
    }
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Answers,
    Fails,
    IsSilent,
}

/// A request that has failed.
pub(crate) struct Failure {
    /// `true` if the request named a lease that does not exist, and had no effect.
    pub(crate) is_missing_lease: bool,
    /// `true` if the database of the server is full. The request may have been carried out. It will not be carried out later.
    pub(crate) is_full: bool,
    /// `true` if the leader changed, so that nothing is known of the leases.
    pub(crate) is_new_term: bool,
    pub(crate) error: StoreError,
}

impl Failure {
    pub(crate) fn new(error: StoreError) -> Self {
        Self {
            is_missing_lease: false,
            is_full: false,
            is_new_term: false,
            error,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

pub(crate) async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(dlock_net::causes(&error)))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use dlock_runtime::store::{StoreErrorKind, StoreOptions};
    use dlock_testkit::{EtcdServer, within};
    use futures_util::FutureExt;

    use super::*;
    use crate::{dial::dial, scene::LONG};

    fn config(url: &str) -> Config {
        let mut options = StoreOptions::default();
        options.response_timeout = LONG;
        Config::parse(url, &options).unwrap()
    }

    /// A connection that no task watches over. It is given up when the sender is dropped.
    async fn connect(server: &EtcdServer) -> (Conn, watch::Sender<()>) {
        let config = config(&server.url());
        let channel = dial(&config.members[0]).await.unwrap();
        let (leave, given_up) = watch::channel(());
        let ties = Ties {
            doubt: Arc::default(),
            given_up,
            is_full: Arc::default(),
            number: 7,
        };
        let place = config.members[0].place.clone();
        let opened = Conn::open(Arc::new(config), place, channel, ties).await;
        (opened.unwrap(), leave)
    }

    #[tokio::test]
    async fn each_failure_is_known_by_its_answer() {
        let server = EtcdServer::start().await;
        let (conn, _give_up) = connect(&server).await;
        let is_full = || conn.ties.is_full.load(Ordering::Acquire);
        assert_eq!((conn.number(), is_full()), (7, false));
        for (status, is_missing, fills, is_doubtful) in [
            (
                Status::not_found("etcdserver: requested lease not found"),
                true,
                false,
                false,
            ),
            (
                Status::resource_exhausted("etcdserver: mvcc: database space exceeded"),
                false,
                true,
                false,
            ),
            (
                Status::permission_denied("etcdserver: permission denied"),
                false,
                false,
                false,
            ),
            (Status::unavailable("broken pipe"), false, false, true),
        ] {
            conn.wrote();
            assert!(!is_full(), "a write shows that there is room");
            let text = status.message().to_owned();
            let failed = conn.guarded(ready(Err::<(), _>(status))).await;
            let failure = failed.unwrap_err();
            let found = (failure.is_missing_lease, failure.is_full, is_full());
            assert_eq!(found, (is_missing, fills, fills), "{text}");
            assert!(!failure.is_new_term, "{text}");
            assert_eq!(conn.doubt().is_open(), is_doubtful, "{text}");
            conn.doubt().settle();
        }
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        for status in [full, Status::unavailable("broken pipe")] {
            let failed = conn.guarded(ready(Err::<(), _>(status))).await;
            assert!(failed.is_err() && is_full(), "until the next write");
        }
    }

    #[tokio::test]
    async fn a_request_without_an_answer_has_the_connection_tried_and_ends_with_it() {
        let server = EtcdServer::start().await;
        let (conn, leave) = connect(&server).await;
        let answered = conn.guarded(ready(Ok::<_, Status>(5))).await;
        assert_eq!(answered.map_err(|it| it.error), Ok(5));
        assert!(!conn.doubt().is_open(), "it was answered");
        let unanswered = || conn.guarded(pending::<Result<(), Status>>());
        assert!(unanswered().now_or_never().is_none());
        assert!(conn.doubt().is_open(), "its caller waits no longer");
        assert_eq!(conn.try_out().await, Tried::Answers);
        assert!(!conn.doubt().is_open());

        assert!(conn.is_given_up().now_or_never().is_none());
        drop(leave);
        within(LONG, conn.is_given_up()).await.expect("it ends");
        let failed = within(LONG, unanswered()).await.expect("it ends");
        let error = failed.map_err(|it| it.error).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Disconnected);
        let text = "the connection was given up before the answer came";
        assert_eq!(error.message(), text);
        assert!(!error.has_no_effect(), "it may be carried out");
        assert!(conn.doubt().is_open());

        server.kill();
        assert_eq!(conn.try_out().await, Tried::Fails);
        assert!(conn.doubt().is_open());
    }

    #[tokio::test]
    async fn the_latest_term_is_that_of_any_answer() {
        let server = EtcdServer::start().await;
        let (conn, _give_up) = connect(&server).await;
        let term = || conn.term.load(Ordering::Acquire);
        assert_eq!(term(), 0, "nothing was asked yet");
        let welcome = conn.welcome().await.unwrap();
        assert!(welcome.has_leader && !welcome.version.is_empty());
        let first = term();
        assert!(first > 0);
        let header = |raft_term| ResponseHeader {
            raft_term,
            ..ResponseHeader::default()
        };
        for (seen, expected) in [(first + 2, first + 2), (first + 1, first + 2)] {
            conn.saw(header(seen));
            assert_eq!(term(), expected);
        }
    }

    #[tokio::test]
    async fn requests_name_the_login_and_no_member_without_a_leader_answers_them() {
        let server = EtcdServer::start().await;
        let (conn, _give_up) = connect(&server).await;
        let named = |name: &str| {
            let request = conn.request(());
            let value = request.metadata().get(name);
            value.map(|it| it.to_str().unwrap().to_owned())
        };
        assert_eq!(named("hasleader").as_deref(), Some("true"));
        assert_eq!(named("token"), None);
        *conn.token_slot() = Some(MetadataValue::from_static("shop.1"));
        assert_eq!(named("token").as_deref(), Some("shop.1"));
    }

    /// The server has no users, and would refuse it.
    #[tokio::test]
    async fn a_login_is_sent_only_for_a_user_whose_last_token_was_refused() {
        let server = EtcdServer::start().await;
        let (mut conn, _give_up) = connect(&server).await;
        let expired = Status::unauthenticated("etcdserver: invalid auth token");
        let denied = Status::permission_denied("etcdserver: permission denied");
        assert!(!conn.may_log_in(&expired), "the URL has no user");
        assert!(conn.log_in(None).await.is_ok());
        conn.config = Arc::new(config("etcd://shop:hush@a"));
        assert!(conn.may_log_in(&expired) && !conn.may_log_in(&denied));
        assert!(conn.log_in(None).await.is_err(), "the first one");
        let [old, new] = ["shop.1", "shop.2"].map(|it| Some(Token::from_static(it)));
        conn.token_slot().clone_from(&new);
        assert!(conn.log_in(old).await.is_ok(), "another one has done it");
        assert!(conn.log_in(None).await.is_ok());
        assert!(conn.log_in(new.clone()).await.is_err());
        assert_eq!(conn.token(), new, "the requests of others have it");
    }
}
