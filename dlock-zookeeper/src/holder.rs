//! The holders of a key, read from their children.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_runtime::{LockMode, store::Holder};
use futures_util::future::join_all;
use zookeeper_client::{Error, Stat};

use crate::{data::Value, names::Entry, queue::Queue, session::Session};

/// The children of so many holders are read. Beyond, the answer does without.
const MOST: usize = 8;

/// The least rest of a lease that is answered. A holder that is there beyond its lease has crashed or has another clock:
/// waiters go by the rest, and would ask without a pause until its session ends.
const LEAST: Duration = Duration::from_secs(1);

/// A child as it was read.
pub(crate) struct Seen {
    /// `None` if another program has written it.
    pub(crate) value: Option<Value>,
    pub(crate) stat: Stat,
    pub(crate) rest: Duration,
}

impl Seen {
    /// Reads a child; `None` if it is gone.
    pub(crate) async fn read(
        session: &Session,
        directory: &str,
        entry: &Entry,
    ) -> Result<Option<Self>, Error> {
        let path = format!("{directory}/{}", entry.name);
        let (data, stat) = match session.client.get_data(&path).await {
            Ok(read) => read,
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self::of(&data, stat, now())))
    }

    /// Reads the text of a child at this time of day.
    pub(crate) fn of(data: &[u8], stat: Stat, now: Duration) -> Self {
        let value = Value::read(data);
        // For people: the clock is that of the server.
        let age = now.saturating_sub(moment(stat.mtime));
        let ttl = value.as_ref().map_or(Duration::ZERO, |value| value.ttl);
        Self {
            value,
            stat,
            rest: ttl.saturating_sub(age),
        }
    }

    /// The fence of this child alone; `None` if its owner is about to create another one.
    pub(crate) fn own_fence(&self) -> Option<u64> {
        self.value.as_ref()?.base.fence(self.stat.czxid)
    }

    /// The fence that its owner has written.
    pub(crate) fn confirmed(&self) -> Option<u64> {
        let held = self.value.as_ref()?.held?;
        held.fence.or_else(|| self.own_fence())
    }
}

/// A time of the server.
pub(crate) fn moment(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

/// The time of day.
pub(crate) fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

pub(crate) fn now_in_milliseconds() -> u64 {
    u64::try_from(now().as_millis()).unwrap_or(0)
}

/// Describes who holds the key to a caller that wants it in this mode. `own` is the caller's child, if it waits, with its
/// fence. `None` if a holder has just gone.
pub(crate) async fn find(
    session: &Session,
    directory: &str,
    queue: &Queue,
    own: Option<(&str, u64)>,
    mode: LockMode,
) -> Result<Option<Holder>, Error> {
    let holders = queue.holders();
    // The last one has the greatest fence of its own.
    let first = holders.iter().take(MOST - 1);
    let entries: Vec<_> = first
        .chain(holders.iter().skip(MOST - 1).next_back())
        .collect();
    let reads = join_all(entries.iter().map(|it| Seen::read(session, directory, it))).await;
    let mut seen = Vec::with_capacity(reads.len());
    for read in reads {
        match read? {
            Some(holder) => seen.push(holder),
            None => return Ok(None),
        }
    }
    let newest = seen
        .iter()
        .filter_map(|it| it.own_fence().max(it.confirmed()));
    // A grant to the caller has the fence of its child. All that were granted before it asked are smaller.
    let last_fence = match own {
        Some((_, fence)) => fence.saturating_sub(1),
        None => newest.max().unwrap_or(0),
    };
    let mut described = Holder::new(last_fence);
    let Some(last) = seen.iter().max_by_key(|it| it.rest) else {
        return Ok(None);
    };
    described.fence = last.confirmed().or_else(|| last.own_fence()).unwrap_or(0);
    let value = last.value.as_ref();
    described.label = value.and_then(|value| value.label.clone());
    described.function = value.and_then(|value| value.function.clone());
    described.others = u64::try_from(holders.len() - 1).unwrap_or(u64::MAX);
    described.position = own.and_then(|(name, _)| queue.position(name));
    described.ttl = rest(seen.iter().map(|it| it.rest), mode);
    Ok(Some(described))
}

/// Returns the time until a claim of this mode may hold, from the rests of the holders' leases.
fn rest(rests: impl Iterator<Item = Duration>, mode: LockMode) -> Option<Duration> {
    // A permit is free when the first lease has ended, everything else when the last one has.
    let rest = match mode {
        LockMode::Permits(_) => rests.min(),
        _ => rests.max(),
    };
    rest.map(|rest| rest.max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_over_counts_as_a_second() {
        let rests = [Duration::ZERO, Duration::from_secs(9)];
        let of = |rests: &[Duration], mode| rest(rests.iter().copied(), mode);
        assert_eq!(of(&rests, LockMode::Permits(2)), Some(LEAST));
        assert_eq!(of(&rests, LockMode::Exclusive), Some(rests[1]));
        assert_eq!(of(&rests[..1], LockMode::Shared), Some(LEAST));
        assert_eq!(of(&[], LockMode::Shared), None);
    }
}
