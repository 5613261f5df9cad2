//! The requests that a careful engineer sends to etcd by hand, and those of its own locks.
//!
//! The messages are a subset of `rpc.proto` and `v3lock.proto`, with their names and numbers.

use futures_util::{StreamExt, stream};
use prost::{Message, Oneof};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use crate::Failure;

#[derive(Clone, Copy, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Compare {
    /// 0 stands for equal.
    #[prost(int32, tag = "1")]
    result: i32,
    /// 1 stands for the create revision.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "CompareWith", tags = "5")]
    with: Option<CompareWith>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
enum CompareWith {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Key {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(oneof = "OneOp", tags = "2, 3")]
    op: Option<OneOp>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OneOp {
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Key),
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<Key>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WatchAnswer {
    #[prost(bool, tag = "3")]
    created: bool,
}

/// A connection as programs have it, served by the runtime of the caller.
pub(super) struct Client(Channel);

/// A watch of one key.
pub(super) struct Watch(Streaming<WatchAnswer>);

impl Client {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let url = url.replacen("etcd://", "http://", 1);
        let endpoint = Endpoint::from_shared(url)?.tcp_nodelay(true);
        Ok(Self(endpoint.connect().await?))
    }

    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Failure>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(Request::new(message), path, codec).await?;
        Ok(answer.into_inner())
    }

    pub(super) async fn grant(&self, ttl: i64) -> Result<i64, Failure> {
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted: Granted = self.call(path, Grant { ttl }).await?;
        Ok(granted.id)
    }

    async fn txn(&self, key: &str, created: i64, op: OneOp) -> Result<TxnAnswer, Failure> {
        let compare = Compare {
            result: 0,
            target: 1,
            key: key.into(),
            with: Some(CompareWith::CreateRevision(created)),
        };
        let txn = Txn {
            compare: vec![compare],
            success: vec![Op { op: Some(op) }],
        };
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// Creates a key, unless it is there. Returns its create revision.
    pub(super) async fn create(&self, key: &str, lease: i64) -> Result<Option<i64>, Failure> {
        let put = Put {
            key: key.into(),
            value: Vec::new(),
            lease,
        };
        let answer = self.txn(key, 0, OneOp::Put(put)).await?;
        let revision = answer.header.map(|header| header.revision);
        Ok(revision.filter(|_| answer.succeeded))
    }

    /// Deletes a key that was created at this revision.
    pub(super) async fn delete(&self, key: &str, created: i64) -> Result<bool, Failure> {
        let delete = OneOp::Delete(Key { key: key.into() });
        Ok(self.txn(key, created, delete).await?.succeeded)
    }

    pub(super) async fn put(&self, key: &str) -> Result<(), Failure> {
        let put = Put {
            key: key.into(),
            value: Vec::new(),
            lease: 0,
        };
        let _: Empty = self.call("/etcdserverpb.KV/Put", put).await?;
        Ok(())
    }

    /// Acquires a lock of etcd itself. Returns the key of the holder.
    pub(super) async fn lock(&self, name: &str, lease: i64) -> Result<Vec<u8>, Failure> {
        let name = name.into();
        let locked: Locked = self
            .call("/v3lockpb.Lock/Lock", Lock { name, lease })
            .await?;
        Ok(locked.key)
    }

    pub(super) async fn unlock(&self, key: Vec<u8>) -> Result<(), Failure> {
        let _: Empty = self.call("/v3lockpb.Lock/Unlock", Key { key }).await?;
        Ok(())
    }

    pub(super) async fn watch(&self, key: &str) -> Result<Watch, Failure> {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await?;
        let create = Some(Key { key: key.into() });
        let requests = stream::iter([WatchRequest { create }]).chain(stream::pending());
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchAnswer>::default();
        let answers = grpc.streaming(Request::new(requests), path, codec).await?;
        let mut watch = Watch(answers.into_inner());
        let first = watch.0.message().await?;
        if first.is_some_and(|answer| answer.created) {
            Ok(watch)
        } else {
            Err("the watch was not created".into())
        }
    }
}

impl Watch {
    /// Waits for the next change of the key.
    pub(super) async fn event(&mut self) -> Result<(), Failure> {
        let answer = self.0.message().await?;
        answer.map(drop).ok_or_else(|| "the watch has ended".into())
    }
}
