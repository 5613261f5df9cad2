//! The requests over a connection. `keep_alive.rs` has the keep-alives.
//!
//! # Rules
//!
//! - **Safety.** A keep-alive counts only if a request that needs a majority was answered in the same term, by the same
//!   member, and was sent no earlier. A leader that was deposed without noticing would otherwise confirm leases whose time
//!   its successor counts. (`a_keep_alive_counts_only_in_the_term_of_its_confirmation`)
//! - A transaction that only reads is sent to no version that crashes when its client gives it up, which is what a client does with
//!   every request that is not answered in time. (`reads_are_sent_one_by_one_where_a_given_up_transaction_is_a_crash`)
//! - Requests that only read or delete have a form that a full database does not refuse. etcd 3.5.1 refuses every transaction
//!   then. (`a_full_database_of_an_early_version_keeps_locks_that_are_held`)

use std::{sync::atomic::Ordering, time::Duration};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use futures_util::{StreamExt, future::try_join_all, stream};
use tokio::sync::oneshot;
use tonic::{Status, Streaming, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::{
    conn::{Conn, Failure, RANGE, TXN, ready},
    errors,
    keep_alive::Kept,
    ops,
    proto::{
        Answer, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse,
        LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
        Op, RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
        WatchCreateRequest, WatchRequest, WatchResponse,
    },
};

const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

impl Conn {
    /// Sends a transaction that writes or deletes, or may do so.
    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        debug_assert!(
            request
                .success
                .iter()
                .chain(&request.failure)
                .any(|op| !matches!(op.request, Some(Op::Range(_)))),
            "one that only reads is sent by `read`"
        );
        let has_put =
            |ops: &[RequestOp]| ops.iter().any(|op| matches!(op.request, Some(Op::Put(_))));
        let writes = [has_put(&request.success), has_put(&request.failure)];
        let answer: TxnResponse = self.call(TXN, request).await?;
        if writes[usize::from(!answer.succeeded)] {
            self.wrote();
        }
        Ok(answer)
    }

    /// Sends a transaction that only reads, or each of its reads alone. Those answers may have different revisions.
    pub(crate) async fn read(&self, request: &TxnRequest) -> Result<TxnResponse, Failure> {
        if self.reads_alone() || request.success.len() == 1 {
            return self.read_each(request).await;
        }
        self.call(TXN, request.clone()).await
    }

    async fn read_each(&self, request: &TxnRequest) -> Result<TxnResponse, Failure> {
        let ranges = request.success.iter().filter_map(|op| match &op.request {
            Some(Op::Range(range)) => Some(range.clone()),
            _ => None,
        });
        let asked = ranges.map(async |range| {
            let _turn = self.reads.acquire().await;
            self.call::<_, RangeResponse>(RANGE, range).await
        });
        together(try_join_all(asked).await?)
    }

    /// Deletes a key, whatever it has become. Returns whether it was there, and the revision.
    pub(crate) async fn delete(&self, name: &[u8]) -> Result<(bool, i64), Failure> {
        let key = name.to_vec();
        let request = DeleteRangeRequest { key };
        let answer: DeleteRangeResponse = self.call(DELETE, request).await?;
        Ok((answer.deleted > 0, answer.header().revision))
    }

    /// Makes a lease. It lasts for `seconds` from a moment after this call.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<i64, StoreError> {
        let request = LeaseGrantRequest { ttl: seconds };
        granted(&self.call(GRANT, request).await?, seconds)
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
        let request = LeaseTimeToLiveRequest {
            id: lease,
            keys: false,
        };
        let answer: LeaseTimeToLiveResponse = self.call(TIME_TO_LIVE, request).await?;
        Ok(Duration::from_secs(u64::try_from(answer.ttl).unwrap_or(0)))
    }

    /// The names of the keys that have a lease.
    pub(crate) async fn keys_of(&self, lease: i64) -> Result<Vec<Vec<u8>>, StoreError> {
        let request = LeaseTimeToLiveRequest {
            id: lease,
            keys: true,
        };
        let answer: LeaseTimeToLiveResponse = self.call(TIME_TO_LIVE, request).await?;
        Ok(answer.keys)
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
        let answer = answer?;
        // The refusal of a keep-alive does not undo the transaction.
        let kept = kept.map_err(|failure| Failure::new(errors::with_effect(&failure.error)))?;
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
        let answer = self.read(request).await?;
        if !is_of_one_term(&answer) {
            return Err(new_term());
        }
        self.compared(term, kept, answer)
    }

    fn compared(
        &self,
        term: u64,
        (exist, headers): Kept,
        answer: TxnResponse,
    ) -> Result<(Vec<bool>, TxnResponse), Failure> {
        for header in &headers {
            self.saw(*header);
        }
        if is_one_term(term, &headers, answer.header()) {
            return Ok((exist, answer));
        }
        Err(new_term())
    }

    /// Follows a range of keys from a revision on.
    pub(crate) async fn watch(&self, create: WatchCreateRequest) -> Result<Watch, StoreError> {
        let opened = self.guarded(async {
            let token = self.token();
            match self.send_watch(create.clone()).await {
                Err(status) if self.may_log_in(&status) => {
                    Box::pin(self.log_in(token)).await?;
                    self.send_watch(create).await
                }
                other => other,
            }
        });
        Ok(opened.await?)
    }

    async fn send_watch(&self, create: WatchCreateRequest) -> Result<Watch, Status> {
        let mut grpc = self.grpc();
        ready(&mut grpc).await?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let request = WatchRequest {
            create: Some(create),
        };
        // The server ends a stream whose client has nothing more to say.
        let (open, closed) = oneshot::channel::<()>();
        let no_more = stream::once(closed).filter_map(async |_| None);
        let requests = stream::iter([request]).chain(no_more);
        let path = PathAndQuery::from_static(WATCH);
        let opened = grpc.streaming(self.request(requests), path, codec).await?;
        Ok(Watch {
            answers: opened.into_inner(),
            _open: open,
        })
    }
}

