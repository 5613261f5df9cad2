//! Work of the manager that outlives the task it was begun for: releases and renewals.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. So
//! each task here carries a value, made before it is spawned, whose drop says that the work is not
//! done.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::timeout_at};

use crate::{
    keeper,
    observe::{self, Request},
    owner::OwnerId,
    section::{Section, runs_by_itself},
    state::{Effect, Event},
    store::{Renewal, StoreError, StoreErrorKind},
};

/// More renewals than this do not go in one request: others wait for the server meanwhile.
const MOST_AT_ONCE: usize = 256;

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
                runtimes: mem::take(&mut self.runtimes),
                done: false,
            };
            rest.go_on();
        }
    }
}

/// A lease that has to be renewed.
pub(crate) struct Due {
    pub(crate) section: Arc<Section>,
    pub(crate) owner: OwnerId,
    /// How long to wait for the answer.
    pub(crate) limit: Duration,
}

/// Sends renewals, preferably where the caller is, and those that fall due together in one request.
pub(crate) fn renew_in_background(due: Vec<Due>) {
    // A renewal of a lease with a `min_hold` may have to wait for what keeps that.
    let (alone, together): (Vec<_>, Vec<_>) = due
        .into_iter()
        .partition(|due| due.section.timing.min_hold.is_some());
    for due in alone {
        Renewing::start(vec![due]);
    }
    let mut by_limit = BTreeMap::<_, Vec<_>>::new();
    for due in together {
        by_limit.entry(due.limit).or_default().push(due);
    }
    for mut together in by_limit.into_values() {
        while !together.is_empty() {
            let rest = together.split_off(together.len().min(MOST_AT_ONCE));
            Renewing::start(together);
            together = rest;
        }
    }
}

/// Renewals that count as unanswered when their runtime has gone.
struct Renewing(Vec<Due>);

impl Renewing {
    fn start(due: Vec<Due>) {
        let first = due.first().expect("no request is for nothing");
        let runtime = Handle::try_current().ok();
        let runtime = runtime.or_else(|| first.section.runtimes(false).pop());
        let renewing = Self(due);
        if let Some(runtime) = runtime {
            runtime.spawn(renewing.run());
            let_others_take_it();
        }
    }

    async fn run(mut self) {
        // Some may have been given back before they could be sent.
        self.0.retain(|due| due.section.is_held_by(due.owner));
        let Some(first) = self.0.first() else { return };
        let sent = first.section.now();
        let answers = match &*self.0 {
            [alone] => {
                let answer = alone.section.ask_renew(alone.owner, alone.limit).await;
                answer.into_iter().collect()
            }
            together => ask_renewals(first, together).await,
        };
        for (due, answer) in mem::take(&mut self.0).into_iter().zip(answers) {
            observe::renewed(&due.section, &answer);
            keeper::tend(&due.section, due.owner, Event::Renewed { sent, answer });
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        for due in mem::take(&mut self.0) {
            let sent = due.section.now();
            let gone = "the tokio runtime of the renewal has ended";
            let answer = Err(StoreError::new(StoreErrorKind::Disconnected, gone));
            observe::renewed(&due.section, &answer);
            keeper::tend(&due.section, due.owner, Event::Renewed { sent, answer });
        }
    }
}

/// One answer for each; `first` is one of them.
async fn ask_renewals(first: &Due, due: &[Due]) -> Vec<Result<Renewal, StoreError>> {
    let renewals: Vec<_> = due
        .iter()
        .map(|due| due.section.renewal(due.owner, due.section.timing.ttl))
        .collect();
    let store = &first.section.shared.store;
    let sent = Request::Renew.sent();
    let answers = store.renew_all(&renewals, first.limit).await;
    if answers.iter().any(Result::is_ok) {
        sent.answered();
    }
    for (due, answer) in due.iter().zip(&answers) {
        if let Err(error) = answer {
            observe::request_failed(&due.section, Request::Renew, error);
        }
    }
    answers
}
