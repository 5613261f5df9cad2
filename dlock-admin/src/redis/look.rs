//! Reads locks and processes from every server, and merges them.

use std::collections::{BTreeMap, BTreeSet};

use dlock_runtime::{
    LockKey,
    admin::{LockSnapshot, Presence, Survey, Wanted},
    store::{ClientId, StoreError},
};
use futures_util::future::join_all;

use super::{
    Inspector,
    merge::{self, At},
};
use crate::model::{LockInfo, Overview, ProcessInfo};

impl Inspector {
    /// Lists the locks of all servers that match.
    pub(super) async fn list(&self, pattern: Option<&str>) -> Result<Vec<LockInfo>, StoreError> {
        let wanted = Wanted::Locks(pattern.unwrap_or("*"));
        let (locks, known, servers) = self.survey(wanted).await?;
        Ok(self.describe(locks, known, servers).await)
    }

    /// Lists those of the given locks that have a holder or waiters.
    pub(super) async fn list_of(&self, keys: &[LockKey]) -> Result<Vec<LockInfo>, StoreError> {
        let asked = self.readers.iter().map(|reader| reader.snapshots_of(keys));
        let told = of_some(join_all(asked).await)?;
        let servers = told.len();
        let mut snapshots = Snapshots::new();
        for (server, found) in told {
            collect(&mut snapshots, server, found);
        }
        Ok(self.describe(snapshots, Presences::new(), servers).await)
    }

    /// Lists all locks and all processes in one walk through the keys.
    pub(super) async fn survey_all(&self) -> Result<Overview, StoreError> {
        let (locks, known, servers) = self.survey(Wanted::All).await?;
        let processes = sorted(known.clone());
        let locks = self.describe(locks, known, servers).await;
        Ok(Overview {
            locks,
            process_count: Some(processes.len()),
            processes,
        })
    }

    /// Passes the locks on as they are read. The servers of a quorum have to be merged before.
    pub(super) async fn list_in_parts(
        &self,
        pattern: Option<&str>,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<(), StoreError> {
        let [reader] = self.readers.as_slice() else {
            part(self.list(pattern).await?);
            return Ok(());
        };
        let wanted = Wanted::Locks(pattern.unwrap_or("*"));
        reader.survey_in_parts(wanted, &mut described(part)).await?;
        Ok(())
    }

    /// Does the same for all locks, and returns the processes.
    pub(super) async fn survey_all_in_parts(
        &self,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<Overview, StoreError> {
        let [reader] = self.readers.as_slice() else {
            let mut seen = self.survey_all().await?;
            part(std::mem::take(&mut seen.locks));
            return Ok(seen);
        };
        let mut part = described(part);
        let known = reader.survey_in_parts(Wanted::All, &mut part).await?;
        let processes = sorted(known);
        Ok(Overview {
            locks: Vec::new(),
            process_count: Some(processes.len()),
            processes,
        })
    }

    /// Returns one lock, or `None` if it has neither a holder nor waiters.
    pub(super) async fn read_one(&self, key: &LockKey) -> Result<Option<LockInfo>, StoreError> {
        let asked = self.readers.iter().map(|reader| reader.snapshot(key));
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

    /// Lists the processes that have a manager, in the order of their labels. Each process publishes a record
    /// of itself every ten seconds; a record expires after thirty.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server does not answer; in a quorum, when no server answers.
    ///
    /// # Cancel safety
    ///
    /// The method changes nothing, so the future can be dropped at any time.
    ///
    /// ```no_run
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

    /// Returns the locks and processes of all servers, and the number of servers that answered.
    async fn survey(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<(Snapshots, Presences, usize), StoreError> {
        let asked = self.readers.iter().map(|reader| reader.survey(wanted));
        let told = of_some(join_all(asked).await)?;
        let servers = told.len();
        let (mut snapshots, mut known) = (Snapshots::new(), Presences::new());
        for (server, Survey { locks, processes }) in told {
            collect(&mut snapshots, server, locks);
            known.extend(processes);
        }
        Ok((snapshots, known, servers))
    }

    /// Describes locks by their snapshots, together with the processes that hold and await them.
    async fn describe(
        &self,
        by_key: Snapshots,
        mut known: Presences,
        servers: usize,
    ) -> Vec<LockInfo> {
        let clients: BTreeSet<_> = by_key
            .values()
            .flatten()
            .flat_map(|snapshot| snapshot.it.clients())
            .filter(|client| !known.contains_key(client))
            .collect();
        let asked = self.readers.iter();
        let asked = asked.map(|reader| reader.presences(&clients));
        // The names of processes are optional: locks are listed without them too.
        let told = of_some(join_all(asked).await).unwrap_or_default();
        known.extend(told.into_iter().flat_map(|(_, known)| known));
        let majority = self.readers.len() / 2 + 1;
        let locks = by_key.into_iter();
        locks
            .map(|(key, snapshots)| merge::lock(&key, snapshots, servers, majority, &known))
            .collect()
    }
}

/// Describes the locks of one server before it passes them on.
fn described(
    part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
) -> impl FnMut(BTreeMap<LockKey, LockSnapshot>, &Presences) + Send {
    move |found, known| {
        let locks = found.into_iter();
        let lock = |(key, it)| merge::lock(&key, vec![At { server: 0, it }], 1, 1, known);
        part(locks.map(lock).collect());
    }
}

/// The snapshots of each lock, on each server.
type Snapshots = BTreeMap<LockKey, Vec<At<LockSnapshot>>>;

/// The records that processes have published.
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

/// Returns the answers with the numbers of their servers, or an error if there is no answer.
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
