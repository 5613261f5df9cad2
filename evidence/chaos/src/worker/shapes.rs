//! The annotated functions of the crowd, in the shapes that users give them.

use std::{future::Future, panic::panic_any, pin::Pin, thread, time::Duration};

use dlock::{LockError, distributed_lock};
use dlock_history::Mode;
use tokio::time::timeout;

use super::{
    KEYS, OnPurpose, PERMITS, TTL, WAIT,
    inside::{Caller, Inside, Store},
};
use crate::random::Random;

/// How a section goes about it.
const STEPS: u32 = 3;

/// Calls one of the functions; what it answers is what the lock answered.
pub(super) async fn any(caller: &Caller, random: &mut Random) -> Result<(), LockError> {
    let key = random.below(KEYS.len());
    let pace = random.millis(6);
    if caller.has_books() && random.one_in(6) {
        if random.one_in(2) {
            return post(caller, random, 50).await;
        }
        caller.book_in_a_transaction(KEYS[key], pace).await;
        return Ok(());
    }
    match random.below(100) {
        0..20 => plain(key, caller, pace).await,
        20..35 => reading(key, caller.shares(key, false), pace).await,
        35..40 => {
            let limit = random.millis(60);
            timeout(limit, reading(key, caller.shares(key, false), 3 * pace))
                .await
                .unwrap_or(Ok(()))
        }
        40..50 => permitted(PERMITS, caller, random).await,
        50..60 => {
            // Some last for several renewals, some for longer than a TTL.
            let pace = match random.below(60) {
                0 => TTL / 3,
                1..4 => TTL / 10,
                _ => pace,
            };
            nested(key, caller, pace).await
        }
        60..68 => finishing(key, caller, 3 * pace).await,
        68..75 => blind(key, caller, pace).await,
        75..81 => {
            let limit = random.millis(60);
            // Dropped while it waits, and while it holds.
            timeout(limit, plain(key, caller, 3 * pace))
                .await
                .unwrap_or(Ok(()))
        }
        81..85 => {
            let limit = random.millis(60);
            let detached = detached(key, caller.clone(), 2 * pace);
            timeout(limit, detached).await.unwrap_or(Ok(()))
        }
        85..88 => holding_on(key, caller, pace).await,
        88..92 => {
            let (caller, is_shared) = (caller.clone(), random.below(2) == 0);
            let call = tokio::spawn(async move {
                if is_shared {
                    panicking_reader(key, caller.shares(key, false), pace).await
                } else {
                    panicking(key, &caller, pace).await
                }
            });
            match call.await {
                Ok(answer) => answer,
                Err(error) => {
                    let is_play = error.into_panic().is::<OnPurpose>();
                    assert!(is_play, "nothing else panics");
                    Ok(())
                }
            }
        }
        share => {
            let other = (key + 1 + random.below(KEYS.len() - 1)) % KEYS.len();
            if share < 96 {
                both(key, other, caller, pace).await
            } else {
                mixed(key, other, caller.shares(other, true), pace).await
            }
        }
    }
}

/// A transaction that lasts for up to so many milliseconds.
pub(super) async fn post(
    caller: &Caller,
    random: &mut Random,
    longest: u64,
) -> Result<(), LockError> {
    let (key, pace) = (random.below(KEYS.len()), random.millis(longest));
    posting(key, caller, pace).await
}

/// Takes one of so many permits, and notes that there are [`PERMITS`]. A quorum has none: there it reads.
pub(super) async fn permitted(
    permits: u32,
    caller: &Caller,
    random: &mut Random,
) -> Result<(), LockError> {
    let (key, pace) = (random.below(KEYS.len()), random.millis(6));
    caller.shares(key, false);
    match caller.store() {
        Store::One => limited(key, permits, caller, pace).await,
        Store::Quorum => reading(key, caller, pace).await,
    }
}

