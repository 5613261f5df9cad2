//! The messages of etcd's API that operators alone need: a subset of `rpc.proto`, with its names and numbers.

use prost::Message;

use crate::proto::{Answer, KeyValue, ResponseHeader};

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";

/// A part of a range of keys, in the order of their names.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PageRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// The revision to read; 0 for the present one.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PageResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    /// The number of keys in the range, of all pages.
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct MemberHeader {
    #[prost(uint64, tag = "1")]
    pub(super) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct MemberStatusRequest {}

/// The state of one member, as it sees it itself.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MemberStatus {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<MemberHeader>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) db_size: i64,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    /// Alarms of all members among them.
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(super) is_learner: bool,
    /// 0 in versions before 3.6.
    #[prost(int64, tag = "12")]
    pub(super) db_size_quota: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<ListedMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListedMember {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

impl Answer for PageResponse {
    fn header(&self) -> ResponseHeader {
        self.header.unwrap_or_default()
    }
}

impl Answer for MemberListResponse {
    fn header(&self) -> ResponseHeader {
        self.header.unwrap_or_default()
    }
}
