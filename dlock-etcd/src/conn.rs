//! One connection to one member, and the requests over it.
//!
//! # Rules
//!
//! - **Safety.** A connection is never made again in place: its successor has read the base of fences again. A restored
//!   ensemble may count revisions that were given before.
//! - **Safety.** A keep-alive counts only if a request that needs a majority was answered in the same term, by the same
//!   member, and was sent no earlier. A leader that was deposed without noticing would otherwise confirm leases whose time
//!   its successor counts. (`a_keep_alive_counts_only_in_the_term_of_its_confirmation`)

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use futures_util::{StreamExt, stream};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    sync::{Notify, watch},
    time::timeout,
};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::http::{Uri, uri::PathAndQuery},
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use crate::{
    base::Base,
    config::{Config, Member},
    errors,
    proto::{
        Answer, AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse,
        LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse,
        LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, ResponseHeader, StatusRequest,
        StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
    },
};

const TXN: &str = "/etcdserverpb.KV/Txn";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// A connection to a member.
pub(crate) struct Conn {
    pub(crate) config: Arc<Config>,
    /// `host:port` of the member.
    pub(crate) place: String,
    /// The base of fences, as far as this connection knows.
    pub(crate) base: Mutex<Base>,
    channel: Channel,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// The latest term in an answer.
    term: AtomicU64,
    /// Notified when a request has not been answered.
    doubted: Arc<Notify>,
    /// Ends when the connection is given up.
    given_up: watch::Receiver<()>,
}

/// What a member says of itself.
pub(crate) struct Welcome {
    pub(crate) version: String,
    pub(crate) has_leader: bool,
}

impl Conn {
    /// Connects to a member and logs in. `given_up` ends when the connection is replaced.
    pub(crate) async fn open(
        config: Arc<Config>,
        member: &Member,
        doubted: Arc<Notify>,
        given_up: watch::Receiver<()>,
    ) -> Result<(Self, Welcome), StoreError> {
        let channel = connect(member).await?;
        let conn = Self {
            config,
            place: member.place.clone(),
            base: Mutex::default(),
            channel,
            token: Mutex::default(),
            term: AtomicU64::new(0),
            doubted,
            given_up,
        };
        let failed = |status: Status| errors::of_status(&status, &conn.config).unsent();
        conn.log_in().await.map_err(failed)?;
        let status: StatusResponse = conn.send(STATUS, StatusRequest {}).await.map_err(failed)?;
        let welcome = Welcome {
            has_leader: status.leader != 0,
            version: status.version,
        };
        Ok((conn, welcome))
    }

    /// Gets a token for the user of the URL, if it has one.
    async fn log_in(&self) -> Result<(), Status> {
        let Some(login) = &self.config.login else {
            return Ok(());
        };
        let request = AuthenticateRequest {
            name: login.user.clone(),
            password: login.password.clone(),
        };
        *self.token() = None;
        let answer: AuthenticateResponse = self.send(AUTHENTICATE, request).await?;
        let token = MetadataValue::try_from(answer.token)
            .map_err(|_| Status::internal("the token of the login is no header"))?;
        *self.token() = Some(token);
        Ok(())
    }

    /// Returns `true` if a new login may help. The server has not looked at the request then.
    fn may_log_in(&self, status: &Status) -> bool {
        self.config.login.is_some() && errors::wants_login(status)
    }

