//! Looks at the locks in a server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::future::join_all;

use super::{
    ClockReading, Denied, HandOffs, LockInfo, Overview, ProcessInfo, ReplicaReport, ServerReport,
    Unlocked,
    merge::{self, At},
};
use crate::{
    error::ConnectError,
    key::LockKey,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{
        StoreError, StoreErrorKind,
        redis::{
            Facts, Independent, Listener, LockSnapshot, Presence, RedisConfig, RedisStore, Survey,
            Wanted,
        },
    },
};

/// Looks at the locks of a namespace in one server, the master that Sentinels name, a cluster, or a
/// quorum of independent servers; and takes one away from its holder.
///
/// ```no_run
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{admin::Inspector, store::redis::RedisConfig};
///
/// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
/// for lock in inspector.locks(Some("order:*")).await? {
///     println!("{}: {:?}, {} wait", lock.key, lock.holder, lock.waiter_count);
/// }
/// # Ok(()) }
/// ```
pub struct Inspector {
    /// One, or those of a quorum.
    stores: Vec<RedisStore>,
    of_quorum: bool,
    /// Under whose name locks are taken away.
    me: ClientId,
    unlocked: AtomicU64,
}

impl Inspector {
    /// Connects to the servers of `config`, and waits until they answer: of a quorum a majority, or
    /// some of them if there is none.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is wrong, or no server answers in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let mut config = RedisConfig::new("redlock://one,two,three");
    /// config.namespace = "billing".to_owned();
    /// let inspector = Inspector::connect(config).await?;
    /// # drop(inspector);
    /// # Ok(()) }
    /// ```
    pub async fn connect(config: RedisConfig) -> Result<Self, ConnectError> {
        let (stores, of_quorum) = match Independent::for_inspection(&config)? {
            Some(servers) => (servers.into_stores(config.connect_timeout).await?, true),
            None => (vec![RedisStore::for_inspection(config).await?], false),
        };
        Ok(Self {
            stores,
            of_quorum,
            me: ClientId::new(&SystemRandom),
            unlocked: AtomicU64::new(0),
        })
    }

