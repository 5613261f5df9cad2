//! Releases leases: awaited by the caller, or in the background when the caller is gone.
//!
//! A runtime that shuts down drops its tasks, at any await and even before their first poll. A release
//! therefore owns a value that is created before a request is sent and whose drop continues the release:
//! [`Occupied`] while the caller waits for the answer, [`BackgroundRelease`] after that.

use std::{mem, sync::Arc, thread};

use tokio::{
    runtime::{Handle, TryCurrentError},
    time::timeout_at,
};

use super::{acquisition::Acquisition, spawn::let_others_take_it};
use crate::{
    clock::Moment,
    error::{LockError, LostCause},
    options::OnLost,
    owner::OwnerId,
    state::{Effect, Event, Loss},
    store::Released,
};

/// The entry of an attempt in the table. Dropping it releases everything in the background.
pub(crate) struct Occupied {
    pub(crate) acquisition: Arc<Acquisition>,
    left: bool,
}

impl Occupied {
    pub(crate) fn new(acquisition: Arc<Acquisition>) -> Self {
        Self {
            acquisition,
            left: false,
        }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if !self.left {
            leave_in_background(&self.acquisition);
        }
    }
}

/// Releases the lease and waits for the store's answer. If the future is dropped before that, the release
/// continues in the background.
pub(crate) async fn release(mut place: Occupied) -> Result<(), LockError> {
    let acquisition = place.acquisition.clone();
    let now = acquisition.now();
    let held = match acquisition.check_at(now) {
        Ok(held) => held,
        Err(loss) => {
            // There is nothing to wait for: anything left in the store is released in the background.
            drop(place);
            return end_of_lost(&acquisition, loss);
        }
    };
    if Handle::try_current().is_err() {
        // No timer could limit the request here. Dropping the place sends the release on another runtime.
        return Ok(());
    }
    acquisition.events().left(now);
    let Some(owner) = begin(&acquisition, now) else {
        // The next task of this process already has the lease.
        place.left = true;
        acquisition.events().handed_over();
        return Ok(());
    };
    let Answered::Over(released) = send(&acquisition, owner, now, true).await else {
        // The release may not have reached the store: dropping the place repeats it.
        return Ok(());
    };
    place.left = true;
    if released != Some(Released::WasGone) {
        return Ok(());
    }
    let held_for = held.since.elapsed(acquisition.now());
    let cause = LostCause::Revoked;
    let loss = Loss { cause, held_for };
    // Reported like every loss: the caller may have detached the body and not receive the error.
    acquisition.events().lost(&loss);
    end_of_lost(&acquisition, loss)
}

/// Ends the attempt without a request: what the store keeps of the lease ends by itself.
pub(crate) fn abandon(mut place: Occupied) {
    let acquisition = place.acquisition.clone();
    place.left = true;
    let now = acquisition.now();
    if !acquisition.core.store.is_ours(now) {
        return;
    }
    acquisition.leave_to_store();
    begin(&acquisition, now);
    acquisition.events().left(now);
}

fn end_of_lost(acquisition: &Acquisition, loss: Loss) -> Result<(), LockError> {
    let error = acquisition.lost_error(loss);
    match acquisition.timing.on_lost {
        OnLost::Stop => Err(error),
        OnLost::Finish => {
            acquisition.events().lost_but_finished(&error);
            Ok(())
        }
    }
}

/// Ends the attempt. Returns the owner whose release has to be sent, unless another attempt continues with
/// the claim, or the lease is left to the store.
fn begin(acquisition: &Acquisition, now: Moment) -> Option<OwnerId> {
    let Effect::Release { owner } = acquisition.event_at(Event::Left, now) else {
        return None;
    };
    acquisition.core.renewer.remove(owner);
    if acquisition.is_left_to_store() {
        acquisition.event(Event::Abandoned);
        return None;
    }
    Some(owner)
}

/// The work that remains after the answer to a release.
enum Answered {
    /// None, with the store's last answer, if any.
    Over(Option<Released>),
    /// The release has to be sent again at this time, or when the task is woken.
    Again(Moment),
}