    fn token(&self) -> std::sync::MutexGuard<'_, Option<MetadataValue<Ascii>>> {
        // Every change is complete before any code can panic.
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        // A member without a leader refuses at once, and ends its streams.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &*self.token() {
            metadata.insert("token", token.clone());
        }
        request
    }

    async fn send<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        ready(&mut grpc).await?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(self.request(message), path, codec).await?;
        let answer = answer.into_inner();
        self.saw(answer.header());
        Ok(answer)
    }

    fn saw(&self, header: ResponseHeader) {
        self.term.fetch_max(header.raft_term, Ordering::AcqRel);
    }

    /// Sends one request.
    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Failure>
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
        match self.send(path, message.clone()).await {
            Err(status) if self.may_log_in(&status) => {
                self.log_in().await?;
                self.send(path, message).await
            }
            other => other,
        }
    }

    /// Ends a request when the connection is given up, and has the connection tried if there is no answer.
    async fn guarded<T>(
        &self,
        request: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let mut given_up = self.given_up.clone();
        // A caller that drops this future has waited as long as it can.
        let unanswered = Unanswered(&self.doubted);
        let answer = tokio::select! {
            answer = request => answer,
            _ = given_up.changed() => Err(Status::unavailable("the connection was given up before the answer came")),
        };
        std::mem::forget(unanswered);
        answer.map_err(|status| {
            if errors::is_doubtful(&status) {
                self.doubted.notify_one();
            }
            Failure {
                is_missing_lease: errors::is_missing_lease(&status),
                is_new_term: false,
                error: errors::of_status(&status, &self.config),
            }
        })
    }

    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.call(TXN, request).await
    }

    /// Makes a lease. It lasts for `seconds` from a moment after this call.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<i64, StoreError> {
        let request = LeaseGrantRequest { ttl: seconds };
        let answer: LeaseGrantResponse = self.call(GRANT, request).await?;
        if answer.ttl < seconds || answer.id == 0 {
            let text = format!(
                "etcd gave a lease of {} s instead of {seconds} s",
                answer.ttl
            );
            return Err(errors::bad_answer(&text));
        }
        Ok(answer.id)
    }

    /// Ends a lease and deletes its keys. From then on no request that names the lease has an effect.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), StoreError> {
        let request = LeaseRevokeRequest { id: lease };
        match self.call::<_, LeaseRevokeResponse>(REVOKE, request).await {
            Err(failure) if !failure.is_missing_lease => Err(failure.error),
            _ => Ok(()),
        }
    }

    /// The rest of a lease in whole seconds, as its leader counts it. It only informs.
    pub(crate) async fn rest(&self, lease: i64) -> Result<Duration, StoreError> {
        let request = LeaseTimeToLiveRequest { id: lease };
        let answer: LeaseTimeToLiveResponse = self.call(TIME_TO_LIVE, request).await?;
        Ok(Duration::from_secs(u64::try_from(answer.ttl).unwrap_or(0)))
    }

    /// Keeps leases alive. Returns for each whether it exists, and the terms that were seen.
    async fn keep_alive(
        &self,
        leases: &[i64],
    ) -> Result<(Vec<bool>, Vec<ResponseHeader>), Failure> {
        if leases.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        self.guarded(async {
            match self.send_keep_alive(leases).await {
                Err(status) if self.may_log_in(&status) => {
                    self.log_in().await?;
                    self.send_keep_alive(leases).await
                }
                other => other,
            }
        })
        .await
    }

    async fn send_keep_alive(
        &self,
        leases: &[i64],
    ) -> Result<(Vec<bool>, Vec<ResponseHeader>), Status> {
        let asked: Vec<_> = leases
            .iter()
            .map(|id| LeaseKeepAliveRequest { id: *id })
            .collect();
        let mut grpc = Grpc::new(self.channel.clone());
        ready(&mut grpc).await?;
        let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
        let path = PathAndQuery::from_static(KEEP_ALIVE);
        let request = self.request(stream::iter(asked));
        let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
        let (mut exist, mut headers) = (Vec::new(), Vec::new());
        // The server answers in the order of the requests.
        for lease in leases {
            let answer = answers.message().await?;
            let answer = answer.filter(|answer| answer.id == *lease);
            let answer =
                answer.ok_or_else(|| Status::unavailable("a keep-alive was not answered"))?;
            exist.push(answer.ttl > 0);
            headers.push(answer.header());
        }
        Ok((exist, headers))
    }

    /// Keeps leases alive beside a transaction, and returns whether each lease exists, with the answer of the
    /// transaction. A lease that exists lasts for its TTL from a moment after this call.
    pub(crate) async fn confirm(
        &self,
        leases: &[i64],
        request: TxnRequest,
    ) -> Result<(Vec<bool>, TxnResponse), Failure> {
        let term = self.term.load(Ordering::Acquire);
        let (kept, answer) = tokio::join!(self.keep_alive(leases), self.txn(request));
        // A refusal of the transaction says more than that of the other.
        let (answer, kept) = (answer?, kept?);
        self.compared(term, kept, answer)
    }

    /// Keeps leases alive, and then reads. The reads see what the keep-alives found. A change of the leader is outlived
    /// once.
    pub(crate) async fn confirm_read(
        &self,
        leases: &[i64],
        request: &TxnRequest,
    ) -> Result<(Vec<bool>, TxnResponse), Failure> {
        let mut term = self.term.load(Ordering::Acquire);
        let mut confirmed = self.keep_and_read(term, leases, request).await;
        if confirmed.as_ref().is_err_and(|failure| failure.is_new_term) {
            term = self.term.load(Ordering::Acquire);
            confirmed = self.keep_and_read(term, leases, request).await;
        }
        confirmed
    }

    async fn keep_and_read(
        &self,
        term: u64,
        leases: &[i64],
        request: &TxnRequest,
    ) -> Result<(Vec<bool>, TxnResponse), Failure> {
        let kept = self.keep_alive(leases).await?;
        let answer = self.txn(request.clone()).await?;
        self.compared(term, kept, answer)
    }

    fn compared(
        &self,
        term: u64,
        (exist, headers): (Vec<bool>, Vec<ResponseHeader>),
        answer: TxnResponse,
    ) -> Result<(Vec<bool>, TxnResponse), Failure> {
        for header in &headers {
            self.saw(*header);
        }
        if is_one_term(term, &headers, answer.header()) {
            return Ok((exist, answer));
        }
        let text = "the leader changed during the request; it is repeated";
        Err(Failure {
            is_missing_lease: false,
            is_new_term: true,
            error: StoreError::new(StoreErrorKind::Disconnected, text),
        })
    }

    /// Follows a range of keys from a revision on.
    pub(crate) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, StoreError> {
        let opened = self.guarded(async {
            match self.send_watch(create.clone()).await {
                Err(status) if self.may_log_in(&status) => {
                    self.log_in().await?;
                    self.send_watch(create).await
                }
                other => other,
            }
        });
        Ok(opened.await?)
    }

    async fn send_watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        ready(&mut grpc).await?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let request = WatchRequest {
            create: Some(create),
        };
        // The server ends a stream whose client has nothing more to say.
        let requests = stream::iter([request]).chain(stream::pending());
        let path = PathAndQuery::from_static(WATCH);
        let opened = grpc.streaming(self.request(requests), path, codec).await?;
        Ok(opened.into_inner())
    }

    /// Waits until the connection is given up.
    pub(crate) async fn is_given_up(&self) {
        let mut given_up = self.given_up.clone();
        given_up.changed().await.ok();
    }

    /// Asks for an answer that needs a majority.
    pub(crate) async fn is_usable(&self, request: TxnRequest, limit: Duration) -> bool {
        let asked = self.send_logged_in::<_, TxnResponse>(TXN, request);
        matches!(timeout(limit, asked).await, Ok(Ok(_)))
    }
}

