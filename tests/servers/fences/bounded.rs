//! One fence for each slot and nothing else, however many locks there were.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dlock::{LockManager, Wait};
use dlock_testkit::eventually;
use tokio::task::JoinSet;

use crate::common::{Env, HasServer, LIMIT, RawKeys, Redis, soon};

const SLOTS: usize = 16_384;

/// The slots that are used, the first of all: each costs two sections.
const USED: usize = SLOTS / 16;

/// The slot of a key as Redis Cluster defines it: CRC16 of what is in the first braces.
fn slot(key: &str) -> usize {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag });
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    usize::from(crc) % SLOTS
}

/// Keys of the slots that are used.
fn keys(name: &str) -> impl Iterator<Item = String> {
    let keys = (0_u32..).map(move |number| format!("{name}:{number}"));
    keys.filter(|key| slot(key) < USED)
}

/// Two keys for each slot.
fn two_of_each() -> Vec<String> {
    let mut left = vec![2; USED];
    let wanted = keys("order").filter(|key| {
        let left = &mut left[slot(key)];
        let is_wanted = *left > 0;
        *left -= i32::from(is_wanted);
        is_wanted
    });
    wanted.take(2 * USED).collect()
}

/// A section over each of the keys, by many tasks.
async fn sections(manager: &LockManager, keys: Vec<String>) {
    let (keys, next, mut tasks) = (
        Arc::new(keys),
        Arc::new(AtomicUsize::new(0)),
        JoinSet::new(),
    );
    for _ in 0..64 {
        let (manager, keys, next) = (manager.clone(), keys.clone(), next.clone());
        tasks.spawn(async move {
            while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                // Each by itself: how long all take together is the machine's business.
                let guard = soon(manager.lock(key.as_str()).acquire()).await.unwrap();
                soon(guard.release()).await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

async fn only_a_fence_for_each_slot_is_left<E: Env + HasServer>() {
    const HELD: usize = 5;

    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for key in keys("held").take(HELD) {
        held.push(soon(managers[0].lock(&key).acquire()).await.unwrap());
        let lock = managers[1].lock(&key).wait(Wait::Forever);
        waiting.push(tokio::spawn(lock.acquire()));
    }
    sections(&managers[0], two_of_each()).await;

    eventually(LIMIT, "all wait", async || {
        env.server().keys("dlock:{held*}:*q").await.len() == HELD
    })
    .await;
    // A lock, a queue and who lives in it for each key that is held and waited for.
    let all = env.server().keys("*").await;
    assert_eq!(all.len(), USED + 3 * HELD);
    let fences = all.iter().filter(|key| key.starts_with("dlock:fence:{"));
    let slots: HashSet<_> = fences.map(|key| slot(key)).collect();
    assert_eq!(slots.len(), USED, "each slot has its own");

    for (guard, waiting) in held.into_iter().zip(waiting) {
        soon(guard.release()).await.unwrap();
        let guard = soon(waiting).await.unwrap().unwrap();
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(USED, &[&managers[0], &managers[1]]).await;
}

#[tokio::test]
async fn only_a_fence_for_each_slot_is_left_in_redis() {
    only_a_fence_for_each_slot_is_left::<Redis>().await;
}

#[tokio::test]
async fn only_a_fence_for_each_slot_is_left_of_raw_keys() {
    only_a_fence_for_each_slot_is_left::<RawKeys>().await;
}
