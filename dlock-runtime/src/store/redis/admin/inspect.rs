//! Inspects locks for operators, and force-releases them.

mod pace;
mod scan;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;
use tokio::time::Instant;

pub(super) use self::pace::InspectPace;
pub(crate) use self::scan::escaped;
pub(in crate::store::redis) use self::snapshot::read_snapshot;
pub use self::snapshot::{HolderSnapshot, LeaseIdentity, LockSnapshot, WaiterSnapshot};
use self::{
    pace::{Cost, run_timed},
    scan::Scan,
};
use super::{presence::Presence, reader::RedisReader};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            protocol::{
                answers::{self, AfterUnlock},
                command::Command,
                names,
            },
            topology::servers::{MasterNode, Servers},
        },
    },
};

/// The number of records of processes that are read in one write.
const RECORDS_AT_ONCE: usize = 64;

/// The objects of an inspection.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Locks whose keys match.
    Locks(&'a str),
    Processes,
    All,
}

/// The result of an inspection.
#[derive(Debug, Default)]
pub struct Survey {
    /// The locks that are held or waited for.
    pub locks: BTreeMap<LockKey, LockSnapshot>,
    /// The processes that have written their record.
    pub processes: BTreeMap<ClientId, Presence>,
}

/// Takes some locks, and the processes that have been read so far.
pub type PassOn<'a> =
    dyn FnMut(BTreeMap<LockKey, LockSnapshot>, &BTreeMap<ClientId, Presence>) + Send + 'a;

/// The maximum number of waiters that are listed for one lock, and of holders that share it, so that the listing does
/// not block a server.
const MOST_LISTED: usize = 4096;

impl RedisReader {
    /// Reads all keys of all servers: once, or twice if locks are stored at their own names.
    pub async fn survey(&self, wanted: Wanted<'_>) -> Result<Survey, StoreError> {
        self.walk(wanted, None).await
    }

    /// Does the same, and passes the locks on after each step, with the processes that hold and await them. A lock may be passed
    /// on twice. Returns the processes.
    pub async fn survey_in_parts(
        &self,
        wanted: Wanted<'_>,
        part: &mut PassOn<'_>,
    ) -> Result<BTreeMap<ClientId, Presence>, StoreError> {
        Ok(self.walk(wanted, Some(part)).await?.processes)
    }

    /// Reads all keys.
    async fn walk(
        &self,
        wanted: Wanted<'_>,
        mut part: Option<&mut PassOn<'_>>,
    ) -> Result<Survey, StoreError> {
        let mut found = Survey::default();
        let mut named = BTreeSet::new();
        let walk = self.pace.walk();
        let masters = self.masters()?;
        let scans = self.scans(wanted);
        // The cursor of a cluster's node also contains slots.
        let tells = !matches!(*self.store.servers, Servers::Cluster(_));
        let (mut done, all) = (0.0, masters.len() * scans.len());
        let all = f64::from(u32::try_from(all).unwrap_or(u32::MAX));
        for master in masters {
            for (pattern, strings) in &scans {
                let mut scan = Scan::new(&master, &self.pace, pattern.clone(), *strings);
                while let Some(names) = scan.next().await? {
                    self.sort(&names, *strings, wanted, &mut found).await?;
                    if let Some(part) = &mut part {
                        self.name(&mut found, &mut named).await;
                        part(std::mem::take(&mut found.locks), &found.processes);
                    }
                    let part = scan.progress().filter(|_| tells).unwrap_or_default();
                    walk.is_at((done + part) / all);
                }
                done += 1.0;
            }
        }
        Ok(found)
    }

    /// Reads the records of the processes that hold and await these locks, each once. `named` has those that were asked for.
    async fn name(&self, found: &mut Survey, named: &mut BTreeSet<ClientId>) {
        let clients = found.locks.values().flat_map(LockSnapshot::clients);
        let is_new =
            |client: &ClientId| !named.contains(client) && !found.processes.contains_key(client);
        let clients: BTreeSet<_> = clients.filter(is_new).collect();
        // The names of processes are optional: locks are listed without them too.
        if let Ok(told) = self.presences(&clients).await {
            found.processes.extend(told);
            named.extend(clients);
        }
    }

