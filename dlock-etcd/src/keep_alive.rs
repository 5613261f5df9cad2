//! Keeps leases alive over a stream of a connection.

use futures_util::stream;
use tokio::sync::mpsc;
use tonic::{Status, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::{
    conn::{Conn, Failure, ready},
    proto::{Answer, LeaseKeepAliveRequest, LeaseKeepAliveResponse, ResponseHeader},
    streams::{Stream, send},
};

const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// For each lease, whether it exists, and the header of the answer.
pub(crate) type Kept = (Vec<bool>, Vec<ResponseHeader>);

impl Conn {
    /// Keeps leases alive. Returns for each whether it exists, and the terms that were seen.
    pub(crate) async fn keep_alive(&self, leases: &[i64]) -> Result<Kept, Failure> {
        if leases.is_empty() {
            return Ok(Kept::default());
        }
        self.guarded(async {
            if let Some(stream) = self.streams.take() {
                stream.send(leases);
                if let Ok(kept) = self.answers(stream, leases).await {
                    return Ok(kept);
                }
            }
            let token = self.token();
            match self.open_stream(leases).await {
                Err(status) if self.may_log_in(&status) => {
                    Box::pin(self.log_in(token)).await?;
                    self.open_stream(leases).await
                }
                other => other,
            }
        })
        .await
    }

    async fn open_stream(&self, leases: &[i64]) -> Result<Kept, Status> {
        let mut grpc = self.grpc();
        ready(&mut grpc).await?;
        let (requests, sent) = mpsc::unbounded_channel();
        let sent = stream::unfold(sent, |mut sent| async move {
            let request = sent.recv().await?;
            Some((request, sent))
        });
        let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
        let path = PathAndQuery::from_static(KEEP_ALIVE);
        let opened = grpc.streaming(self.request(sent), path, codec);
        // The server accepts the stream with its first answer.
        send(&requests, leases);
        let answers = opened.await?.into_inner();
        self.answers(Stream { requests, answers }, leases).await
    }

    /// Reads the answers to the requests about these leases, the last ones that were sent.
    async fn answers(&self, mut stream: Stream, leases: &[i64]) -> Result<Kept, Status> {
        let (mut exist, mut headers) = Kept::default();
        // The server answers in the order of the requests.
        for lease in leases {
            let answer = stream.answers.message().await?;
            let answer = answer.filter(|answer| answer.id == *lease);
            let answer =
                answer.ok_or_else(|| Status::unavailable("a keep-alive was not answered"))?;
            exist.push(answer.ttl > 0);
            headers.push(answer.header());
        }
        self.streams.give(stream);
        Ok((exist, headers))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{EtcdServer, Proxy, eventually};
    use futures_util::future::join_all;
    use tokio::time::timeout;

    use super::*;
    use crate::EtcdStore;

    const LONG: Duration = Duration::from_secs(60);

    async fn connect(port: u16) -> (EtcdStore, Arc<Conn>) {
        let mut options = StoreOptions::default();
        // The connection outlasts the test.
        options.response_timeout = 2 * LONG;
        let store = EtcdStore::open(&format!("etcd://127.0.0.1:{port}"), &options).unwrap();
        let conn = store.core.session.conn().await.unwrap();
        (store, conn)
    }

    async fn exist(conn: &Conn, leases: &[i64]) -> Vec<bool> {
        let kept = conn.keep_alive(leases).await;
        kept.map_err(|failure| failure.error).unwrap().0
    }

    #[tokio::test]
    async fn keep_alives_that_follow_each_other_have_one_stream() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        let (_store, conn) = connect(proxy.port()).await;
        let lease = conn.grant(600).await.unwrap();
        for _ in 0..3 {
            assert_eq!(exist(&conn, &[lease, 7, lease]).await, [true, false, true]);
            assert_eq!(conn.streams.idle().len(), 1);
        }
        let kept_alive = async || server.messages().await["LeaseKeepAlive"];
        assert_eq!(kept_alive().await, 9);
        proxy.hold_replies();
        let leases = [lease];
        let both_have_asked = async {
            eventually(LONG, "both have asked", async || kept_alive().await == 11).await;
            proxy.thaw();
        };
        tokio::join!(
            exist(&conn, &leases),
            exist(&conn, &leases),
            both_have_asked
        );
        assert_eq!(conn.streams.idle().len(), 2, "neither waits for the other");
    }

    #[tokio::test]
    async fn a_stream_that_has_ended_is_replaced() {
        let server = EtcdServer::start().await;
        let (_store, conn) = connect(server.port()).await;
        let lease = conn.grant(600).await.unwrap();
        assert_eq!(exist(&conn, &[lease]).await, [true]);
        // The server ends a stream whose client has nothing more to say.
        conn.streams.idle()[0].requests = mpsc::unbounded_channel().0;
        assert_eq!(exist(&conn, &[lease]).await, [true]);
        assert!(!conn.streams.idle()[0].requests.is_closed());
    }

    #[tokio::test]
    async fn a_stream_with_an_open_request_is_not_used_again() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        let (_store, conn) = connect(proxy.port()).await;
        let lease = conn.grant(600).await.unwrap();
        assert_eq!(exist(&conn, &[lease]).await, [true]);
        proxy.hold_replies();
        let brief = Duration::from_millis(100);
        let given_up = timeout(brief, conn.keep_alive(&[lease])).await;
        assert!(given_up.is_err());
        assert_eq!(conn.streams.idle().len(), 0);
        proxy.thaw();
        assert_eq!(exist(&conn, &[7, lease]).await, [false, true]);
    }

    #[tokio::test]
    async fn streams_beyond_four_end_with_their_answers() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        let (_store, conn) = connect(proxy.port()).await;
        let lease = conn.grant(600).await.unwrap();
        proxy.hold_replies();
        let leases = [lease];
        let all_have_asked = async {
            eventually(LONG, "all have asked", async || {
                server.messages().await.get("LeaseKeepAlive") == Some(&6)
            })
            .await;
            proxy.thaw();
        };
        let asked = join_all((0..6).map(|_| exist(&conn, &leases)));
        let (existing, ()) = tokio::join!(asked, all_have_asked);
        assert_eq!(existing, [const { [true] }; 6]);
        assert_eq!(conn.streams.idle().len(), 4);
    }

    #[tokio::test]
    async fn no_keep_alives_need_no_stream() {
        let server = EtcdServer::start().await;
        let (_store, conn) = connect(server.port()).await;
        assert_eq!(exist(&conn, &[]).await, [true; 0]);
        assert_eq!(conn.streams.idle().len(), 0);
    }
}
