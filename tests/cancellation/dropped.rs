//! Callers that go away: at every await, under every fault, and while what runs in the background is
//! at each of its own awaits.

use std::sync::Arc;

use dlock_testkit::{Polled, poll_times, poll_times_then_wake};
use tokio::time::timeout;

use crate::common::{Fate, Kind, assert_idle, soon};
use crate::{
    operations::{ALL, OF_A_QUORUM, Operation},
    stage::{Count, ETERNITY, PAUSED, Scene, Stage, Tally, Tasks, polls},
    stepwise::{Steps, steps_until_the_end},
};

/// How a future is dropped: while it waits, or when what it waited for has come.
#[derive(Clone, Copy)]
enum Drops {
    Parked,
    Woken,
}

async fn poll(scene: Scene, polls: usize, drops: Drops) -> Polled<()> {
    let polled = async {
        match drops {
            Drops::Parked => poll_times(scene, polls).await,
            Drops::Woken => poll_times_then_wake(scene, polls).await,
        }
    };
    timeout(ETERNITY, polled).await.expect("it hangs")
}

/// Whether the operation has ended before it could be dropped.
async fn dropped_at(
    operation: &Operation,
    polls: usize,
    drops: Drops,
    fault: Option<&(Kind, Fate)>,
) -> bool {
    let tasks = Tasks::counted();
    let (stage, wire) = Stage::behind_a_wire();
    let around = stage.surround(operation).await;
    if let Some((kind, fate)) = fault {
        wire.always(*kind, fate.clone());
    }
    let scene = stage.noting((operation.begin)(stage.clone()));
    let outcome = poll(scene, polls, drops).await;
    stage.is_over();
    wire.heal();
    soon(around).await.unwrap();
    stage.assert_clean().await;
    if fault.is_none() && !operation.keeps {
        wire.assert_nothing_is_owed();
    }
    drop((stage, wire));
    tasks.assert_none_is_left().await;
    outcome == Polled::Finished(())
}

/// How often the operation could be dropped, parked and woken.
async fn dropped_everywhere(
    operation: &Operation,
    fault: Option<&(Kind, Fate)>,
    least: usize,
) -> [Count; 2] {
    let mut counts = [Drops::Parked, Drops::Woken].map(|drops| (drops, 0));
    for (drops, interruptions) in &mut counts {
        for polls in polls() {
            if dropped_at(operation, polls, *drops, fault).await {
                break;
            }
            *interruptions += 1;
        }
    }
    counts.map(|(_, interruptions)| Count {
        interruptions,
        least,
    })
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_anywhere_leaves_nothing() {
    let mut tally = Tally::of("dropped, parked and woken");
    for operation in ALL {
        let counts = dropped_everywhere(operation, None, operation.awaits).await;
        tally.note(operation, counts.to_vec());
    }
    tally.finish();
}

/// Every request of this kind is lost, or its answer, with and without a word, until the caller has
/// gone.
async fn dropped_everywhere_without(kind: Kind, fate: Fate, what: &'static str) {
    let fault = (kind, fate);
    let mut tally = Tally::of(what);
    for operation in ALL {
        // An operation that fails may have fewer awaits, but has one.
        let counts = dropped_everywhere(operation, Some(&fault), 1).await;
        tally.note(operation, counts.to_vec());
    }
    tally.finish();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_are_lost() {
    dropped_everywhere_without(Kind::Acquire, Fate::Lost, "dropped, questions are lost").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_lose_their_answer() {
    dropped_everywhere_without(
        Kind::Acquire,
        Fate::ReplyLost,
        "dropped, questions lose their answer",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_are_swallowed() {
    dropped_everywhere_without(
        Kind::Acquire,
        Fate::Swallowed,
        "dropped, questions are swallowed",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_have_their_answer_swallowed() {
    dropped_everywhere_without(
        Kind::Acquire,
        Fate::ReplySwallowed,
        "dropped, questions have their answer swallowed",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_are_lost() {
    dropped_everywhere_without(Kind::Renew, Fate::Lost, "dropped, renewals are lost").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_lose_their_answer() {
    dropped_everywhere_without(
        Kind::Renew,
        Fate::ReplyLost,
        "dropped, renewals lose their answer",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_are_swallowed() {
    dropped_everywhere_without(
        Kind::Renew,
        Fate::Swallowed,
        "dropped, renewals are swallowed",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_have_their_answer_swallowed() {
    dropped_everywhere_without(
        Kind::Renew,
        Fate::ReplySwallowed,
        "dropped, renewals have their answer swallowed",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_are_lost() {
    dropped_everywhere_without(Kind::Release, Fate::Lost, "dropped, releases are lost").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_lose_their_answer() {
    dropped_everywhere_without(
        Kind::Release,
        Fate::ReplyLost,
        "dropped, releases lose their answer",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_are_swallowed() {
    dropped_everywhere_without(
        Kind::Release,
        Fate::Swallowed,
        "dropped, releases are swallowed",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_have_their_answer_swallowed() {
    dropped_everywhere_without(
        Kind::Release,
        Fate::ReplySwallowed,
        "dropped, releases have their answer swallowed",
    )
    .await;
}

/// Whether the operation and all that it leaves behind have ended before the store came so far.
async fn dropped_when_frozen(
    operation: &Operation,
    step: usize,
    (stage, steps): (Stage, Arc<Steps>),
) -> bool {
    let tasks = Tasks::counted();
    let around = stage.surround(operation).await;
    steps.count();
    steps.freeze_at(step);
    let scene = stage.noting((operation.begin)(stage.clone()));
    let both = async {
        tokio::select! {
            () = scene => {}
            () = steps.frozen() => return,
        }
        stage.is_over();
        let managers = [stage.manager()];
        tokio::select! {
            () = assert_idle(&managers) => {}
            () = steps.frozen() => {}
        }
    };
    timeout(ETERNITY, both).await.expect("it hangs");
    let is_frozen = steps.is_frozen();
    stage.is_over();
    steps.thaw();
    soon(around).await.unwrap();
    stage.assert_clean().await;
    steps.assert_nothing_is_owed(operation.keeps);
    drop(stage);
    tasks.assert_none_is_left().await;
    !is_frozen
}

/// The caller goes while a request, which may be a renewal or a release in the background, is on its
/// way to the store or back.
#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_at_any_step_of_the_store_leaves_nothing() {
    let mut tally = Tally::of("dropped at each step of the store");
    for operation in ALL {
        let count = Count {
            interruptions: steps_until_the_end(async |step| {
                dropped_when_frozen(operation, step, Stage::stepwise(PAUSED, false)).await
            })
            .await,
            least: operation.steps,
        };
        tally.note(operation, vec![count]);
    }
    tally.finish();
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_at_any_step_of_a_quorum_leaves_nothing() {
    let mut tally = Tally::of("dropped at each step of a quorum's nodes");
    for operation in OF_A_QUORUM {
        let count = Count {
            interruptions: steps_until_the_end(async |step| {
                dropped_when_frozen(operation, step, Stage::quorum(PAUSED, false)).await
            })
            .await,
            least: 3 * operation.steps,
        };
        tally.note(operation, vec![count]);
    }
    tally.finish();
}