    /// Returns the patterns of the names to read, each with whether locks are stored at their own names there.
    fn scans(&self, wanted: Wanted<'_>) -> Vec<(String, bool)> {
        let namespace = escaped(&self.store.config.namespace);
        let (own, raw) = match wanted {
            Wanted::Locks(pattern) => (format!("{{{pattern}}}*"), Some(pattern)),
            Wanted::Processes => ("process:{*}".to_owned(), None),
            Wanted::All => ("*".to_owned(), Some("*")),
        };
        let raw = raw.filter(|_| self.store.config.raw_keys);
        let raw = raw.map(|pattern| (pattern.to_owned(), true));
        let own = (format!("{namespace}:{own}"), false);
        raw.into_iter().chain([own]).collect()
    }

    /// Inspects the keys of some names.
    async fn sort(
        &self,
        names: &[String],
        raw: bool,
        wanted: Wanted<'_>,
        found: &mut Survey,
    ) -> Result<(), StoreError> {
        if !matches!(wanted, Wanted::Processes) {
            let lock = |name: &String| {
                if raw {
                    key_of(name)
                } else {
                    self.lock_of(name)
                }
            };
            let locks = names.iter().filter_map(lock).collect();
            self.inspect_all(locks, &mut found.locks).await?;
        }
        if !matches!(wanted, Wanted::Locks(_)) && !raw {
            let clients = names.iter().filter_map(|name| self.process_of(name));
            let clients = clients.filter(|client| !found.processes.contains_key(client));
            let told = self.presences(&clients.collect()).await?;
            found.processes.extend(told);
        }
        Ok(())
    }

    /// Returns those of the given locks that are held or waited for.
    pub async fn snapshots_of(
        &self,
        keys: &[LockKey],
    ) -> Result<BTreeMap<LockKey, LockSnapshot>, StoreError> {
        let mut found = BTreeMap::new();
        self.inspect_all(keys.to_vec(), &mut found).await?;
        Ok(found)
    }

    /// Returns one lock, possibly a third-party lock; `None` without a holder and waiters.
    pub async fn snapshot(&self, key: &LockKey) -> Result<Option<LockSnapshot>, StoreError> {
        let command = Command::inspect(&self.store.config, key, MOST_LISTED);
        let snapshot = read_snapshot(&self.store.execute(command).await?)?;
        Ok((!snapshot.is_idle()).then_some(snapshot))
    }

    /// Force-releases a lock from the inspected holder, or from all who share it, of which `sharers` are known, and
    /// notifies them. Returns `None` if the lease has changed.
    pub async fn unlock(
        &self,
        key: &LockKey,
        me: OwnerId,
        seen: &LeaseIdentity,
        sharers: &[OwnerId],
    ) -> Result<Option<AfterUnlock>, StoreError> {
        let (claim, digest) = match seen {
            LeaseIdentity::Ours { owner, fence } => (format!("{owner} {fence}"), ""),
            LeaseIdentity::Shared { fence } => (format!("* {fence}"), ""),
            LeaseIdentity::Foreign { digest } => (String::new(), digest.as_str()),
        };
        let command = Command::unlock(&self.store.config, key, me, &claim, digest);
        let unlocked = answers::read_unlock(&self.store.execute(command).await?)?;
        if unlocked.is_some() {
            let told = match seen {
                // In a quorum, a server knows its holder by the id of a round.
                LeaseIdentity::Ours { owner, .. } => std::slice::from_ref(owner),
                LeaseIdentity::Shared { .. } => sharers,
                LeaseIdentity::Foreign { .. } => &[],
            };
            for holder in told {
                let command = Command::tell_holder(&self.store.config, key, *holder);
                self.store.servers.execute(&command).await.ok();
            }
        }
        Ok(unlocked)
    }

