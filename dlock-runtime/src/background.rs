//! Work of the manager that outlives the task it was begun for: releases and renewals.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. So
//! each task here carries a value, made before it is spawned, whose drop says that the work is not
//! done.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::timeout_at};

use crate::{
    keeper, observe,
    owner::OwnerId,
    section::{Section, runs_by_itself},
    state::{Effect, Event},
    store::{StoreError, StoreErrorKind},
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
        loop {
            let ring = section.ring();
            let answer = section.ask_release(self.owner).await;
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
        if !self.done {
            let rest = Self {
                section: self.section.clone(),
                owner: self.owner,
                runtimes: std::mem::take(&mut self.runtimes),
                done: false,
            };
            rest.go_on();
        }
    }
}

/// Sends one renewal, preferably where the caller is.
pub(crate) fn renew_in_background(section: &Arc<Section>, owner: OwnerId, limit: Duration) {
    let renewing = Renewing {
        section: section.clone(),
        owner,
        answered: false,
    };
    match Handle::try_current()
        .ok()
        .or_else(|| section.runtimes(false).pop())
    {
        Some(runtime) => {
            runtime.spawn(renewing.run(limit));
            let_others_take_it();
        }
        None => drop(renewing),
    }
}

/// A renewal that counts as unanswered when its runtime has gone.
struct Renewing {
    section: Arc<Section>,
    owner: OwnerId,
    answered: bool,
}

impl Renewing {
    async fn run(mut self, limit: Duration) {
        let section = &self.section;
        let sent = section.now();
        let answer = section.ask_renew(self.owner, limit).await;
        self.answered = true;
        if let Some(answer) = answer {
            keeper::tend(&self.section, self.owner, Event::Renewed { sent, answer });
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        if !self.answered {
            let sent = self.section.now();
            let gone = "the tokio runtime of the renewal has ended";
            let answer = Err(StoreError::new(StoreErrorKind::Disconnected, gone));
            keeper::tend(&self.section, self.owner, Event::Renewed { sent, answer });
        }
    }
}
