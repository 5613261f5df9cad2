//! Reads locks and processes from every server, and makes one picture of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use super::Inspector;
use crate::{
    admin::{
        LockInfo, Overview, ProcessInfo,
        merge::{self, At},
    },
    key::LockKey,
    owner::ClientId,
    store::{
        StoreError,
        redis::{LockSnapshot, Presence, Survey, Wanted},
    },
};

impl Inspector {
    /// Lists the locks that are held or waited for, in the order of their keys; with a `pattern` those
    /// whose keys match it, where `*`, `?`, `[a-z]` and `\` mean what they do in Redis's `SCAN`.
    ///
    /// It goes through all keys of the server, a thousand in a step, so that other clients do not
    /// have to wait. All such looks of an inspector together take a server at most 5 % of its time,
    /// by its own clock: a million other keys take about 20 s, or one without [that
    /// pace](Self::at_full_speed). A lock that comes or goes meanwhile may be listed or not. The
    /// first 4096 waiters of a lock are listed, and all are counted. A string of a third-party
    /// client is a lock as well, but with raw keys only if it has waiters; data of other types is
    /// left out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not answer; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, however far it has got.
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

    /// Lists those of the given locks that are held or waited for, in the order of their keys. This costs
    /// no walk through the keys of a server, and otherwise keeps to the same pace as
    /// [`locks`](Self::locks).
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not answer; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, however far it has got.
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

    /// Lists all [locks](Self::locks) and all [processes](Self::processes) with one walk through the keys instead
    /// of two.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not answer; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, however far it has got.
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

    /// Returns one lock; `None` if it has neither a holder nor waiters.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the server does not answer, of a quorum when none does; and of the kind
    /// [`WrongType`](crate::StoreErrorKind::WrongType) if the value there is not a lock.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
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

    /// Lists the processes that have a manager, in the order of their labels: each publishes its
    /// presence every ten seconds, and is forgotten after thirty.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not answer; of a quorum, when none does.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
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

    /// Locks and processes from all servers, and the number of servers that answered.
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

    /// Describes locks by their snapshots, with the processes that hold and wait for them.
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
        // The names of processes are useful, but the locks are shown without them too.
        let told = of_some(join_all(asked).await).unwrap_or_default();
        known.extend(told.into_iter().flat_map(|(_, known)| known));
        let majority = self.stores.len() / 2 + 1;
        let locks = by_key.into_iter();
        locks
            .map(|(key, snapshots)| merge::lock(&key, snapshots, servers, majority, &known))
            .collect()
    }
}

/// The snapshots of each lock, at each server.
type Snapshots = BTreeMap<LockKey, Vec<At<LockSnapshot>>>;

/// The presences that processes have published.
type Presences = BTreeMap<ClientId, Presence>;

/// Adds the snapshots of one server.
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

/// The answers with the numbers of their servers; an error if there is no answer.
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
