//! Who holds what, for the page.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use dlock::{
    ConnectError,
    admin::{Inspector, LockInfo},
    store::{
        StoreError,
        redis::{CredentialsProvider, RedisConfig},
    },
};
use serde::Serialize;
use tokio::{sync::Mutex, time::Instant};

/// What the keys of `pay` begin with.
const ORDER: &str = "shop:order:";
/// For how long all tabs share one look at the server.
const FRESH: Duration = Duration::from_millis(300);

/// Where this copy looks for locks.
#[derive(Debug)]
pub(crate) enum Board {
    /// There are none: `--without-lock`.
    Off,
    /// In this process, of which the page can say no more than that.
    Memory,
    Server(Server),
}

#[derive(Debug)]
pub(crate) struct Server {
    inspector: Inspector,
    last: Mutex<Option<(Instant, Locks)>>,
}

/// What the page is told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Locks {
    kind: Kind,
    /// For people.
    note: &'static str,
    /// The copies that take their locks there.
    copies: Vec<String>,
    /// Who pays which order.
    held: BTreeMap<i64, Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Off,
    Memory,
    Server,
    /// The server has not answered.
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
                "Payments run without a lock: press Pay in two tabs, and the provider charges \
                 twice.",
            ),
            Self::Memory => Locks::note(
                Kind::Memory,
                "Locks are in the memory of this one process. Several copies of the shop need a \
                 server to meet at, which DLOCK_URL names.",
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
        // To look for locks is to go through the keys of the server: not once for each open tab.
        let mut last = self.last.lock().await;
        if let Some((at, locks)) = &*last
            && at.elapsed() < FRESH
        {
            return locks.clone();
        }
        let was = last.as_ref().map(|(_, locks)| locks.kind);
        let locks = self.look().await.unwrap_or_else(|error| {
            if was != Some(Kind::Unknown) {
                tracing::warn!(%error, "who holds what cannot be told");
            }
            let note = "The lock server does not say who holds what; the log of the shop says why.";
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
        // The server's clock may be a little ahead of ours.
        let held_for = |since: SystemTime| since.elapsed().unwrap_or_default().as_secs();
        Some(Self {
            by: holder.label.or(process),
            function: holder.function,
            seconds: holder.since.map(held_for),
            waiting: lock.waiter_count,
        })
    }
}