    /// The locks that are held or waited for, in the order of their keys; with a `pattern` those whose
    /// keys match it, where `*`, `?`, `[a-z]` and `\` mean what they do in Redis's `SCAN`.
    ///
    /// It goes through all keys of the server, a thousand in a step, so that nobody else has to
    /// wait. All such looks of an inspector together take a server at most 5 % of its time, by its own clock: a
    /// million keys of others take about 20 s, or one without [that pace](Self::at_full_speed).
    /// What comes or goes meanwhile may be seen or not. Of one lock the first 4096 waiters
    /// are told, and how many there are. A string of another client is a lock as well, but with raw keys only if somebody
    /// waits for it; data of other types is left out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not tell; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it, however far it has got.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// for lock in inspector.locks(Some("order:*")).await? {
    ///     println!("{}: {} wait", lock.key, lock.waiter_count);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn locks(&self, pattern: Option<&str>) -> Result<Vec<LockInfo>, StoreError> {
        let wanted = Wanted::Locks(pattern.unwrap_or("*"));
        let (locks, known, servers) = self.survey(wanted).await?;
        Ok(self.describe(locks, known, servers).await)
    }

    /// Those of some locks that are held or waited for, in the order of their keys. A look at them costs no
    /// walk through the keys of a server, and else goes by the same pace as [`locks`](Self::locks).
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not tell; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it, however far it has got.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockKey, admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let keys = [LockKey::new("order:42")?, LockKey::new("order:43")?];
    /// for lock in inspector.locks_of(&keys).await? {
    ///     println!("{}: {} wait", lock.key, lock.waiter_count);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn locks_of(&self, keys: &[LockKey]) -> Result<Vec<LockInfo>, StoreError> {
        let asked = self.stores.iter().map(|store| store.snapshots_of(keys));
        let told = of_some(join_all(asked).await)?;
        let servers = told.len();
        let mut snapshots = Snapshots::new();
        for (server, found) in told {
            collect(&mut snapshots, server, found);
        }
        Ok(self.describe(snapshots, Presences::new(), servers).await)
    }

    /// All [locks](Self::locks) and all [processes](Self::processes) with one walk through the keys instead
    /// of two.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not tell; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it, however far it has got.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let seen = inspector.overview().await?;
    /// println!("{} locks, {} processes", seen.locks.len(), seen.processes.len());
    /// # Ok(()) }
    /// ```
    pub async fn overview(&self) -> Result<Overview, StoreError> {
        let (locks, known, servers) = self.survey(Wanted::All).await?;
        let processes = sorted(known.clone());
        let locks = self.describe(locks, known, servers).await;
        Ok(Overview { locks, processes })
    }

    /// From now on looks at all locks take the servers as much of their time as they can get, one step of
    /// about a millisecond after the other, instead of 5 %.
    ///
    /// For a single look at servers that have time to spare.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let locks = inspector.at_full_speed().locks(None).await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn at_full_speed(self) -> Self {
        self.stores.iter().for_each(|store| store.pace().lift());
        self
    }

    /// How much of a walk through all keys is done, from 0 to 1; `None` while none is under way.
    ///
    /// It is what the server's cursor says, or in a cluster how many nodes are done. Of a quorum it is the
    /// server that is behind the others.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let mut ticks = tokio::time::interval(Duration::from_secs(1));
    /// let look = inspector.locks(None);
    /// tokio::pin!(look);
    /// let locks = loop {
    ///     tokio::select! {
    ///         locks = &mut look => break locks?,
    ///         _ = ticks.tick() => {
    ///             let part = inspector.progress().unwrap_or_default();
    ///             println!("{:.0} %", part * 100.0);
    ///         }
    ///     }
    /// };
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        let of_stores = self
            .stores
            .iter()
            .filter_map(|store| store.pace().progress());
        of_stores.min_by(f64::total_cmp)
    }

    /// One lock; `None` if nobody holds it or waits for it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the server does not tell, of a quorum when none does; and of the kind
    /// [`WrongType`](crate::StoreErrorKind::WrongType) if what lies there is no lock.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    /// use dlock::LockKey;
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// match inspector.lock(&LockKey::new("order:42")?).await? {
    ///     Some(lock) => println!("{:?}", lock.holder),
    ///     None => println!("it is free"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lock(&self, key: &LockKey) -> Result<Option<LockInfo>, StoreError> {
        let asked = self.stores.iter().map(|store| store.snapshot(key));
        let told = of_some(join_all(asked).await)?;
        let servers = told.len();
        let snapshots = told.into_iter();
        let snapshots: Vec<_> = snapshots
            .filter_map(|(server, snapshot)| {
                Some(At {
                    server,
                    it: snapshot?,
                })
            })
            .collect();
        if snapshots.is_empty() {
            return Ok(None);
        }
        let by_key = BTreeMap::from([(key.clone(), snapshots)]);
        Ok(self.describe(by_key, Presences::new(), servers).await.pop())
    }

    /// The processes that have a manager, in the order of their labels: each says every ten seconds
    /// that it is there, and is forgotten after thirty.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not tell; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// for process in inspector.processes().await? {
    ///     println!("{} has dlock {}", process.label, process.version);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, StoreError> {
        let (_, known, _) = self.survey(Wanted::Processes).await?;
        Ok(sorted(known))
    }

    /// Takes a lock away from who was `seen` with it, if it is still that lease, and gives it to the
    /// first waiter.
    ///
    /// The fence of the slot is raised first, so a resource that checks fencing tokens refuses what
    /// the old holder still writes as soon as it has seen a newer one. The holder is told,
    /// and its body ends as [`Lost`](crate::LockError::Lost) within about a round trip; if it
    /// cannot be told, with its next renewal. A lease that is not renewed ends for its holder only
    /// at its deadline: until then two may run. So it is with another client, who is not told.
    ///
    /// Of a lease that was renewed or handed on inside its process since it was seen, it is still
    /// the same. Another client's lock is known by its whole value.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server did not tell, or so many of a quorum did not when the lock was looked
    /// at that it may still be held: it may have been done. Look again.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its answer, it may be done or not; at each server it is one step.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    /// use dlock::LockKey;
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// if let Some(seen) = inspector.lock(&LockKey::new("order:42")?).await? {
    ///     // Not whoever has it by then: only the lease that was seen is ended.
    ///     println!("{:?}", inspector.unlock(&seen).await?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn unlock(&self, seen: &LockInfo) -> Result<Unlocked, StoreError> {
        let Ok(key) = LockKey::new(&seen.key) else {
            return Ok(Unlocked::Changed);
        };
        let me = OwnerId::new(self.me, self.unlocked.fetch_add(1, Ordering::Relaxed));
        let known = seen.seen.iter();
        let known = known.filter_map(|(server, lease)| Some((self.stores.get(*server)?, lease)));
        let (mut taken, mut handed_on, mut failure) = (0, false, None);
        let asked = known.map(|(store, lease)| store.unlock(&key, me, lease));
        for answer in join_all(asked).await {
            match answer {
                Ok(None) => {}
                Ok(Some(to_waiter)) => {
                    taken += 1;
                    handed_on |= to_waiter;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let majority = self.stores.len() / 2 + 1;
        let left = seen.seen.len() - taken;
        // Those that did not tell when the lock was looked at may be of the lease too.
        let untold = self.stores.len().saturating_sub(seen.servers);
        match failure {
            Some(error) if taken == 0 || left + untold >= majority => Err(error),
            _ if taken == 0 || left >= majority => Ok(Unlocked::Changed),
            _ if left + untold >= majority => Err(too_few(seen.servers, self.stores.len())),
            _ if handed_on => Ok(Unlocked::HandedOn),
            _ => Ok(Unlocked::Freed),
        }
    }

    /// What waiters are told from now on: who gets which lock. In a quorum a waiter is only told that
    /// it may ask, and so is a holder whose lock was taken away.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server, of a quorum all of them, cannot be listened to.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let mut hand_offs = inspector.hand_offs().await?;
    /// while let Some(hand_off) = hand_offs.next().await {
    ///     println!("{} goes to {}", hand_off.key, hand_off.owner);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn hand_offs(&self) -> Result<HandOffs, StoreError> {
        let listener = Listener::open(&self.stores).await?;
        Ok(HandOffs::new(listener, self.of_quorum))
    }

    /// What each server tells of itself: its settings, its clock, how long it takes to answer, and what
    /// the user is not allowed to do. That is tried out on a key and a channel that nobody
    /// uses, and changes nothing; the server's own log may note what it has refused.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed by it.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// for report in inspector.servers().await {
    ///     println!("{}: {} rights are missing", report.server, report.denied.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn servers(&self) -> Vec<ServerReport> {
        let told = join_all(self.stores.iter().map(RedisStore::facts)).await;
        told.into_iter().flatten().map(report).collect()
    }

    /// What is found in all servers, and how many tell.
    async fn survey(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<(Snapshots, Presences, usize), StoreError> {
        let asked = self.stores.iter().map(|store| store.survey(wanted));
        let told = of_some(join_all(asked).await)?;
        let servers = told.len();
        let (mut snapshots, mut known) = (Snapshots::new(), Presences::new());
        for (server, Survey { locks, processes }) in told {
            collect(&mut snapshots, server, locks);
            known.extend(processes);
        }
        Ok((snapshots, known, servers))
    }

    /// What has been seen of locks, with the processes that are in it.
    async fn describe(
        &self,
        by_key: Snapshots,
        mut known: Presences,
        servers: usize,
    ) -> Vec<LockInfo> {
        let clients: BTreeSet<_> = by_key
            .values()
            .flatten()
            .flat_map(|snapshot| merge::clients(&snapshot.it))
            .filter(|client| !known.contains_key(client))
            .collect();
        let asked = self.stores.iter();
        let asked = asked.map(|store| store.presences(&clients));
        // Who they are is good to know, and no more.
        let told = of_some(join_all(asked).await).unwrap_or_default();
        known.extend(told.into_iter().flat_map(|(_, known)| known));
        let majority = self.stores.len() / 2 + 1;
        let locks = by_key.into_iter();
        locks
            .map(|(key, snapshots)| merge::lock(&key, snapshots, servers, majority, &known))
            .collect()
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

/// What was seen of each lock, at each server.
type Snapshots = BTreeMap<LockKey, Vec<At<LockSnapshot>>>;

/// What processes have said of themselves.
type Presences = BTreeMap<ClientId, Presence>;

/// What one server has shown.
fn collect(snapshots: &mut Snapshots, server: usize, found: BTreeMap<LockKey, LockSnapshot>) {
    for (key, it) in found {
        snapshots.entry(key).or_default().push(At { server, it });
    }
}

fn sorted(known: Presences) -> Vec<ProcessInfo> {
    let known = known.into_iter();
    let mut processes: Vec<_> = known
        .map(|(client, said)| merge::process(client, said))
        .collect();
    processes.sort_by(|one, other| {
        let place = |it: &ProcessInfo| (it.label.clone(), it.started, it.client);
        place(one).cmp(&place(other))
    });
    processes
}

/// What the servers answer, with their numbers; an error if none of them does.
fn of_some<T>(answers: Vec<Result<T, StoreError>>) -> Result<Vec<(usize, T)>, StoreError> {
    let mut failure = None;
    let mut told = Vec::new();
    for (server, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(answer) => told.push((server, answer)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) if told.is_empty() => Err(error),
        _ => Ok(told),
    }
}

fn too_few(told: usize, servers: usize) -> StoreError {
    let message = format!(
        "only {told} of {servers} servers told who holds the lock, and a majority may still hold it for \
         the same"
    );
    StoreError::new(StoreErrorKind::Unreachable, message)
}

fn report(facts: Facts) -> ServerReport {
    let denied = facts.denied.into_iter();
    let denied = denied.map(|(rule, purpose, is_required)| Denied {
        rule,
        purpose: purpose.to_owned(),
        is_required,
    });
    let reading = |(ahead_us, uncertainty)| ClockReading {
        ahead_us,
        uncertainty,
    };
    let replicas = facts.replicas.into_iter();
    let replicas = replicas.map(|(address, clock)| ReplicaReport {
        address,
        clock: clock.map(reading),
    });
    ServerReport {
        server: facts.server,
        failure: facts.failure,
        info: facts.info,
        appendfsync: facts.appendfsync,
        clock: facts.clock.map(reading),
        round_trips: facts.round_trips,
        denied: denied.collect(),
        unpublished: facts.unpublished,
        replicas: replicas.collect(),
    }
}
