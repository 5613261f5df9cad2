//! How long calls wait for a key and hold it, and the times that a store refuses.

use std::{future::pending, time::Duration};

use dlock::{FencingToken, LockError, LockManager, LostCause, distributed_lock};
use tokio::{join, sync::oneshot, time::Instant};

use super::{BRIEF, SESSION, World};
use crate::common::{is_lost, soon};

#[distributed_lock(key = "timed", ttl = "20s", lease = lease, manager = locks)]
async fn timed(locks: &LockManager) -> Result<(Duration, FencingToken), LockError> {
    Ok((lease.remaining(), lease.fencing_token()))
}

pub(super) async fn ttl_and_lease(world: World) {
    let mut last = None;
    for locks in [&world.here, &world.there, &world.here] {
        let (remaining, token) = soon(timed(locks)).await.unwrap();
        // Of the manager's TTL, 30 s, more is left.
        let expected = Duration::from_secs(10)..Duration::from_secs(20);
        assert!(expected.contains(&remaining), "{remaining:?}");
        assert!(
            last < Some(token),
            "broken promise: the token did not grow: {last:?} {token:?}"
        );
        last = Some(token);
    }
}

#[distributed_lock(key = "waited", wait = "5s", manager = locks)]
async fn waited(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

pub(super) async fn wait(world: World) {
    let guard = soon(world.there.lock("waited").acquire()).await.unwrap();
    let error = soon(waited(&world.here)).await.unwrap_err();
    let LockError::Busy { waited: time, .. } = error else {
        panic!("{error}");
    };
    assert!(time >= Duration::from_secs(5), "{time:?}");
    guard.release().await.unwrap();
    soon(waited(&world.here)).await.unwrap();
}

#[distributed_lock(key = "unrenewed", ttl = BRIEF, renew = false, manager = locks)]
async fn unrenewed(locks: &LockManager) -> Result<(), LockError> {
    pending().await
}

pub(super) async fn renew(world: World) {
    let begun = Instant::now();
    let outcome = soon(unrenewed(&world.here)).await;
    let cause = |cause: &LostCause| *cause == LostCause::RenewalDisabled;
    assert!(is_lost(&outcome, cause), "{outcome:?}");
    // A deadline is earlier than the end of the TTL, by the drift of the store.
    assert!(begun.elapsed() >= BRIEF * 9 / 10, "{:?}", begun.elapsed());
    let guard = soon(world.there.lock("unrenewed").acquire()).await.unwrap();
    guard.release().await.unwrap();
}

#[distributed_lock(key = "limited", ttl = "10s", max_hold = "11s", manager = locks)]
async fn limited(locks: &LockManager, entered: oneshot::Sender<()>) -> Result<(), LockError> {
    entered.send(()).unwrap();
    pending().await
}

pub(super) async fn max_hold(world: World) {
    let (entered, has_entered) = oneshot::channel();
    let begun = Instant::now();
    // The lease is renewed until then: the waiter gets the key when the body is cancelled.
    let waiter = async {
        has_entered.await.unwrap();
        let guard = world.there.lock("limited").acquire().await.unwrap();
        let elapsed = begun.elapsed();
        guard.release().await.unwrap();
        elapsed
    };
    let (outcome, elapsed) = soon(async { join!(limited(&world.here, entered), waiter) }).await;
    let cause = |cause: &LostCause| *cause == LostCause::MaxHold;
    assert!(is_lost(&outcome, cause), "{outcome:?}");
    assert!(elapsed >= Duration::from_secs(11), "{elapsed:?}");
}

#[derive(Debug, PartialEq)]
pub(super) enum Told {
    Busy,
    Refused(&'static str),
    Other(String),
}

fn told(error: LockError) -> Result<(), Told> {
    Err(match error {
        LockError::Busy { .. } => Told::Busy,
        LockError::InvalidOption { option, .. } => Told::Refused(option),
        other => Told::Other(other.to_string()),
    })
}

#[distributed_lock(key = "kept:<id>", ttl = ttl, min_hold = least, wait = never, on_error = told, manager = locks)]
pub(super) async fn kept(
    locks: &LockManager,
    id: &str,
    ttl: Duration,
    least: Duration,
) -> Result<(), Told> {
    Ok(())
}

pub(super) async fn min_hold_and_on_error(world: World) {
    let ttl = Duration::from_secs(30);
    let begun = Instant::now();
    soon(kept(&world.here, "a-while", ttl, BRIEF))
        .await
        .unwrap();
    let second = soon(kept(&world.there, "a-while", ttl, BRIEF)).await;
    // On a slow machine the time may be over by then.
    if begun.elapsed() < BRIEF {
        assert_eq!(second, Err(Told::Busy));
    }
    // The limit of this wait is shorter than the TTL.
    let guard = soon(world.there.lock("kept:a-while").acquire())
        .await
        .unwrap();
    assert!(begun.elapsed() >= BRIEF, "{:?}", begun.elapsed());
    guard.release().await.unwrap();
}

/// A lease that is granted may be lost on a slow machine: only refusals are compared.
pub(super) async fn store_bounds(world: World) {
    let seconds = Duration::from_secs;
    let brief = Duration::from_millis(500);
    let asked = [
        ("short", brief, brief),
        ("long", SESSION, brief),
        ("long-after", seconds(30), SESSION),
        ("too-long", seconds(24 * 60 * 60 + 1), brief),
    ];
    for ((id, ttl, least), expected) in asked.into_iter().zip(world.refuses) {
        let refused = match soon(kept(&world.here, id, ttl, least)).await {
            Err(Told::Refused(option)) => Some(option),
            _ => None,
        };
        assert_eq!(refused, expected, "{id}");
    }
}
