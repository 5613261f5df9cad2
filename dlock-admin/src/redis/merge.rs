//! Merges the answers of several servers about one lock. One server is handled in the same way.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use dlock_runtime::{
    LockKey,
    admin::{HolderSnapshot, LeaseIdentity, LockSnapshot, Presence},
    store::{ClientId, LockMode},
};

use crate::{
    make::since,
    model::{HolderInfo, LockInfo, ProcessInfo, WaiterInfo},
};

/// An answer with the number of its server.
pub(super) struct At<T> {
    pub(super) server: usize,
    pub(super) it: T,
}

/// Returns the lock that `snapshots` describe. There is at least one snapshot.
pub(super) fn lock(
    key: &LockKey,
    mut snapshots: Vec<At<LockSnapshot>>,
    servers: usize,
    majority: usize,
    known: &BTreeMap<ClientId, Presence>,
) -> LockInfo {
    let now = snapshots.iter().map(|snapshot| snapshot.it.now).max();
    let now = now.unwrap_or_default();
    let fences = snapshots.iter().map(|snapshot| snapshot.it.last_fence);
    let last_fence = fences.max().unwrap_or(0);
    let counts = snapshots.iter();
    let waiter_count = counts.map(|it| it.it.waiters.len() + it.it.untold).max();
    let waiters = waiters(&snapshots, known);
    let unlisted = snapshots.iter().map(|snapshot| snapshot.it.unlisted).max();
    let holders = snapshots.iter_mut().flat_map(|snapshot| {
        let server = snapshot.server;
        let occupants = snapshot.it.occupants.drain(..);
        occupants.map(move |it| At { server, it })
    });
    let (first, others) = split(groups(holders), majority);
    let is_shared = first.iter().any(|it| it.it.is_shared);
    let mut infos = std::iter::once(&first)
        .chain(&others)
        .filter_map(|same| holder(same, majority, now, known));
    let holder = infos.next();
    let others_info: Vec<_> = infos.collect();
    let held_at = first.len();
    let count = usize::from(holder.is_some()) + others_info.len();
    let all = std::iter::once(first).chain(others);
    LockInfo {
        key: key.as_str().to_owned(),
        mode: holder.is_some().then_some(if is_shared {
            LockMode::Shared
        } else {
            LockMode::Exclusive
        }),
        holder,
        others: others_info,
        holder_count: count + unlisted.unwrap_or(0),
        // A waiter may be known on only one of several servers.
        waiter_count: waiter_count.unwrap_or(0).max(waiters.len()),
        waiters,
        last_fence,
        held_at,
        servers,
        is_half_used_up: false,
        seen: all.map(places).collect(),
    }
}

/// Returns the lease of a holder, on each server that has it.
fn places(same: Vec<At<HolderSnapshot>>) -> Vec<(usize, LeaseIdentity)> {
    same.into_iter().map(|at| (at.server, at.it.seen)).collect()
}