    /// Returns the records of some processes; the others may have ended.
    pub async fn presences(
        &self,
        clients: &BTreeSet<ClientId>,
    ) -> Result<BTreeMap<ClientId, Presence>, StoreError> {
        let mut known = BTreeMap::new();
        let clients: Vec<_> = clients.iter().copied().collect();
        for clients in clients.chunks(RECORDS_AT_ONCE) {
            let ask = |client: &ClientId| Command::read_presence(&self.store.config, *client);
            let commands: Vec<_> = clients.iter().map(ask).collect();
            let (answers, _) = self.execute_all(&commands).await;
            for (client, answer) in clients.iter().zip(answers) {
                match answer {
                    Ok(Value::BulkString(text)) => {
                        known.extend(Presence::read(&text).map(|it| (*client, it)));
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == StoreErrorKind::WrongType => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(known)
    }

    /// Returns the process whose record is stored at this name.
    fn process_of(&self, name: &str) -> Option<ClientId> {
        let name = name.strip_prefix(&*self.store.config.namespace)?;
        let client = name.strip_prefix(":process:{")?.strip_suffix('}')?;
        client.parse().ok()
    }

    /// Returns the lock to which a key belongs, if the key begins with the namespace.
    fn lock_of(&self, name: &str) -> Option<LockKey> {
        let name = name.strip_prefix(&*self.store.config.namespace)?;
        let (lock, part) = name.strip_prefix(":{")?.split_once('}')?;
        // With raw keys, the lock itself is stored elsewhere.
        let is_lock = part == names::queue(&self.store.config)
            || part.is_empty() && !self.store.config.raw_keys;
        is_lock.then(|| key_of(lock)).flatten()
    }

    async fn inspect_all(
        &self,
        mut keys: Vec<LockKey>,
        found: &mut BTreeMap<LockKey, LockSnapshot>,
    ) -> Result<(), StoreError> {
        // A server may report a key twice, and each lock may have two keys.
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !found.contains_key(key));
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let (keys, later) = rest.split_at(self.pace.locks_at_once().min(rest.len()));
            rest = later;
            let commands: Vec<_> = keys
                .iter()
                .map(|key| Command::inspect(&self.store.config, key, MOST_LISTED))
                .collect();
            let (answers, cost) = self.execute_all(&commands).await;
            self.pace.learn(keys.len(), cost);
            for (key, answer) in keys.iter().zip(answers) {
                let snapshot = match answer.and_then(|answer| read_snapshot(&answer)) {
                    Ok(snapshot) => snapshot,
                    // It is not a lock. A lock that the user may not read is not one of its locks.
                    Err(error) if error.kind() == StoreErrorKind::WrongType => continue,
                    Err(error) if self.store.config.raw_keys && is_of_key(&error) => continue,
                    Err(error) => return Err(error),
                };
                // A third-party value without dlock waiters is not a lock of this service.
                let is_others = self.store.config.raw_keys && snapshot.is_foreign();
                if !snapshot.waiters.is_empty() || !snapshot.occupants.is_empty() && !is_others {
                    found.insert(key.clone(), snapshot);
                }
            }
        }
        Ok(())
    }

    /// Runs one step of an inspection. Returns its cost, too.
    async fn execute_all(&self, commands: &[Command]) -> (Vec<Result<Value, StoreError>>, Cost) {
        let step = async {
            match &*self.store.servers {
                Servers::One(node) => run_timed(node, &commands.iter().collect::<Vec<_>>()).await,
                // Several nodes may take part, each for no longer than the whole limit.
                Servers::Cluster(cluster) => {
                    let sent = Instant::now();
                    let answers = cluster.execute_all(commands, self.store.config.response_timeout);
                    let answers = answers.await;
                    let cost = Cost {
                        time: sent.elapsed(),
                        is_exact: false,
                    };
                    (answers, cost)
                }
            }
        };
        self.pace.step(step).await
    }

    /// Returns each server that has locks.
    pub(in crate::store::redis) fn masters(&self) -> Result<Vec<MasterNode<'_>>, StoreError> {
        let masters = Servers::masters(&self.store.servers);
        if masters.is_empty() {
            let message = format!("no master of {} is known", self.store.shown);
            return Err(StoreError::new(StoreErrorKind::Unreachable, message));
        }
        Ok(masters)
    }
}

/// Returns `true` if the user lacks permission for the key, and not for a command.
fn is_of_key(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Denied && error.message().contains("key")
}

fn key_of(name: &str) -> Option<LockKey> {
    LockKey::new(name).ok()
}
