//! Starts and breaks real servers, connections and processes for the tests of dlock.
//!
//! [`RedisServer`] runs a server of the test's own, [`Sentinels`] several of which one is the
//! master, [`Cluster`] several that share slots. [`PostgresServer`] is a PostgreSQL, [`PgBouncer`] a pooler
//! before one. [`EtcdServer`] is an etcd, [`EtcdEnsemble`] three of them, [`MemcachedServer`] a memcached, and
//! [`ZooKeepers`] an ensemble of ZooKeeper, and [`SecureZooKeeper`] one server of it with TLS. [`Ensemble`] breaks the
//! servers of both, [`Proxy`] makes the network in front of one misbehave, [`Worker`] is a second process, [`Browser`] a Chromium with a [`Page`] for each test, and [`machine_time`] puts in order what several
//! processes did. [`eventually`] waits for a condition, [`within`] for a future, [`poll_times`]
//! drops a future at a chosen await; [`WallClock`] is a clock of a process that a test sets, [`Disk`] a disk
//! that it fills or slows down.
//!
//! A failure of this crate is a failure of the test, so its functions panic with what went
//! wrong instead of returning errors. It needs a Unix system: a paused server is a stopped
//! process.
#![allow(
    clippy::missing_panics_doc,
    reason = "every function here panics when the test cannot go on; the crate docs say so"
)]

mod browser;
mod child;
mod clock;
mod cluster;
mod data;
mod disk;
mod ensemble;
mod etcd;
pub mod log;
mod machine_time;
mod memcached;
mod pool;
mod port;
mod postgres;
mod process;
mod program;
mod proxy;
mod reaper;
mod sentinel;
mod server;
mod tls;
mod tls_sentinel;
mod zookeeper;

pub use browser::{Browser, Page};
pub use clock::WallClock;
pub use cluster::Cluster;
pub use disk::Disk;
pub use dlock_waiting::{Polled, eventually, poll_times, poll_times_then_wake, within};
pub use ensemble::{Ensemble, hosts};
pub use etcd::{EtcdBackup, EtcdEnsemble, EtcdGrpcProxy, EtcdOptions, EtcdServer, etcd_call};
pub use machine_time::machine_time;
pub use memcached::MemcachedServer;
pub use pool::Pooled;
pub use postgres::{PgBouncer, PostgresOptions, PostgresServer};
pub use process::{Worker, example_path};
pub use program::{EtcdMake, Make, promtool, python, systemd_analyze};
pub use proxy::Proxy;
pub use sentinel::{SentinelShape, Sentinels};
pub use server::{RedisServer, patient};
pub use tls::{Authority, Identity};
pub use tls_sentinel::TlsSentinel;
pub use zookeeper::{CountedRequests, SecureZooKeeper, ZooKeeperBackup, ZooKeepers};
