//! Managers that shut down while something is at any of its awaits: it ends, and so does the shutdown,
//! in the time that was given.

use std::time::Duration;

use dlock::LockError;
use tokio::time::{Instant, timeout};

use crate::{
    common::{Fate, Kind, soon},
    driver::{Count, Parking, counts, every_operation, polls, until_the_end},
    operations::{ALL, Operation},
    stage::{ETERNITY, Stage, Tasks},
};

/// The time for which a manager waits for an answer.
const RESPONSE: Duration = Duration::from_secs(1);

/// Timers are exact to a millisecond, and there is more than one.
const MOMENT: Duration = Duration::from_millis(10);

/// Whether the operation has ended before its manager could shut down.
async fn shut_down_at(
    operation: &Operation,
    polls: usize,
    limit: Duration,
    fault: Option<&(Kind, Fate)>,
) -> bool {
    let tasks = Tasks::counted();
    let (stage, wire) = Stage::behind_a_wire();
    let around = stage.surround(operation).await;
    if let Some((kind, fate)) = fault {
        wire.always(*kind, fate.clone());
    }
    let scene = stage.noting((operation.begin)(stage.clone()));
    let (mut parking, told) = Parking::after(scene, polls);
    let has_ended = async {
        tokio::select! {
            () = &mut parking => unreachable!("it never ends"),
            has_ended = told => has_ended.unwrap(),
        }
    };
    let has_ended = timeout(ETERNITY, has_ended).await.expect("it hangs");
    let since = Instant::now();
    let shutdown = async {
        let report = stage.manager().shutdown(limit).await;
        (report, since.elapsed())
    };
    let rest = async {
        if let Some(scene) = parking.scene.take() {
            scene.await;
        }
        stage.is_over();
    };
    let both = async { tokio::join!(shutdown, rest) };
    let ((report, took), ()) = timeout(ETERNITY, both).await.expect("it hangs");
    assert!(took <= limit + RESPONSE + MOMENT, "{took:?}");
    if fault.is_none() {
        // A holder of a guard that does not look keeps it, and the whole time was waited for it.
        let is_kept = took >= limit + RESPONSE;
        assert!(report.unreleased == 0 || is_kept, "{report:?} {took:?}");
        assert!(report.cut_short == 0 || took >= limit, "{report:?}");
    }
    let refused = stage.lock().acquire().await;
    assert!(matches!(refused, Err(LockError::Closed { .. })));
    wire.heal();
    soon(around).await.unwrap();
    stage.assert_clean().await;
    if fault.is_none() && !operation.keeps {
        wire.assert_nothing_is_owed();
    }
    drop((stage, wire, parking));
    tasks.assert_none_is_left().await;
    has_ended
}

async fn shut_down_everywhere(
    operation: &Operation,
    fault: Option<&(Kind, Fate)>,
    least: usize,
) -> Vec<Count> {
    let mut interruptions = [0; 2];
    for (count, limit) in interruptions
        .iter_mut()
        .zip([Duration::ZERO, Duration::from_secs(5)])
    {
        let shut_down = async |polls| shut_down_at(operation, polls, limit, fault).await;
        *count = until_the_end(polls(), shut_down).await;
    }
    counts(interruptions, least)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_at_any_await_ends_in_time_and_leaves_nothing() {
    let what = "shut down, with no time and with five seconds";
    every_operation(what, ALL, async |operation| {
        shut_down_everywhere(operation, None, operation.awaits).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_at_any_await_ends_in_time_although_the_store_does_not_answer() {
    let what = "shut down, and the store is silent";
    every_operation(what, ALL, async |operation| {
        let mut counts = Vec::new();
        for kind in [Kind::Acquire, Kind::Renew, Kind::Release] {
            let fault = (kind, Fate::Swallowed);
            // An operation that fails may have fewer awaits, but has one.
            counts.extend(shut_down_everywhere(operation, Some(&fault), 1).await);
        }
        counts
    })
    .await;
}
