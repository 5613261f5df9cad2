//! Releases that outlive the task they were begun for.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. So
//! each task here carries a value, made before it is spawned, whose drop says that the work is not
//! done.

use std::{mem, sync::Arc};

use tokio::{runtime::Handle, time::timeout_at};

use crate::{
    engine::acquisition::{Acquisition, runs_by_itself},
    observe,
    owner::OwnerId,
    state::{Effect, Event},
};

/// Lets another worker have the task that was just spawned or woken here.
///
/// tokio puts it into a slot of this worker from which no other may steal, in the hope that the
/// running task is about to await. A body that does not would hold up the very renewal it needs.
/// One more task pushes the first out of the slot, into the queue that others steal from.
pub(crate) fn let_others_take_it() {
    if let Ok(runtime) = Handle::try_current()
        && runs_by_itself(&runtime)
    {
        drop(runtime.spawn(async {}));
    }
}

/// Sends the release of an attempt that was left, until the store has answered.
pub(crate) fn release_in_background(acquisition: &Arc<Acquisition>, owner: OwnerId) {
    acquisition.core.bounds.begins_release();
    BackgroundRelease {
        acquisition: acquisition.clone(),
        owner,
        runtimes: acquisition.runtimes(false).into_iter(),
        done: false,
    }
    .go_on();
}

/// A release that goes on on the next runtime when the one it was on has gone.
struct BackgroundRelease {
    acquisition: Arc<Acquisition>,
    owner: OwnerId,
    runtimes: std::vec::IntoIter<Handle>,
    done: bool,
}

impl BackgroundRelease {
    fn go_on(mut self) {
        if let Some(runtime) = self.runtimes.next() {
            runtime.spawn(self.run());
            let_others_take_it();
        } else {
            self.done = true;
            if !self.acquisition.release_at_once(self.owner) {
                observe::abandoned(&self.acquisition);
            }
            self.acquisition.event(Event::Abandoned);
        }
    }

    async fn run(mut self) {
        let acquisition = &self.acquisition;
        let mut is_repeated = false;
        loop {
            let woken = acquisition.woken();
            // Many at once would be a stampede, at the latest when the store is back after an outage.
            let turn = acquisition.turn_to_release(is_repeated).await;
            let answer = acquisition.ask_release(self.owner, acquisition.now()).await;
            drop(turn);
            is_repeated = true;
            if let Some(error) = answer.as_ref().err().filter(|it| it.is_refusal_for_good()) {
                observe::release_refused(acquisition, error);
                acquisition.event(Event::Abandoned);
                break;
            }
            match acquisition.event(Event::Released(answer.ok())) {
                // Rung when the store can be reached again.
                Effect::WaitUntil(at) => drop(timeout_at(acquisition.timer(at), woken).await),
                Effect::Forget(None) => {
                    observe::release_given_up(acquisition);
                    break;
                }
                _ => break,
            }
        }
        self.done = true;
    }
}

impl Drop for BackgroundRelease {
    fn drop(&mut self) {
        if self.done {
            self.acquisition.core.bounds.ends_release();
            return;
        }
        let rest = Self {
            acquisition: self.acquisition.clone(),
            owner: self.owner,
            runtimes: mem::take(&mut self.runtimes),
            done: false,
        };
        rest.go_on();
    }
}
