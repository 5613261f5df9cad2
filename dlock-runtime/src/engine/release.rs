//! Releases that outlive the task they were begun for.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. So
//! each task here carries a value, made before it is spawned, whose drop says that the work is not
//! done.

use std::{mem, sync::Arc};

use tokio::{runtime::Handle, time::timeout_at};

use crate::{
    engine::acquisition::{Section, runs_by_itself},
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
pub(crate) fn release_in_background(section: &Arc<Section>, owner: OwnerId) {
    section.shared.bounds.begins_release();
    Releasing {
        section: section.clone(),
        owner,
        runtimes: section.runtimes(false).into_iter(),
        done: false,
    }
    .go_on();
}

/// A release that goes on on the next runtime when the one it was on has gone.
struct Releasing {
    section: Arc<Section>,
    owner: OwnerId,
    runtimes: std::vec::IntoIter<Handle>,
    done: bool,
}

impl Releasing {
    fn go_on(mut self) {
        if let Some(runtime) = self.runtimes.next() {
            runtime.spawn(self.run());
            let_others_take_it();
        } else {
            self.done = true;
            if !self.section.release_at_once(self.owner) {
                observe::abandoned(&self.section);
            }
            self.section.event(Event::Abandoned);
        }
    }

    async fn run(mut self) {
        let section = &self.section;
        let mut is_repeated = false;
        loop {
            let ring = section.ring();
            // Many at once would be a stampede, at the latest when the store is back after an outage.
            let turn = section.turn_to_release(is_repeated).await;
            let answer = section.ask_release(self.owner, section.now()).await;
            drop(turn);
            is_repeated = true;
            if let Some(error) = answer.as_ref().err().filter(|it| it.is_refusal_for_good()) {
                observe::release_refused(section, error);
                section.event(Event::Abandoned);
                break;
            }
            match section.event(Event::Released(answer.ok())) {
                // Rung when the store can be reached again.
                Effect::WaitUntil(at) => drop(timeout_at(section.timer(at), ring).await),
                Effect::Forget(None) => {
                    observe::release_given_up(section);
                    break;
                }
                _ => break,
            }
        }
        self.done = true;
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if self.done {
            self.section.shared.bounds.ends_release();
            return;
        }
        let rest = Self {
            section: self.section.clone(),
            owner: self.owner,
            runtimes: mem::take(&mut self.runtimes),
            done: false,
        };
        rest.go_on();
    }
}
