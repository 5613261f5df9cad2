//! The kinds of faults, where each of them can be made, and what it may break.

use std::{fmt, time::Duration};

use clap::ValueEnum;
use dlock_testkit::ZooKeepers;
use serde::Serialize;

use crate::{worker::TTL, zookeeper::SESSION};

/// How the servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
pub(crate) enum Topology {
    /// One server.
    Single,
    /// A master, two replicas, three Sentinels.
    Sentinel,
    /// The same, with leases that both replicas have confirmed.
    Replicas,
    /// Three masters with a replica each.
    Cluster,
    /// Five independent servers, of which a majority decides.
    Quorum,
    /// A PostgreSQL server with what the locks protect.
    Postgres,
    /// The same behind a pooler.
    PostgresPooled,
    /// A PostgreSQL server with a synchronous standby, which takes its place.
    PostgresStandby,
    /// The same behind a pooler, which goes over to the new primary server.
    PostgresStandbyPooled,
    /// Three members of etcd, with what the locks protect.
    Etcd,
    /// Three servers of ZooKeeper, with what the locks protect.
    #[value(name = "zookeeper")]
    ZooKeeper,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "one server",
            Self::Sentinel => "Sentinel",
            Self::Replicas => "Sentinel, min_replicas = 2",
            Self::Cluster => "Cluster",
            Self::Quorum => "quorum of five",
            Self::Postgres => "PostgreSQL",
            Self::PostgresPooled => "PostgreSQL behind PgBouncer",
            Self::PostgresStandby => "PostgreSQL with a synchronous standby",
            Self::PostgresStandbyPooled => "PostgreSQL with a synchronous standby behind PgBouncer",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
        })
    }
}

impl Topology {
    pub(crate) fn is_redis(self) -> bool {
        !self.has_books()
    }

    /// Whether the store also has what its locks protect.
    pub(crate) fn has_books(self) -> bool {
        let is_alone = matches!(
            self,
            Self::Postgres | Self::PostgresPooled | Self::Etcd | Self::ZooKeeper
        );
        is_alone || self.has_standby()
    }

    /// The time after which others get the locks of a silent process.
    pub(crate) fn silence(self) -> Duration {
        match self {
            // It rounds up to whole seconds.
            Self::Etcd => Duration::from_secs(2),
            // It ends sessions at the next tick.
            Self::ZooKeeper => SESSION + ZooKeepers::TICK,
            _ => TTL,
        }
    }

    /// Whether it is PostgreSQL with a standby.
    pub(crate) fn has_standby(self) -> bool {
        matches!(self, Self::PostgresStandby | Self::PostgresStandbyPooled)
    }

    /// Whether it is PostgreSQL behind a pooler.
    pub(crate) fn is_pooled(self) -> bool {
        matches!(self, Self::PostgresPooled | Self::PostgresStandbyPooled)
    }
}

/// One way to break something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
pub(crate) enum Kind {
    HolderKilled,
    WaiterKilled,
    HolderStopped,
    HolderStoppedBriefly,
    WaiterStopped,
    ConnectionsCut,
    ConnectionsRefused,
    NetworkSilent,
    RepliesLate,
    ReplyLost,
    RequestLost,
    ScriptsFlushed,
    ClientsKilled,
    ClientsPaused,
    MemoryFull,
    ReadOnly,
    WritesRefused,
    ScriptHangs,
    ServerStopped,
    ServersOut,
    ReplicaKilled,
    SentinelKilled,
    SentinelStopped,
    SlotMoved,
    FailOverAsked,
    MasterKilled,
    MasterStopped,
    ServerEmptied,
    DataFlushed,
    ServerKilled,
    PoolerKilled,
    BackendsTerminated,
    StatementsCancelled,
    TablesLocked,
    StandbyKilled,
    StandbyStopped,
    PrimaryKilled,
    PrimaryReplaced,
    MemberKilled,
    MemberStopped,
    LeaderKilled,
    LeaderStopped,
    LeaderIsolated,
    MajorityKilled,
    MajorityStopped,
    EnsembleKilled,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HolderKilled => "a holder killed",
            Self::WaiterKilled => "a waiter killed",
            Self::HolderStopped => "a holder stopped beyond its lease",
            Self::HolderStoppedBriefly => "a holder stopped within its lease",
            Self::WaiterStopped => "a waiter stopped beyond a lease",
            Self::ConnectionsCut => "connections cut",
            Self::ConnectionsRefused => "connections cut and refused",
            Self::NetworkSilent => "connections silent",
            Self::RepliesLate => "replies held back",
            Self::ReplyLost => "the reply to a request lost",
            Self::RequestLost => "a request lost",
            Self::ScriptsFlushed => "scripts flushed",
            Self::ClientsKilled => "CLIENT KILL",
            Self::ClientsPaused => "CLIENT PAUSE",
            Self::MemoryFull => "memory full",
            Self::ReadOnly => "a server read-only",
            Self::WritesRefused => "too few replicas to write",
            Self::ScriptHangs => "a script that hangs",
            Self::ServerStopped => "a server stopped",
            Self::ServersOut => "a minority killed, empty after a TTL",
            Self::ReplicaKilled => "a replica killed",
            Self::SentinelKilled => "a Sentinel killed",
            Self::SentinelStopped => "a Sentinel stopped",
            Self::SlotMoved => "a slot moved",
            Self::FailOverAsked => "a fail-over asked for",
            Self::MasterKilled => "a master killed",
            Self::MasterStopped => "a master stopped",
            Self::ServerEmptied => "a server killed, empty at once",
            Self::DataFlushed => "FLUSHALL",
            Self::ServerKilled => "a server killed, its data kept",
            Self::PoolerKilled => "the pooler killed",
            Self::BackendsTerminated => "backends terminated",
            Self::StatementsCancelled => "statements cancelled",
            Self::TablesLocked => "the table of leases locked",
            Self::StandbyKilled => "the standby killed",
            Self::StandbyStopped => "the standby stopped",
            Self::PrimaryKilled => "the primary killed, its standby promoted",
            Self::PrimaryReplaced => "the same, but it still serves for a while",
            Self::MemberKilled => "a follower killed",
            Self::MemberStopped => "a follower stopped",
            Self::LeaderKilled => "the leader killed",
            Self::LeaderStopped => "the leader stopped",
            Self::LeaderIsolated => "the leader separated from the others",
            Self::MajorityKilled => "a majority killed",
            Self::MajorityStopped => "a majority stopped",
            Self::EnsembleKilled => "all members killed",
        })
    }
}