/// Sends a release once, at `now`, and passes the answer to the state.
async fn send(
    acquisition: &Acquisition,
    owner: OwnerId,
    now: Moment,
    is_awaited: bool,
) -> Answered {
    let answer = acquisition.ask_release(owner, now).await;
    let refusal = answer.as_ref().err();
    // For a caller that waits, the release is sent once more in the background: permissions may be changing
    // at this moment.
    let refusal = refusal.filter(|it| !is_awaited && it.is_refusal_for_good());
    if let Some(error) = refusal {
        acquisition.events().release_refused(error);
        acquisition.event(Event::Abandoned);
        return Answered::Over(None);
    }
    // A caller that waits is spared another read of the clock. The time matters only without an answer, or if
    // other tasks of this process wait for it.
    let is_over = is_awaited && answer.is_ok() && acquisition.core.store.hands_on();
    let now = if is_over { now } else { acquisition.now() };
    match acquisition.event_at(Event::Released(answer.ok()), now) {
        Effect::WaitUntil(at) => Answered::Again(at),
        Effect::Forget(None) => {
            acquisition.events().release_given_up();
            Answered::Over(None)
        }
        Effect::Forget(released) => Answered::Over(released),
        _ => Answered::Over(None),
    }
}

/// Releases what a task left behind: the lease, the place in the queue, the local entry.
///
/// It can be called without a runtime. If no runtime is left to send the release, the store's TTL frees the
/// key.
fn leave_in_background(acquisition: &Arc<Acquisition>) {
    let gone = |error: TryCurrentError| error.is_thread_local_destroyed();
    if Handle::try_current().is_err_and(gone) {
        // This is a destructor of a thread whose tokio state is gone, and tokio's clock panics here once a
        // test has paused it. Any other thread works.
        let acquisition = acquisition.clone();
        let elsewhere = thread::Builder::new();
        if elsewhere.spawn(move || leave(&acquisition)).is_ok() {
            return;
        }
    }
    leave(acquisition);
}

fn leave(acquisition: &Arc<Acquisition>) {
    acquisition.stops_waiting();
    let now = acquisition.now();
    if !acquisition.core.store.is_ours(now) {
        // The parent process releases it.
        return;
    }
    if let Some(owner) = begin(acquisition, now) {
        BackgroundRelease::start(acquisition.clone(), owner);
    }
    acquisition.events().left(now);
}

/// Releases the lease of `owner`, which `bearer` was given and has not taken in time.
pub(super) fn give_back(bearer: &Acquisition, owner: OwnerId) {
    if let Some(releaser) = bearer.give_back(owner) {
        releaser.core.renewer.remove(owner);
        BackgroundRelease::start(releaser, owner);
    }
}

/// A release that continues on the next runtime when its runtime has shut down.
struct BackgroundRelease {
    acquisition: Arc<Acquisition>,
    owner: OwnerId,
    runtimes: std::vec::IntoIter<Handle>,
    done: bool,
}

impl BackgroundRelease {
    fn start(acquisition: Arc<Acquisition>, owner: OwnerId) {
        acquisition.core.bounds.begins_release();
        Self {
            owner,
            runtimes: acquisition.runtimes(false).into_iter(),
            acquisition,
            done: false,
        }
        .go_on();
    }

    fn go_on(mut self) {
        if let Some(runtime) = self.runtimes.next() {
            runtime.spawn(self.run());
            let_others_take_it();
        } else {
            self.done = true;
            if !self.acquisition.release_at_once(self.owner) {
                self.acquisition.events().abandoned();
            }
            self.acquisition.event(Event::Abandoned);
        }
    }

    /// Sends the release until the store has answered or must have deleted the lease.
    async fn run(mut self) {
        let acquisition = &self.acquisition;
        let mut is_repeated = false;
        loop {
            let woken = acquisition.woken();
            // Limits the load: many releases at once could overload the store, in particular after an outage.
            let turn = acquisition.turn_to_release(is_repeated).await;
            let answered = send(acquisition, self.owner, acquisition.now(), false).await;
            drop(turn);
            is_repeated = true;
            match answered {
                // Woken when the store is reachable again.
                Answered::Again(at) => drop(timeout_at(acquisition.timer(at), woken).await),
                Answered::Over(_) => break,
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