/// Returns the answers to reads that were sent one by one as that to a transaction, which is as old as the oldest of them.
fn together(answers: Vec<RangeResponse>) -> Result<TxnResponse, Failure> {
    let headers = answers.iter().map(Answer::header);
    let Some(first) = headers.min_by_key(|header| header.revision) else {
        return Err(Failure::new(errors::bad_answer("a read of nothing")));
    };
    Ok(TxnResponse {
        header: Some(first),
        succeeded: true,
        responses: answers.into_iter().map(ResponseOp::from).collect(),
    })
}

/// Returns the id of a lease that lasts for `seconds` at least.
fn granted(answer: &LeaseGrantResponse, seconds: i64) -> Result<i64, StoreError> {
    if answer.ttl < seconds || answer.id == 0 {
        let text = format!(
            "etcd gave a lease of {} s instead of {seconds} s",
            answer.ttl
        );
        return Err(errors::bad_answer(&text));
    }
    Ok(answer.id)
}

/// The events of a range of keys.
pub(crate) struct Watch {
    answers: Streaming<WatchResponse>,
    /// Ends the requests of the stream. Otherwise the stream would last as long as its connection, and keep it open.
    _open: oneshot::Sender<()>,
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, Status> {
        self.answers.message().await
    }
}

fn new_term() -> Failure {
    let text = "the leader changed during the request; it is repeated";
    Failure {
        is_new_term: true,
        ..Failure::new(StoreError::new(StoreErrorKind::Disconnected, text))
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

/// Returns `true` unless reads that were sent one by one were answered in several terms.
fn is_of_one_term(answer: &TxnResponse) -> bool {
    let headers: Vec<_> = ops::headers(answer).collect();
    is_one_term(answer.header().raft_term, &headers, answer.header())
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::EtcdServer;

    use super::*;
    use crate::{EtcdStore, dial::dial, scene::Scene, version};

    /// The number of transactions that the server has got.
    async fn sent(server: &EtcdServer) -> u64 {
        server.messages().await.get("Txn").copied().unwrap_or(0)
    }

    /// Reads two keys, and returns the number of transactions that the server has got for that.
    async fn transactions(server: &EtcdServer, conn: &Conn) -> u64 {
        let before = sent(server).await;
        let read = ops::read(vec![ops::get(b"one"), ops::get(b"two")]);
        let answer = conn.read(&read).await.map_err(|failure| failure.error);
        assert_eq!(answer.unwrap().responses.len(), 2);
        sent(server).await - before
    }

    #[tokio::test]
    async fn reads_are_sent_one_by_one_where_a_given_up_transaction_is_a_crash() {
        let server = EtcdServer::start().await;
        let store = EtcdStore::open(&server.url(), &StoreOptions::default()).unwrap();
        let known = store.core.session.conn().await.unwrap();
        let version = known.welcome().await.unwrap().version;
        let is_crashed = version::is_crashed_by_reads(&version);
        assert_eq!(known.reads_alone(), is_crashed, "{version}");
        let config = known.config.clone();
        let channel = dial(&config.members[0]).await.unwrap();
        let ties = known.ties();
        let opened = Conn::open(config, known.place.clone(), channel, ties).await;
        let conn = opened.unwrap();
        assert_eq!(transactions(&server, &conn).await, 0, "an unknown one");
        conn.met("3.5.6");
        assert_eq!(transactions(&server, &conn).await, 0);
        conn.met("3.5.7");
        assert_eq!(transactions(&server, &conn).await, 1);
        // The read of one key is no transaction: a full database of 3.5.1 refuses every one.
        let before = sent(&server).await;
        let read = conn.read(&ops::read(vec![ops::get(b"one")])).await;
        assert_eq!(read.map_err(|it| it.error).unwrap().responses.len(), 1);
        assert_eq!(sent(&server).await, before);
    }

    #[test]
    fn a_lease_that_is_shorter_than_requested_is_refused() {
        let answer = |id, ttl| LeaseGrantResponse {
            id,
            ttl,
            ..LeaseGrantResponse::default()
        };
        assert_eq!(granted(&answer(7, 10), 10), Ok(7));
        assert_eq!(granted(&answer(7, 11), 10), Ok(7), "etcd has a minimum");
        for invalid in [answer(7, 9), answer(0, 10)] {
            let error = granted(&invalid, 10).unwrap_err();
            let text = format!("etcd gave a lease of {} s instead of 10 s", invalid.ttl);
            assert_eq!(error.message(), text);
        }
    }

    fn header(member_id: u64, raft_term: u64) -> ResponseHeader {
        ResponseHeader {
            member_id,
            revision: 1,
            raft_term,
        }
    }

    /// A watch that begins there misses no change.
    #[test]
    fn reads_one_by_one_are_as_old_as_the_oldest() {
        let read = |revision| RangeResponse {
            header: Some(ResponseHeader {
                revision,
                ..header(1, 7)
            }),
            kvs: Vec::new(),
        };
        let answers = || [7, 5, 6].map(read).to_vec();
        let answer = together(answers()).map_err(|it| it.error).unwrap();
        assert_eq!(answer.header().revision, 5);
        let expected: Vec<_> = answers().into_iter().map(ResponseOp::from).collect();
        assert!(answer.succeeded && answer.responses == expected);
    }

    #[test]
    fn reads_one_by_one_confirm_only_the_term_of_all() {
        for (terms, expected) in [([7, 7], true), ([7, 8], false), ([8, 7], false)] {
            let reads = terms.map(|term| RangeResponse {
                header: Some(header(1, term)),
                kvs: Vec::new(),
            });
            let answer = TxnResponse {
                header: reads[0].header,
                succeeded: true,
                responses: reads.map(ResponseOp::from).into(),
            };
            assert_eq!(is_of_one_term(&answer), expected, "{terms:?}");
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

    #[tokio::test]
    async fn each_request_says_what_it_found() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let conn = scene.conn().await;
        let lease = conn.grant(600).await.unwrap();
        assert!(server.put_with(&lease.to_string(), "one", "1").await);
        let rest = conn.rest(lease).await.unwrap();
        assert!((500..=600).contains(&rest.as_secs()), "{rest:?}");
        assert_eq!(conn.keys_of(lease).await, Ok(vec![b"one".to_vec()]));
        let deleted = conn.delete(b"one").await.map_err(|it| it.error).unwrap();
        assert_eq!(deleted, (true, server.revision().await));
        let deleted = conn.delete(b"one").await.map_err(|it| it.error).unwrap();
        assert!(!deleted.0);
        assert_eq!(conn.revoke(lease).await, Ok(()));
        assert_eq!(conn.revoke(lease).await, Ok(()), "it is gone as well");
        assert_eq!(conn.rest(lease).await, Ok(Duration::ZERO));
        let error = conn.grant(i64::MAX).await.unwrap_err();
        assert!(error.has_no_effect(), "etcd refuses it: {error}");
    }

    #[tokio::test]
    async fn a_write_shows_that_the_database_has_room() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let (conn, session) = (scene.conn().await, &scene.store.core.session);
        let put = || vec![ops::put(b"one", Vec::new(), 0)];
        let delete = || vec![ops::delete(b"one")];
        let get = || vec![ops::get(b"one")];
        for (exists, success, failure, is_full) in [
            (false, put(), get(), false),
            (true, put(), get(), true),
            (true, delete(), put(), false),
            (true, put(), delete(), true),
            (false, delete(), put(), true),
        ] {
            server.delete("one").await;
            if exists {
                server.put("one", "1").await;
            }
            conn.ties().is_full.store(true, Ordering::Release);
            assert!(session.is_full());
            let request = TxnRequest {
                compare: vec![ops::is_created_at(b"one", 0)],
                success,
                failure,
            };
            let answer = conn.txn(request).await.map_err(|it| it.error).unwrap();
            assert_eq!(answer.succeeded, !exists);
            assert_eq!(session.is_full(), is_full, "{exists}");
        }
    }

    #[tokio::test]
    async fn a_keep_alive_before_an_election_is_repeated_once() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let conn = scene.conn().await;
        let lease = conn.grant(600).await.unwrap();
        let read = ops::read(vec![ops::get(b"one"), ops::get(b"two")]);
        let term = conn.term.load(Ordering::Acquire);
        // Both reads are one transaction then.
        conn.met("3.5.7");
        // As if the last answer had come from the leader before.
        for (before, reads) in [(term, 1), (term - 1, 2)] {
            conn.term.store(before, Ordering::Release);
            let sent_before = sent(&server).await;
            let confirmed = conn.confirm_read(&[lease, 7], &read).await;
            let (exist, answer) = confirmed.map_err(|it| it.error).unwrap();
            assert_eq!(exist, [true, false]);
            assert_eq!(answer.responses.len(), 2);
            assert_eq!(sent(&server).await - sent_before, reads, "{before}");
        }
        assert_eq!(conn.term.load(Ordering::Acquire), term);
        // Beside a transaction, it is not.
        conn.term.store(term - 1, Ordering::Release);
        let put = || TxnRequest {
            success: vec![ops::put(b"one", Vec::new(), lease)],
            ..TxnRequest::default()
        };
        let Err(failure) = conn.confirm(&[lease], put()).await else {
            panic!("nothing is known of the lease");
        };
        assert!(failure.is_new_term && !failure.error.has_no_effect());
        let text = "the leader changed during the request; it is repeated";
        assert_eq!(failure.error.message(), text);
        let confirmed = conn.confirm(&[lease, 7], put()).await;
        let (exist, answer) = confirmed.map_err(|it| it.error).unwrap();
        assert_eq!((exist, answer.succeeded), (vec![true, false], true));
    }

    #[tokio::test]
    async fn a_term_that_only_a_keep_alive_has_seen_is_that_of_the_next_request() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let conn = scene.conn().await;
        let term = conn.term.load(Ordering::Acquire);
        let kept = (vec![true], vec![header(1, term + 1)]);
        let answer = TxnResponse {
            header: Some(header(1, term)),
            ..TxnResponse::default()
        };
        let Err(failure) = conn.compared(term, kept, answer) else {
            panic!("the leader has a successor");
        };
        assert!(failure.is_new_term);
        assert_eq!(conn.term.load(Ordering::Acquire), term + 1);
    }

    #[tokio::test]
    async fn a_transaction_that_is_refused_says_more_than_its_keep_alive() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let conn = scene.conn().await;
        let put = TxnRequest {
            success: vec![ops::put(b"one", Vec::new(), 7)],
            ..TxnRequest::default()
        };
        let Err(failure) = conn.confirm(&[7], put).await else {
            panic!("there is no such lease");
        };
        assert!(failure.is_missing_lease && failure.error.has_no_effect());
    }

    #[tokio::test]
    async fn a_read_of_nothing_is_an_error_and_reads_alone_keep_their_order() {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let conn = scene.conn().await;
        conn.met("3.5.6");
        let Err(failure) = conn.read(&ops::read(Vec::new())).await else {
            panic!("nothing was read");
        };
        assert_eq!(failure.error.message(), "a read of nothing");
        server.put("one", "1").await;
        let read = ops::read(vec![ops::get(b"two"), ops::get(b"one")]);
        let answer = conn.read(&read).await.map_err(|it| it.error).unwrap();
        let found = |index| ops::keys_of(&answer, index).unwrap().len();
        assert_eq!([found(0), found(1)], [0, 1]);
        assert_eq!(answer.header().revision, server.revision().await);
        assert!(answer.succeeded);
    }
}