/// Returns `true` if keep-alives and a request that needs a majority were answered by one member, in the term that it
/// had before both were sent.
///
/// The keep-alives then went to the leader of this term, and no leader of a later term was elected before they were sent:
/// the majority that answered the request had not voted for one. A later leader counts the leases from its election.
fn is_one_term(before: u64, kept: &[ResponseHeader], confirmed: ResponseHeader) -> bool {
    kept.iter().all(|header| {
        let terms = [header.raft_term, confirmed.raft_term];
        terms == [before; 2] && header.member_id == confirmed.member_id
    })
}

/// A request that has failed.
pub(crate) struct Failure {
    /// `true` if the request named a lease that does not exist, and had no effect.
    pub(crate) is_missing_lease: bool,
    /// `true` if the leader changed, so that nothing is known of the leases.
    pub(crate) is_new_term: bool,
    pub(crate) error: StoreError,
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// A request without an answer. Dropped, it has the connection tried.
struct Unanswered<'a>(&'a Notify);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(crate::config::cause(&error)))
}

/// Makes one connection. A channel of tonic would make the next one by itself.
async fn connect(member: &Member) -> Result<Channel, StoreError> {
    let is_used = Arc::new(AtomicBool::new(false));
    let connector = tower::service_fn(move |uri: Uri| {
        let is_used = is_used.clone();
        async move {
            if is_used.swap(true, Ordering::AcqRel) {
                return Err(std::io::Error::other("the connection was closed"));
            }
            let host = uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, uri.port_u16().unwrap_or_default())).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        }
    });
    let connected = member.endpoint.connect_with_connector(connector).await;
    connected.map_err(|error| errors::of_connecting(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(member_id: u64, raft_term: u64) -> ResponseHeader {
        ResponseHeader {
            member_id,
            revision: 1,
            raft_term,
        }
    }

    #[test]
    fn a_keep_alive_counts_only_in_the_term_of_its_confirmation() {
        assert!(is_one_term(7, &[header(1, 7); 2], header(1, 7)));
        assert!(is_one_term(7, &[], header(1, 8)), "nothing was kept alive");
        for (before, kept, confirmed) in [
            // The leader that answered the keep-alive has a successor.
            (7, header(1, 7), header(1, 8)),
            // It may have been asked before the member knew of the new term.
            (7, header(1, 8), header(1, 8)),
            (8, header(1, 7), header(1, 8)),
            // The terms of two members say nothing about each other.
            (7, header(1, 7), header(2, 7)),
        ] {
            assert!(
                !is_one_term(before, &[kept], confirmed),
                "{before} {kept:?} {confirmed:?}"
            );
        }
    }
}