/// Faults of connections that have a proxy in their middle.
const NETWORK: [Kind; 6] = [
    Kind::ConnectionsCut,
    Kind::ConnectionsRefused,
    Kind::NetworkSilent,
    Kind::RepliesLate,
    Kind::ReplyLost,
    Kind::RequestLost,
];

impl Kind {
    /// All that can be done where the servers belong together like that.
    pub(crate) fn of(topology: Topology) -> Vec<Self> {
        use Kind as K;
        let mut kinds = vec![
            K::HolderKilled,
            K::WaiterKilled,
            K::HolderStopped,
            K::HolderStoppedBriefly,
            K::WaiterStopped,
        ];
        let orders_of_redis = [
            K::ScriptsFlushed,
            K::ClientsKilled,
            K::ClientsPaused,
            K::MemoryFull,
            K::WritesRefused,
            K::DataFlushed,
        ];
        if topology.is_redis() {
            kinds.extend(orders_of_redis);
        }
        // Sentinels and nodes of a cluster know each other by their own addresses, and take a stopped
        // server for dead.
        let independent = [
            K::ReadOnly,
            K::ScriptHangs,
            K::ServerStopped,
            K::ServerEmptied,
        ];
        let replicated = [
            K::ReplicaKilled,
            K::FailOverAsked,
            K::MasterKilled,
            K::MasterStopped,
        ];
        match topology {
            Topology::Single => {
                kinds.extend(NETWORK);
                kinds.extend(independent);
            }
            Topology::Quorum => {
                kinds.extend(NETWORK);
                kinds.extend(independent);
                kinds.push(K::ServersOut);
            }
            Topology::Sentinel | Topology::Replicas => {
                kinds.extend(replicated);
                kinds.extend([K::SentinelKilled, K::SentinelStopped]);
            }
            Topology::Cluster => {
                kinds.extend(replicated);
                kinds.push(K::SlotMoved);
            }
            Topology::Postgres
            | Topology::PostgresPooled
            | Topology::PostgresStandby
            | Topology::PostgresStandbyPooled => {
                kinds.extend(NETWORK);
                kinds.extend([
                    K::ServerStopped,
                    K::ServerKilled,
                    K::BackendsTerminated,
                    K::StatementsCancelled,
                    K::TablesLocked,
                ]);
                if topology.is_pooled() {
                    kinds.push(K::PoolerKilled);
                }
                if topology.has_standby() {
                    kinds.extend([
                        K::StandbyKilled,
                        K::StandbyStopped,
                        K::PrimaryKilled,
                        K::PrimaryReplaced,
                    ]);
                }
            }
            Topology::Etcd | Topology::ZooKeeper => {
                kinds.extend(NETWORK);
                kinds.extend([
                    K::MemberKilled,
                    K::MemberStopped,
                    K::LeaderKilled,
                    K::LeaderStopped,
                    K::LeaderIsolated,
                    K::MajorityKilled,
                    K::MajorityStopped,
                    K::EnsembleKilled,
                ]);
            }
        }
        kinds
    }

    /// Whether leases may be forgotten by it, so that exclusion is not promised. `docs/book/src/explanation/guarantees.md`
    /// says so for each.
    pub(crate) fn forgets(self, topology: Topology) -> bool {
        match self {
            Self::ServerEmptied | Self::DataFlushed => true,
            // Writes that a replica has not received by then are lost.
            Self::MasterKilled | Self::MasterStopped => topology != Topology::Replicas,
            // In a cluster the old master waits until its replica has all.
            Self::FailOverAsked => topology == Topology::Sentinel,
            _ => false,
        }
    }
}

/// A fault that was made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// When it began, by the machine's clock.
    pub(crate) began: Duration,
    /// When it had been mended and every lock had been had again.
    pub(crate) over: Duration,
    /// Whether it met anything.
    pub(crate) was_felt: bool,
    /// Whether a lease may have been forgotten meanwhile.
    pub(crate) forgets: bool,
}
