//! Builds a picture from locks that come in any order, some of them twice.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use dlock_admin::{HolderInfo, LockInfo, Overview, ProcessInfo, WaiterInfo};
use dlock_runtime::{
    clock::{Clock as _, SystemClock},
    store::{ClientId, OwnerId},
};

use super::{LeaseRow, NEVER, NONE, Picture, Row, Totals, Waits, short};
use crate::moment;

#[derive(Debug)]
pub(crate) struct Draft {
    picture: Picture,
    texts: HashMap<Box<str>, u32>,
    clients: HashMap<ClientId, u32>,
    /// The times of the part that is added, and of the part before.
    part_ms: Option<u64>,
    before_ms: Option<u64>,
}

impl Draft {
    /// Creates a draft when a reading begins, with room for as many locks as `before` has.
    pub(crate) fn like(before: Option<&Picture>) -> Self {
        let room = |count: fn(&Picture) -> usize| before.map_or(0, count);
        Self {
            picture: Picture {
                keys: String::with_capacity(room(|it| it.keys.len())),
                texts: Vec::new(),
                clients: Vec::new(),
                rows: Vec::with_capacity(room(|it| it.rows.len())),
                holders: Vec::with_capacity(room(|it| it.holders.len())),
                waiters: Vec::with_capacity(room(|it| it.waiters.len())),
                processes: None,
                process_count: None,
                totals: Totals::default(),
                taken_ms: 0,
                took: Duration::ZERO,
                at: SystemClock.now(),
                time_of_day: SystemTime::now(),
            },
            texts: HashMap::new(),
            clients: HashMap::new(),
            part_ms: None,
            before_ms: None,
        }
    }

    /// Adds locks that were read until `read_ms` in one part of a reading.
    pub(crate) fn add_all(&mut self, locks: &[LockInfo], read_ms: u64) {
        for lock in locks {
            self.add(lock, read_ms);
        }
    }

    /// Adds a lock that was read until `read_ms` by the clock of the store. Locks of the same part of a reading have the
    /// same time: they were read after the part before.
    pub(crate) fn add(&mut self, lock: &LockInfo, read_ms: u64) {
        if self.part_ms != Some(read_ms) {
            self.before_ms = self.part_ms.replace(read_ms);
        }
        let early = self.before_ms.map(|before| read_ms.saturating_sub(before));
        let key_at = self.picture.keys.len();
        let (holder_at, waiter_at) = (self.picture.holders.len(), self.picture.waiters.len());
        let (Ok(key_len), Ok(holder_at), Ok(waiter_at)) = (
            u32::try_from(lock.key.len()),
            u32::try_from(holder_at),
            u32::try_from(waiter_at),
        ) else {
            // There are four billion others.
            return;
        };
        self.picture.keys.push_str(&lock.key);
        let mut holders = 0;
        for holder in lock.holders() {
            let held = self.holder(holder, read_ms);
            self.picture.holders.push(held);
            holders += 1;
        }
        let mut waiters = 0;
        for waiter in &lock.waiters {
            let waits = self.waiter(waiter, read_ms);
            self.picture.waiters.push(waits);
            waiters += 1;
        }
        let living = lock.waiters.iter().filter(|it| it.is_alive);
        let longest = living.map(|it| it.waiting).max();
        self.picture.rows.push(Row {
            key_at,
            key_len,
            holder_at,
            holders,
            holder_count: u32::try_from(lock.holder_count).unwrap_or(u32::MAX),
            waiter_at,
            waiters,
            waiter_count: u32::try_from(lock.waiter_count).unwrap_or(u32::MAX),
            longest_wait_ms: longest.map_or(NONE, short),
            held_at: u16::try_from(lock.held_at).unwrap_or(u16::MAX),
            servers: u16::try_from(lock.servers).unwrap_or(u16::MAX),
            mode: lock.mode,
            read_ms,
            early_ms: early.map_or(NONE, |early| short(Duration::from_millis(early))),
        });
    }

