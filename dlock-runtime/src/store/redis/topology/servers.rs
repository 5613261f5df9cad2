//! The servers of a store, however many they are.

use std::time::Duration;
#[cfg(feature = "admin")]
use std::{ops::Deref, sync::Arc};

use redis::Value;

use super::cluster::Cluster;
#[cfg(feature = "admin")]
use super::cluster::map::Member;
use crate::store::{
    StoreError,
    redis::{net::node::Node, protocol::script::Call},
};

/// Where requests go.
pub(crate) enum Servers {
    One(Node),
    Cluster(Cluster),
}

impl Servers {
    /// Waits until locks can be taken, or will not be without somebody's help.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        match self {
            Self::One(node) => node.ready(limit).await,
            Self::Cluster(cluster) => cluster.ready(limit).await,
        }
    }

    /// Runs a script, in no more time than a request may take.
    pub(crate) async fn run(&self, call: &Call) -> Result<Value, StoreError> {
        match self {
            Self::One(node) => node.run(call).await,
            Self::Cluster(cluster) => cluster.run(call).await,
        }
    }

    /// Runs scripts with one write to each server, within `limit`; the answers are in the order
    /// of the calls.
    pub(crate) async fn run_all(
        &self,
        calls: &[Call],
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        match self {
            Self::One(node) => node.run_all(&calls.iter().collect::<Vec<_>>(), limit).await,
            Self::Cluster(cluster) => cluster.run_all(calls, limit).await,
        }
    }

    /// Each server that has locks, as far as they are known.
    #[cfg(feature = "admin")]
    pub(crate) fn masters(&self) -> Vec<Master<'_>> {
        match self {
            Self::One(node) => vec![Master::Only(node)],
            Self::Cluster(cluster) => {
                let members = cluster.masters().into_iter();
                members.map(Master::OfSome).collect()
            }
        }
    }
}

/// A server that has locks.
#[cfg(feature = "admin")]
pub(crate) enum Master<'a> {
    Only(&'a Node),
    OfSome(Arc<Member>),
}

#[cfg(feature = "admin")]
impl Deref for Master<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Self::Only(node) => node,
            Self::OfSome(member) => member.node(),
        }
    }
}
