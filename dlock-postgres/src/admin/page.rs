//! Reads the locks of a page of keys.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock_admin::{HolderInfo, LockInfo, WaiterInfo};
use dlock_runtime::{
    LockMode,
    store::{OwnerId, StoreError},
};
use tokio_postgres::{Row, types::Type};

use super::{
    link::{Link, field, unreadable},
    pattern::Pattern,
};

const LOCKS: &str = include_str!("locks.sql");

/// The keys behind `$1` with holders or waiters, of which there are at most `$2`. It reads at most that many rows for each key
/// of the page, whatever the number of keys, since it follows two indexes.
const WALK: &str = "SELECT both_tables.key FROM (
        (SELECT DISTINCT h.key FROM {schema}.holder h WHERE h.key > $1 AND h.key ^@ $3 AND h.number >= 0 ORDER BY h.key LIMIT $2)
        UNION
        (SELECT DISTINCT w.key FROM {schema}.waiter w WHERE w.key > $1 AND w.key ^@ $3 AND w.place >= 0 ORDER BY w.key LIMIT $2)
    ) AS both_tables ORDER BY both_tables.key LIMIT $2";

/// The keys of `$1`; the other parameters have no meaning here.
const GIVEN: &str = "SELECT given.key COLLATE \"C\" AS key FROM unnest($1::text[]) AS given (key)
        WHERE $2::bigint IS NULL AND $3::text IS NULL";

/// The number of keys that one statement reads.
pub(super) const ROWS: i64 = 500;

/// The locks that one statement has read.
pub(super) struct Page {
    /// The locks with a holder or waiters, in the order of their keys.
    pub(super) locks: Vec<LockInfo>,
    /// The last key of the page; `None` if this was the last page.
    pub(super) last: Option<String>,
    /// The number of keys, also of those that do not match.
    pub(super) keys: u64,
}

/// Reads the page of keys behind `after`. Returns it with the time that the server spent.
pub(super) async fn walk(
    link: &Link,
    after: &str,
    pattern: &Pattern,
) -> Result<(Page, Duration), StoreError> {
    let statement = LOCKS.replace("{page}", WALK);
    let rows = link
        .ask(
            &statement,
            &[
                (&after, Type::TEXT),
                (&ROWS, Type::INT8),
                (&pattern.prefix, Type::TEXT),
                (&pattern.expression, Type::TEXT),
            ],
        )
        .await?;
    read(&rows)
}

/// Reads the locks of these keys.
pub(super) async fn of_keys(link: &Link, keys: &[&str]) -> Result<(Page, Duration), StoreError> {
    let statement = LOCKS.replace("{page}", GIVEN);
    let rows = link
        .ask(
            &statement,
            &[
                (&keys, Type::TEXT_ARRAY),
                (&None::<i64>, Type::INT8),
                (&None::<&str>, Type::TEXT),
                (&None::<&str>, Type::TEXT),
            ],
        )
        .await?;
    read(&rows)
}

/// A row of the statement.
struct Line<'a> {
    kind: i32,
    key: Option<&'a str>,
    owner: Option<&'a str>,
    number: Option<i64>,
    ms: Option<i64>,
    flag: Option<bool>,
    most: Option<i32>,
    label: Option<String>,
    function: Option<String>,
    total: Option<i64>,
    held_ms: Option<i64>,
}

impl<'a> Line<'a> {
    fn of(row: &'a Row) -> Result<Self, StoreError> {
        Ok(Self {
            kind: field(row, 0, "kind")?,
            key: field(row, 1, "key")?,
            owner: field(row, 2, "owner")?,
            number: field(row, 3, "number")?,
            ms: field(row, 4, "ms")?,
            flag: field(row, 5, "flag")?,
            most: field(row, 6, "most")?,
            label: field(row, 7, "label")?,
            function: field(row, 8, "function")?,
            total: field(row, 9, "total")?,
            held_ms: field(row, 10, "held_ms")?,
        })
    }

    fn owner(&self) -> Option<OwnerId> {
        self.owner?.parse().ok()
    }

    fn number(&self) -> u64 {
        natural(self.number)
    }

    fn ms(&self) -> Duration {
        Duration::from_millis(natural(self.ms))
    }
}

fn read(rows: &[Row]) -> Result<(Page, Duration), StoreError> {
    let lines = rows.iter().map(Line::of);
    let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
    let end = lines.last().filter(|it| it.kind == 4);
    let end = end.ok_or_else(|| unreadable("the end of a page is missing"))?;
    let now = UNIX_EPOCH + Duration::from_micros(natural(end.ms));
    let mut locks = BTreeMap::new();
    for line in &lines {
        let Some(key) = line.key else { continue };
        if line.kind == 1 {
            let mut lock = LockInfo::new(key);
            lock.last_fence = line.number();
            // Until its holders are known, this is the mode that they would have.
            lock.mode = Some(match line.flag {
                Some(true) => LockMode::Shared,
                _ => LockMode::Exclusive,
            });
            locks.insert(key, lock);
        } else if let Some(lock) = locks.get_mut(key) {
            add(lock, line, now);
        }
    }
    let mut locks: Vec<_> = locks.into_values().collect();
    locks.retain(|lock| lock.holder_count + lock.waiter_count > 0);
    for lock in &mut locks {
        if lock.holder.is_none() {
            lock.mode = None;
        }
    }
    let keys = end.number();
    let page = Page {
        locks,
        last: end
            .key
            .filter(|_| keys >= natural(Some(ROWS)))
            .map(str::to_owned),
        keys,
    };
    Ok((page, Duration::from_micros(natural(end.total))))
}

/// Adds a holder or a waiter to its lock.
fn add(lock: &mut LockInfo, line: &Line<'_>, now: SystemTime) {
    let total = usize::try_from(natural(line.total)).unwrap_or(usize::MAX);
    match (line.kind, line.owner()) {
        (2, owner) => {
            let mut holder = HolderInfo::new(owner, line.number(), now);
            holder.label.clone_from(&line.label);
            holder.function.clone_from(&line.function);
            holder.ttl = Some(line.ms());
            if line.held_ms.is_some() {
                // Its fence may be from when it came into the queue.
                let held = Duration::from_millis(natural(line.held_ms));
                holder.since = now.checked_sub(held);
            }
            lock.add_holder(holder);
            lock.holder_count = total;
        }
        (3, Some(owner)) => {
            let mode = match line.most.unwrap_or_default() {
                0 => LockMode::Exclusive,
                most => u32::try_from(most).map_or(LockMode::Shared, LockMode::Permits),
            };
            let mut waiter = WaiterInfo::new(owner, mode);
            waiter.label.clone_from(&line.label);
            waiter.waiting = line.ms();
            waiter.is_alive = line.flag.unwrap_or_default();
            lock.add_waiter(waiter);
            lock.waiter_count = total;
        }
        // The id of a waiter that was written by hand: it is never granted the lock.
        _ => {}
    }
}

fn natural(number: Option<i64>) -> u64 {
    number
        .and_then(|it| u64::try_from(it).ok())
        .unwrap_or_default()
}