    /// Completes the picture, with the processes of `rest`. Of a lock that was added twice, the later reading counts.
    pub(crate) fn finish(self, rest: Overview, taken_ms: u64, took: Duration) -> Picture {
        let mut picture = self.picture;
        picture.taken_ms = taken_ms;
        picture.took = took;
        let began_ms = picture.began_ms();
        let mut rows = std::mem::take(&mut picture.rows);
        for row in rows.iter_mut().filter(|row| row.early_ms == NONE) {
            // The first part was read since the beginning.
            row.early_ms = short(Duration::from_millis(row.read_ms.saturating_sub(began_ms)));
        }
        let keys = &picture.keys;
        let key = |row: &Row| {
            let len = usize::try_from(row.key_len).unwrap_or_default();
            &keys[row.key_at..row.key_at + len]
        };
        // Most stores list the locks in order.
        if !rows.is_sorted_by(|one, next| key(one) < key(next)) {
            rows.sort_by(|one, other| key(one).cmp(key(other)));
            rows.dedup_by(|later, kept| {
                let is_same = key(later) == key(kept);
                if is_same {
                    *kept = *later;
                }
                is_same
            });
        }
        name_by_process(&mut picture, &rest.processes);
        picture.totals = totals(&rows);
        picture.rows = rows;
        picture.process_count = rest.process_count;
        // Some stores can count the processes without having records of them.
        let has_records = rest.process_count == Some(0) || !rest.processes.is_empty();
        picture.processes = has_records.then_some(rest.processes);
        picture.keys.shrink_to_fit();
        picture.rows.shrink_to_fit();
        picture.holders.shrink_to_fit();
        picture.waiters.shrink_to_fit();
        picture
    }

    fn holder(&mut self, holder: &HolderInfo, read_ms: u64) -> LeaseRow {
        let label = holder.known_label();
        let ttl_ms = holder.ttl.map(short);
        LeaseRow {
            client: holder
                .owner
                .map_or(NONE, |owner| self.client(owner.client())),
            name: label.map_or(NONE, |label| self.text(label)),
            function: holder.function.as_deref().map_or(NONE, |it| self.text(it)),
            ttl_ms: ttl_ms.unwrap_or(NONE),
            longest_ms: ttl_ms.unwrap_or(0),
            number: holder.owner.map_or(holder.mark, OwnerId::number),
            fence: holder.fence,
            since_ms: holder.since.map_or(NEVER, moment::since_1970),
            first_ms: read_ms,
        }
    }

    fn waiter(&mut self, waiter: &WaiterInfo, read_ms: u64) -> Waits {
        let label = waiter.known_label();
        let since_ms = moment::milliseconds(waiter.waiting);
        Waits {
            client: self.client(waiter.owner.client()),
            name: label.map_or(NONE, |label| self.text(label)),
            number: waiter.owner.number(),
            entered_ms: read_ms.saturating_sub(since_ms),
            mode: waiter.mode,
            is_alive: waiter.is_alive,
        }
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = u32::try_from(self.picture.texts.len()).unwrap_or(NONE);
        self.picture.texts.push(text.into());
        self.texts.insert(text.into(), number);
        number
    }

    fn client(&mut self, client: ClientId) -> u32 {
        *self.clients.entry(client).or_insert_with(|| {
            let number = u32::try_from(self.picture.clients.len()).unwrap_or(NONE);
            self.picture.clients.push(client);
            number
        })
    }
}

/// Names the holders and waiters whose processes were read after them.
fn name_by_process(picture: &mut Picture, processes: &[ProcessInfo]) {
    let labels: HashMap<_, _> = processes.iter().map(|it| (it.client, &*it.label)).collect();
    let mut of_clients = vec![None; picture.clients.len()];
    let Picture {
        texts,
        clients,
        holders,
        waiters,
        ..
    } = picture;
    let names = holders.iter_mut().map(|it| (it.client, &mut it.name));
    let names = names.chain(waiters.iter_mut().map(|it| (it.client, &mut it.name)));
    for (client, name) in names.filter(|(_, name)| **name == NONE) {
        let place = usize::try_from(client).unwrap_or(usize::MAX);
        let (Some(known), Some(client)) = (of_clients.get_mut(place), clients.get(place)) else {
            continue;
        };
        // One text for all leases of the process.
        *name = *known.get_or_insert_with(|| {
            let Some(label) = labels.get(client) else {
                return NONE;
            };
            texts.push((*label).into());
            u32::try_from(texts.len() - 1).unwrap_or(NONE)
        });
    }
}

fn totals(rows: &[Row]) -> Totals {
    let waits = rows.iter().map(|row| row.longest_wait_ms);
    let waiters: u64 = rows.iter().map(|row| u64::from(row.waiter_count)).sum();
    Totals {
        held: rows.iter().filter(|row| row.holder_count > 0).count(),
        waiters: usize::try_from(waiters).unwrap_or(usize::MAX),
        longest_wait_ms: waits.filter(|wait| *wait != NONE).max().map(u64::from),
        of_quorum: rows.iter().any(|row| row.servers > 1),
    }
}
