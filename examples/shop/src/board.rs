//! The locks and their holders, for the page.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use dlock::{
    ConnectError,
    admin::{Inspect as _, Inspector, LockInfo},
    store::{
        StoreError,
        redis::{CredentialsProvider, RedisConfig},
    },
};
use serde::Serialize;
use tokio::{sync::Mutex, time::Instant};

/// The prefix of the keys of `pay`.
const ORDER: &str = "shop:order:";
/// The time for which all tabs share one inspection of the server.
const FRESH: Duration = Duration::from_millis(300);

/// The source of the lock information of this copy.
#[derive(Debug)]
pub(crate) enum Board {
    /// No locks: `--without-lock`.
    Off,
    /// Locks in this process. The page shows no holders.
    Memory,
    Server(Server),
}

#[derive(Debug)]
pub(crate) struct Server {
    inspector: Inspector,
    last: Mutex<Option<(Instant, Locks)>>,
}

/// The lock information for the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Locks {
    kind: Kind,
    /// A sentence for the user.
    note: &'static str,
    /// The copies of the shop that use this server.
    copies: Vec<String>,
    /// The orders that are being paid, with the holder of each lock.
    held: BTreeMap<i64, Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Off,
    Memory,
    Server,
    /// The server did not answer.
    Unknown,
}

#[derive(Clone, Debug, Serialize)]
struct Held {
    by: Option<String>,
    function: Option<String>,
    seconds: Option<u64>,
    waiting: usize,
}

impl Board {
    pub(crate) async fn of_server(url: &str) -> Result<Self, ConnectError> {
        let config = RedisConfig::new(url).credentials(CredentialsProvider::from_env(url)?);
        Ok(Self::Server(Server {
            inspector: Inspector::connect(config).await?,
            last: Mutex::new(None),
        }))
    }

    pub(crate) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    pub(crate) async fn locks(&self) -> Locks {
        match self {
            Self::Off => Locks::note(
                Kind::Off,
                "Payments run without a lock. Press Pay in two tabs, and the provider charges twice.",
            ),
            Self::Memory => Locks::note(
                Kind::Memory,
                "The locks are in the memory of this process. To run several copies of the shop, set \
                 DLOCK_URL to a server.",
            ),
            Self::Server(server) => server.locks().await,
        }
    }
}

impl Locks {
    fn note(kind: Kind, note: &'static str) -> Self {
        Self {
            kind,
            note,
            copies: Vec::new(),
            held: BTreeMap::new(),
        }
    }
}

impl Server {
    async fn locks(&self) -> Locks {
        // An inspection scans the keys of the server, so open tabs share one.
        let mut last = self.last.lock().await;
        if let Some((at, locks)) = &*last
            && at.elapsed() < FRESH
        {
            return locks.clone();
        }
        let was = last.as_ref().map(|(_, locks)| locks.kind);
        let locks = self.look().await.unwrap_or_else(|error| {
            if was != Some(Kind::Unknown) {
                tracing::warn!(%error, "cannot inspect the locks");
            }
            let note = "The lock server does not answer, so holders are not shown. The log of the shop has the reason.";
            Locks::note(Kind::Unknown, note)
        });
        *last = Some((Instant::now(), locks.clone()));
        locks
    }

    async fn look(&self) -> Result<Locks, StoreError> {
        let pattern = format!("{ORDER}*");
        let locks = self.inspector.locks(Some(&pattern)).await?;
        let held = locks.into_iter().filter_map(|lock| {
            let order = lock.key.strip_prefix(ORDER)?.parse().ok()?;
            Some((order, Held::of(lock)?))
        });
        let copies = self.inspector.processes().await?;
        let copies = copies.into_iter().filter_map(|copy| copy.application);
        Ok(Locks {
            copies: copies.filter(|name| name.starts_with("shop-")).collect(),
            held: held.collect(),
            ..Locks::note(Kind::Server, "")
        })
    }
}

impl Held {
    fn of(lock: LockInfo) -> Option<Self> {
        let holder = lock.holder?;
        let process = holder.process.map(|process| process.label);
        // The server's clock may be slightly ahead.
        let held_for = |since: SystemTime| since.elapsed().unwrap_or_default().as_secs();
        Some(Self {
            by: holder.label.or(process),
            function: holder.function,
            seconds: holder.since.map(held_for),
            waiting: lock.waiter_count,
        })
    }
}
