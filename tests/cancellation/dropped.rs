//! Callers that go away: at every await, under every fault, and while the tasks in the background are
//! at each of their own awaits.

use std::sync::Arc;

use dlock_testkit::Polled;
use tokio::time::timeout;

use crate::{
    common::{Fate, Kind, assert_idle, soon},
    driver::{
        Drops, ONE_STORE, QUORUM, at_every_await, at_every_step, counts, every_operation, poll,
        polls,
    },
    operations::{ALL, Operation},
    stage::{ETERNITY, Stage, Tasks},
    stepwise::Steps,
};

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
    let outcome = timeout(ETERNITY, poll(scene, polls, drops)).await;
    stage.is_over();
    wire.heal();
    soon(around).await.unwrap();
    stage.assert_clean().await;
    if fault.is_none() && !operation.keeps {
        wire.assert_nothing_is_owed();
    }
    drop((stage, wire));
    tasks.assert_none_is_left().await;
    outcome.expect("it hangs") == Polled::Finished(())
}

/// Drops every operation at each of its awaits; with a fault every request of that kind is lost, or its
/// answer, with and without a word, until the caller has gone.
async fn dropped_everywhere(what: &'static str, fault: Option<(Kind, Fate)>) {
    every_operation(what, ALL, async |operation| {
        let interruptions = at_every_await(polls(), async |polls, drops| {
            dropped_at(operation, polls, drops, fault.as_ref()).await
        });
        // An operation that fails may have fewer awaits, but has one.
        let least = if fault.is_none() { operation.awaits } else { 1 };
        counts(interruptions.await, least)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_anywhere_leaves_nothing() {
    dropped_everywhere("dropped, parked and woken", None).await;
}

// A test of its own for each fault, so that they run side by side.

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_are_lost() {
    let what = "dropped, questions are lost";
    dropped_everywhere(what, Some((Kind::Acquire, Fate::Lost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_lose_their_answer() {
    let what = "dropped, questions lose their answer";
    dropped_everywhere(what, Some((Kind::Acquire, Fate::ReplyLost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_are_swallowed() {
    let what = "dropped, questions are swallowed";
    dropped_everywhere(what, Some((Kind::Acquire, Fate::Swallowed))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_questions_have_their_answer_swallowed() {
    let what = "dropped, questions have their answer swallowed";
    dropped_everywhere(what, Some((Kind::Acquire, Fate::ReplySwallowed))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_are_lost() {
    let what = "dropped, renewals are lost";
    dropped_everywhere(what, Some((Kind::Renew, Fate::Lost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_lose_their_answer() {
    let what = "dropped, renewals lose their answer";
    dropped_everywhere(what, Some((Kind::Renew, Fate::ReplyLost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_are_swallowed() {
    let what = "dropped, renewals are swallowed";
    dropped_everywhere(what, Some((Kind::Renew, Fate::Swallowed))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_renewals_have_their_answer_swallowed() {
    let what = "dropped, renewals have their answer swallowed";
    dropped_everywhere(what, Some((Kind::Renew, Fate::ReplySwallowed))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_are_lost() {
    let what = "dropped, releases are lost";
    dropped_everywhere(what, Some((Kind::Release, Fate::Lost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_lose_their_answer() {
    let what = "dropped, releases lose their answer";
    dropped_everywhere(what, Some((Kind::Release, Fate::ReplyLost))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_are_swallowed() {
    let what = "dropped, releases are swallowed";
    dropped_everywhere(what, Some((Kind::Release, Fate::Swallowed))).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_although_releases_have_their_answer_swallowed() {
    let what = "dropped, releases have their answer swallowed";
    dropped_everywhere(what, Some((Kind::Release, Fate::ReplySwallowed))).await;
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
    let what = "dropped at each step of the store";
    at_every_step(what, ONE_STORE, dropped_when_frozen).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_at_any_step_of_a_quorum_leaves_nothing() {
    let what = "dropped at each step of a quorum's nodes";
    at_every_step(what, QUORUM, dropped_when_frozen).await;
}