async fn steps(inside: &mut Inside<'_>, pace: Duration) {
    inside.write();
    for step in 0..STEPS {
        if step == 1 {
            inside.book(pace).await;
        } else {
            inside.pause(pace).await;
        }
        inside.write();
    }
}

#[distributed_lock(key = "chaos:<key>", ttl = TTL, wait = WAIT, lease = lease)]
async fn plain(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(key = "chaos:<key>", ttl = TTL, wait = WAIT, lease = lease)]
async fn nested(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    deeper(&mut inside, STEPS, pace).await;
    inside.finish();
    Ok(())
}

fn deeper<'a>(
    inside: &'a mut Inside<'_>,
    levels: u32,
    pace: Duration,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        inside.sign();
        inside.write();
        inside.pause(pace).await;
        if levels > 0 {
            deeper(inside, levels - 1, pace).await;
        }
        inside.sign();
        inside.write();
    })
}

/// Goes on when its lease is lost, and writes to the end.
#[distributed_lock(
    key = "chaos:<key>", ttl = TTL, wait = WAIT, on_lost = finish, lease = lease
)]
async fn finishing(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace).await;
    inside.write();
    inside.finish();
    Ok(())
}

/// Blocks its thread, and writes without a look at its lease.
#[distributed_lock(key = "chaos:<key>", ttl = TTL, wait = WAIT, lease = lease)]
async fn blind(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter_blind(lease);
    for _ in 0..12 {
        // Noted only: what is written does not depend on it.
        inside.sign();
        inside.write();
        thread::sleep(Duration::from_millis(2) + pace);
    }
    inside.write();
    inside.finish();
    Ok(())
}

/// Is in a transaction all the time, and commits it even when its lease has ended.
#[distributed_lock(
    key = "chaos:<key>", ttl = TTL, wait = WAIT, on_lost = finish, lease = lease
)]
async fn posting(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter_blind(lease);
    inside.write();
    inside.book(pace).await;
    inside.write();
    inside.finish();
    Ok(())
}

/// Goes on in a task of its own when its caller drops it.
#[distributed_lock(
    key = "chaos:<key>", ttl = TTL, wait = WAIT, on_cancel = detach, lease = lease
)]
async fn detached(key: usize, caller: Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(
    key = "chaos:<key>", ttl = TTL, wait = WAIT, min_hold = "40ms", lease = lease
)]
async fn holding_on(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace / 4).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(key = "chaos:<key>", ttl = TTL, wait = WAIT, lease = lease)]
async fn panicking(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace).await;
    panic_any(OnPurpose)
}

#[distributed_lock(
    key = ["chaos:<key>", "chaos:<other>"], ttl = TTL, wait = WAIT, lease = lease
)]
async fn both(key: usize, other: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter(lease);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(key = "chaos:<key>", mode = shared, ttl = TTL, wait = WAIT, lease = lease)]
async fn reading(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter_in(lease, &[caller.store().shared()]);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(key = "chaos:<key>", mode = shared, ttl = TTL, wait = WAIT, lease = lease)]
async fn panicking_reader(key: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter_in(lease, &[caller.store().shared()]);
    steps(&mut inside, pace).await;
    panic_any(OnPurpose)
}

#[distributed_lock(key = "chaos:<key>", permits = permits, ttl = TTL, wait = WAIT, lease = lease)]
async fn limited(
    key: usize,
    permits: u32,
    caller: &Caller,
    pace: Duration,
) -> Result<(), LockError> {
    let mut inside = caller.enter_in(lease, &[Mode::Permits(PERMITS)]);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}

#[distributed_lock(
    key = ["chaos:<key>", shared("chaos:<other>")], ttl = TTL, wait = WAIT, lease = lease
)]
async fn mixed(key: usize, other: usize, caller: &Caller, pace: Duration) -> Result<(), LockError> {
    let mut inside = caller.enter_in(lease, &[Mode::Exclusive, caller.store().shared()]);
    steps(&mut inside, pace).await;
    inside.finish();
    Ok(())
}