/// Returns the places of each holder, the greatest fence first.
fn groups(holders: impl Iterator<Item = At<HolderSnapshot>>) -> Vec<Vec<At<HolderSnapshot>>> {
    let mut groups: Vec<Vec<At<HolderSnapshot>>> = Vec::new();
    let mut places = BTreeMap::new();
    for occupant in holders {
        // Many may share one lock, so that they are found by their ids.
        let known = occupant.it.owner();
        let place = if let Some(owner) = known {
            *places.entry(owner).or_insert(groups.len())
        } else {
            let same = |group: &Vec<At<HolderSnapshot>>| {
                group.iter().any(|other| other.it.seen == occupant.it.seen)
            };
            groups.iter().position(same).unwrap_or(groups.len())
        };
        match groups.get_mut(place) {
            Some(group) => group.push(occupant),
            None => groups.push(vec![occupant]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|occupant| std::cmp::Reverse(fence(&occupant.it)));
    }
    groups
}

/// Splits the holders into the one that has the lock on most servers and those that share it with it, on a majority or
/// on as many servers. If several holders have equally many servers, the greatest fence decides, and then the order
/// of the owner ids.
fn split(
    mut groups: Vec<Vec<At<HolderSnapshot>>>,
    majority: usize,
) -> (Vec<At<HolderSnapshot>>, Vec<Vec<At<HolderSnapshot>>>) {
    groups.sort_by_key(|group| {
        let first = group.first();
        let fence = first.map(|it| fence(&it.it));
        let owner = first.and_then(|it| it.it.owner());
        (std::cmp::Reverse((group.len(), fence)), owner)
    });
    let mut groups = groups.into_iter();
    let first = groups.next().unwrap_or_default();
    let least = majority.min(first.len());
    let shares = |group: &[At<HolderSnapshot>]| group.iter().all(|it| it.it.is_shared);
    let others = groups.filter(|group| group.len() >= least && shares(&first) && shares(group));
    let others = others.collect();
    (first, others)
}

fn fence(occupant: &HolderSnapshot) -> u64 {
    match occupant.seen {
        LeaseIdentity::Ours { fence, .. } | LeaseIdentity::Shared { fence } => fence,
        LeaseIdentity::Foreign { .. } => 0,
    }
}

fn holder(
    same: &[At<HolderSnapshot>],
    majority: usize,
    now: Duration,
    known: &BTreeMap<ClientId, Presence>,
) -> Option<HolderInfo> {
    let first = &same.first()?.it;
    // After this time fewer than a majority have it. A lease without an end lasts longer than any other.
    let mut ttls: Vec<_> = same
        .iter()
        .map(|occupant| occupant.it.ttl.unwrap_or(Duration::MAX))
        .collect();
    ttls.sort_unstable();
    let ttl = ttls[ttls.len() - majority.min(ttls.len())];
    let ttl = Some(ttl).filter(|ttl| *ttl < Duration::MAX);
    Some(match first.seen {
        LeaseIdentity::Foreign { .. } | LeaseIdentity::Shared { .. } => HolderInfo {
            mark: mark(&first.seen),
            owner: None,
            label: None,
            function: None,
            process: None,
            fence: 0,
            since: None,
            ttl,
        },
        LeaseIdentity::Ours { owner, fence } => {
            let labels = same.iter().map(|occupant| &occupant.it);
            let labelled = labels.clone().find(|it| it.label.is_some());
            let labelled = labelled.unwrap_or(first);
            HolderInfo {
                mark: 0,
                owner: first.owner(),
                label: labelled.label.clone(),
                function: labelled.function.clone(),
                process: process_of(owner.client(), known),
                fence,
                since: UNIX_EPOCH
                    .checked_add(now)
                    .and_then(|now| since(fence, now)),
                ttl,
            }
        }
    })
}

/// Returns a number that tells the lease of a third-party client from others.
fn mark(seen: &LeaseIdentity) -> u64 {
    let LeaseIdentity::Foreign { digest } = seen else {
        return 0;
    };
    // 16 of its 40 hexadecimal digits.
    let digits = digest.get(..16);
    let mark = digits.and_then(|it| u64::from_str_radix(it, 16).ok());
    mark.unwrap_or(0)
}

fn waiters(
    snapshots: &[At<LockSnapshot>],
    known: &BTreeMap<ClientId, Presence>,
) -> Vec<WaiterInfo> {
    let mut waiters: Vec<WaiterInfo> = Vec::new();
    let mut places = BTreeMap::new();
    for At { it: snapshot, .. } in snapshots {
        for queued in &snapshot.waiters {
            let owner = queued.owner;
            let waiting = snapshot.now.saturating_sub(queued.arrived);
            let is_alive = queued.alive_until >= milliseconds(snapshot.now);
            let place = *places.entry(owner).or_insert_with(|| {
                let process = process_of(owner.client(), known);
                waiters.push(WaiterInfo {
                    owner,
                    label: process.as_ref().map(|it| it.label.clone()),
                    mode: queued.mode,
                    process,
                    waiting,
                    is_alive,
                });
                waiters.len() - 1
            });
            let waiter = &mut waiters[place];
            waiter.waiting = waiter.waiting.max(waiting);
            waiter.is_alive |= is_alive;
        }
    }
    if snapshots.len() > 1 {
        waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waiting));
    }
    waiters
}

