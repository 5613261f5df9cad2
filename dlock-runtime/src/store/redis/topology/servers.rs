//! The servers of a store: one, or the masters of a cluster.

use std::time::Duration;
#[cfg(feature = "admin")]
use std::{ops::Deref, sync::Arc};

use redis::Value;

#[cfg(feature = "admin")]
use super::cluster::map::Member;
use super::cluster::{Cluster, route::Route};
use crate::store::{
    StoreError,
    redis::{net::node::Node, protocol::command::Command},
};

/// The destination of requests.
pub(crate) enum Servers {
    One(Box<Node>),
    Cluster(Cluster),
}

impl Servers {
    /// Waits until locks can be acquired, or until it is known that an operator has to act.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        match self {
            Self::One(node) => node.ready(limit).await,
            Self::Cluster(cluster) => cluster.ready(limit).await,
        }
    }

    /// Executes a command at its server, within the response timeout.
    pub(crate) async fn execute(&self, command: &Command) -> Result<Value, StoreError> {
        match self {
            Self::One(node) => node.execute(command).await,
            Self::Cluster(cluster) => {
                cluster
                    .execute(&mut Route::to_owner(command, cluster.limit()))
                    .await
            }
        }
    }

    /// Executes commands with one write to each server, within `limit`. The answers have the order of the commands.
    pub(crate) async fn execute_all(
        &self,
        commands: &[Command],
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        match self {
            Self::One(node) => {
                node.execute_all(&commands.iter().collect::<Vec<_>>(), limit)
                    .await
            }
            Self::Cluster(cluster) => cluster.execute_all(commands, limit).await,
        }
    }

    /// Returns each server that has locks, as far as they are known.
    #[cfg(feature = "admin")]
    pub(crate) fn masters(&self) -> Vec<MasterNode<'_>> {
        match self {
            Self::One(node) => vec![MasterNode::Only(node)],
            Self::Cluster(cluster) => {
                let members = cluster.masters().into_iter();
                members.map(MasterNode::OfSome).collect()
            }
        }
    }
}

/// A server that has locks.
#[cfg(feature = "admin")]
pub(crate) enum MasterNode<'a> {
    Only(&'a Node),
    OfSome(Arc<Member>),
}

#[cfg(feature = "admin")]
impl Deref for MasterNode<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Self::Only(node) => node,
            Self::OfSome(member) => member.node(),
        }
    }
}
