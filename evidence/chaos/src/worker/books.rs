//! Transactions of a task in the store that keeps the locks, which rely on its lease.

mod etcd;
mod ledger;
mod postgres;
mod zookeeper;

use std::{future::Future, time::Duration};

use dlock::{Lease, LockError, LockManager};
use dlock_history::Mode;
use tokio_postgres::IsolationLevel;

use etcd::InEtcd;
use postgres::InPostgres;
use zookeeper::InZooKeeper;

/// No fault lasts that long.
const LIMIT: Duration = Duration::from_secs(15);

/// The transactions of one task, with a connection of their own.
pub(crate) enum Books {
    Postgres(Box<InPostgres>),
    Etcd(InEtcd),
    ZooKeeper(InZooKeeper),
}

/// The subject of a transaction.
pub(crate) struct Posting<'a> {
    pub(crate) who: [u32; 2],
    /// Without one, the transaction relies on nothing.
    pub(crate) lease: Option<&'a Lease>,
    /// The keys with the modes in which they are held, and their tokens.
    pub(crate) keys: Vec<(String, Mode, i64)>,
    pub(crate) cents: i64,
}

/// How a transaction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A fault explains it.
    Explained(String),
    /// A reader has seen what no reader may see.
    Unbalanced(String),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        use LockError as E;
        let how = match error {
            E::Busy { .. } => "busy",
            E::Unavailable { .. } => "unavailable",
            E::Lost { .. } => "lost",
            other => panic!("no fault explains this: {other}"),
        };
        Self::Explained(how.to_owned())
    }
}

fn no_answer() -> Failure {
    Failure::Explained("transaction: no answer".to_owned())
}

fn not_held() -> Failure {
    Failure::Explained("lease not found".to_owned())
}

impl Books {
    /// Those in the store of this URL; `None` if it has none. Transactions check their leases if they are fenced.
    pub(crate) fn of(url: &str, is_fenced: bool, manager: &LockManager) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (hosts, _) = rest.split_once('?').unwrap_or((rest, ""));
        match scheme {
            "postgres" => {
                let books = InPostgres::new(url, is_fenced, manager.clone());
                Some(Self::Postgres(Box::new(books)))
            }
            "etcd" => Some(Self::Etcd(InEtcd::new(hosts, is_fenced))),
            "zookeeper" => Some(Self::ZooKeeper(InZooKeeper::new(hosts, is_fenced))),
            _ => None,
        }
    }

    /// Reads the accounts, works, and then writes those of keys that are held exclusively; the others must not have
    /// changed meanwhile. The work is done whatever becomes of the transaction.
    pub(crate) async fn post(
        &self,
        posting: Posting<'_>,
        level: IsolationLevel,
        work: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        match self {
            Self::Postgres(books) => books.post(posting, level, work).await,
            Self::Etcd(books) => ledger::post(books, posting, work).await,
            Self::ZooKeeper(books) => ledger::post(books, posting, work).await,
        }
    }

    /// The same under a lock that ends with the transaction; `None` if the store has no such locks.
    pub(crate) async fn post_locked(
        &self,
        key: &str,
        entry: ([u32; 2], i64),
        level: IsolationLevel,
        pace: Duration,
    ) -> Option<Result<(), Failure>> {
        match self {
            Self::Postgres(books) => Some(books.post_locked(key, entry, level, pace).await),
            Self::Etcd(_) | Self::ZooKeeper(_) => None,
        }
    }
}