/// Rounds to milliseconds, as scripts do.
fn milliseconds(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn process_of(client: ClientId, known: &BTreeMap<ClientId, Presence>) -> Option<ProcessInfo> {
    let said = known.get(&client)?.clone();
    Some(process(client, said))
}

pub(super) fn process(client: ClientId, said: Presence) -> ProcessInfo {
    let Presence {
        label,
        started,
        version,
    } = said;
    let started = UNIX_EPOCH.checked_add(Duration::from_millis(started));
    ProcessInfo::new(client, label, started.unwrap_or(UNIX_EPOCH), version)
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::OwnerId;

    use super::*;

    fn snapshot(server: usize, attempt: u64, fence: u64, ttl: u64) -> At<LockSnapshot> {
        let client: ClientId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let owner = OwnerId::new(client, attempt);
        let occupant = HolderSnapshot {
            seen: LeaseIdentity::Ours { owner, fence },
            is_shared: false,
            label: None,
            function: None,
            ttl: Some(Duration::from_secs(ttl)),
        };
        let it = LockSnapshot {
            occupants: vec![occupant],
            unlisted: 0,
            waiters: Vec::new(),
            untold: 0,
            last_fence: fence,
            now: Duration::MAX / 2,
        };
        At { server, it }
    }

    #[test]
    fn a_holder_is_who_most_servers_name() {
        let key = LockKey::new("k").unwrap();
        // The same claim in the third round of a quorum.
        let again = 7 | 3 << 44;
        let snapshots = vec![
            snapshot(0, 7, 5, 9),
            snapshot(1, 8, 6, 9),
            snapshot(2, again, 4, 3),
        ];
        let lock = lock(&key, snapshots, 3, 2, &BTreeMap::new());
        let holder = lock.holder.expect("two name it");
        assert_eq!((lock.held_at, lock.servers, lock.last_fence), (2, 3, 6));
        assert_eq!(holder.fence, 5);
        assert_eq!(holder.ttl, Some(Duration::from_secs(3)));
        let places: Vec<_> = lock.seen[0].iter().map(|(server, _)| *server).collect();
        assert_eq!(places, [0, 2]);
    }

    #[test]
    fn those_who_share_are_listed_together() {
        let key = LockKey::new("k").unwrap();
        let sharing = |server, attempts: &[u64]| {
            let mut at = snapshot(server, 0, 5, 9);
            let holders = attempts
                .iter()
                .flat_map(|it| snapshot(server, *it, 5, 9).it.occupants);
            at.it.occupants = holders
                .map(|it| HolderSnapshot {
                    is_shared: true,
                    ..it
                })
                .collect();
            at
        };
        let owners = |lock: &LockInfo| {
            let owners = lock.holders().map(|it| it.owner.unwrap().to_string());
            owners
                .map(|it| it.split_once('.').unwrap().1.to_owned())
                .collect::<Vec<_>>()
        };
        let one = lock(&key, vec![sharing(0, &[1, 2, 3])], 1, 1, &BTreeMap::new());
        assert_eq!(one.mode, Some(LockMode::Shared));
        assert_eq!(owners(&one), ["1", "2", "3"]);
        assert_eq!((one.holder_count, one.seen.len()), (3, 3));
        // In a quorum, only a majority makes a holder.
        let several = vec![sharing(0, &[1, 2]), sharing(1, &[2, 3]), sharing(2, &[3])];
        let several = lock(&key, several, 3, 2, &BTreeMap::new());
        assert_eq!(owners(&several), ["2", "3"]);
        // Others do not share with an exclusive holder.
        let mixed = vec![snapshot(0, 7, 6, 9), sharing(1, &[1])];
        let mixed = lock(&key, mixed, 2, 2, &BTreeMap::new());
        assert_eq!(owners(&mixed), ["7"]);
        assert_eq!(mixed.mode, Some(LockMode::Exclusive));
    }
}
