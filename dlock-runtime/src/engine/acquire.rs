//! Acquires one key for a task: sends requests and waits, until the task holds the lock or its wait ends.
//!
//! A dropped future releases everything that it may have acquired.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout_at};

use super::{
    acquisition::{Acquisition, Engine},
    blocking, reentrancy,
    release::Occupied,
    renewer,
};
use crate::{
    clock::Moment,
    error::LockError,
    fence::FencingToken,
    key::LockKey,
    observe::{self, Asking, LeaseOrigin, Trail},
    options::{Options, Timing},
    site::Origin,
    state::{Denial, Effect, Event},
    store::{AcquireOutcome, StoreError, StoreErrorKind},
};

/// An acquired lock, from which a guard is created.
pub(crate) struct Taken {
    pub(crate) place: Occupied,
    pub(crate) token: FencingToken,
}

impl Taken {
    /// Returns the error if the lease is not valid any more.
    pub(super) fn loss(&self) -> Option<LockError> {
        let acquisition = &self.place.acquisition;
        acquisition.ensure_at(acquisition.now()).err()
    }
}

/// Acquires `key`. Dropping the future releases everything that it has acquired so far.
pub(crate) async fn acquire(
    core: Arc<Engine>,
    key: LockKey,
    options: Options,
    origin: Origin,
) -> Result<Taken, LockError> {
    let origin = origin.with(&options);
    let timing = core.timing(options, &key);
    let timing = timing.map_err(|error| observe::not_asked(origin, error))?;
    if reentrancy::contains(core.id(), &key) {
        return Err(observe::not_asked(origin, LockError::WouldDeadlock { key }));
    }
    let asking = Asking::for_one(&key, origin);
    match one(&core, &key, timing, asking.trail()).await {
        Ok(got) => {
            asking.entered(got.taken.token, got.waited, got.now);
            Ok(got.taken)
        }
        Err(error) => Err(asking.refused(timing.wait, error)),
    }
}

/// A lock, and how long its task has waited for it.
pub(super) struct Got {
    pub(super) taken: Taken,
    waited: Duration,
    /// When it was acquired.
    now: Moment,
}

/// Runs one attempt at `key`. If it is dropped, it releases everything that it has acquired.
pub(super) async fn one(
    core: &Arc<Engine>,
    key: &LockKey,
    timing: Timing,
    trail: &Trail,
) -> Result<Got, LockError> {
    let runtime = Handle::try_current().map_err(|_| no_runtime(key))?;
    let entered = core.clock.now();
    let is_usable = |now: Moment| match core.store.at(now) {
        Ok(_) => Ok(()),
        Err(reason) => Err(LockError::Unavailable {
            key: key.clone(),
            waited: entered.elapsed(now),
            reason,
        }),
    };
    // Checked before the table is accessed: a fork's copy of its mutex may be locked forever.
    is_usable(entered)?;
    let acquisition = Acquisition::enter(core, key, timing, trail, runtime, entered)?;
    let place = Occupied::new(acquisition.clone());

    let own_runtime = blocking::own_runtime();
    let (mut event, mut now) = (Event::Woken, entered);
    let mut origin = LeaseOrigin::Granted;
    loop {
        // Created before the state is read, so no wake-up is missed.
        let woken = acquisition.woken();
        event = match acquisition.event_at(event, now) {
            Effect::Ask {
                owner,
                limit,
                queue,
            } => {
                let question = acquisition.ask_acquire(owner, limit, queue, now);
                match unless_in_vain(&acquisition, question).await {
                    // The request was sent slightly later than `now`. The earlier time is the safe one for a
                    // deadline.
                    Some(answer) => {
                        if matches!(answer, Ok(AcquireOutcome::Granted { .. })) {
                            origin = LeaseOrigin::Requested;
                        }
                        Event::Answered { sent: now, answer }
                    }
                    None => Event::Woken,
                }
            }
            Effect::WaitUntil(at) | Effect::Queue(at) => {
                if let Some(pool) = &own_runtime {
                    acquisition.look_at_pool(pool, entered, now);
                }
                // Woken by the state or by the timer: the state decides what follows in either case.
                drop(timeout_at(acquisition.timer(at), woken).await);
                Event::Woken
            }
            Effect::Enter { renew_at } => {
                // A shutdown may have ended the lease in this moment.
                let held = acquisition
                    .check_at(now)
                    .map_err(|loss| acquisition.lost_error(loss))?;
                let waited = entered.elapsed(now);
                acquisition.stops_waiting();
                if let Some(renew_at) = renew_at {
                    renewer::note(&acquisition, renew_at, now);
                } else {
                    // The renewer knows the lease already: another task has had it.
                    origin = LeaseOrigin::HandedOver;
                }
                acquisition.events().acquired(held.token, origin, waited);
                let taken = Taken {
                    place,
                    token: held.token,
                };
                return Ok(Got { taken, waited, now });
            }
            Effect::Refuse(denial) => return Err(refusal(&acquisition, denial)),
            // Only a shutdown can come between two steps. Every other effect is for another driver. In either
            // case the body must not run.
            other => {
                debug_assert!(false, "{other:?} is not for a waiting task");
                let key = key.clone();
                return Err(LockError::Closed { key });
            }
        };
        now = acquisition.now();
        is_usable(now)?;
    }
}

/// Returns the answer to the request `question`, unless the manager closes first or another task continues in
/// place of this one. The answer is then irrelevant, and a request that is not sent yet must not be sent.
async fn unless_in_vain<T>(
    acquisition: &Acquisition,
    question: impl Future<Output = T>,
) -> Option<T> {
    let mut question = pin!(question);
    let mut is_sent = false;
    loop {
        let mut woken = pin!(acquisition.woken());
        if !acquisition.is_asking() {
            return None;
        }
        let answer = poll_fn(|context| {
            if is_sent && woken.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            is_sent = true;
            match question.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => woken.as_mut().poll(context).map(|()| None),
            }
        });
        if let Some(answer) = answer.await {
            return Some(answer);
        }
    }
}

fn refusal(acquisition: &Acquisition, denial: Denial) -> LockError {
    let key = acquisition.key().clone();
    match denial {
        Denial::Busy { waited, mut holder } => {
            let label = &acquisition.core.label;
            if holder.is_here {
                holder.label = Some(label.clone());
            }
            holder.is_here = holder.label.as_ref() == Some(label);
            LockError::Busy {
                key,
                waited,
                holder: Box::new(holder),
            }
        }
        Denial::Unavailable { waited, reason } => LockError::Unavailable {
            key,
            waited,
            reason,
        },
        Denial::Closed => LockError::Closed { key },
    }
}

pub(super) fn no_runtime(key: &LockKey) -> LockError {
    LockError::Unavailable {
        key: key.clone(),
        waited: Duration::ZERO,
        reason: StoreError::new(
            StoreErrorKind::NoRuntime,
            "no tokio runtime is running here",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::manager::LockManager, options::Wait, store::memory::MemoryStore};

    /// All managers of a program have one label, and those of another program have another one.
    #[tokio::test(start_paused = true)]
    async fn a_caller_learns_whether_the_holder_is_its_own_process() {
        let store = MemoryStore::new();
        let manager = |application: &str| {
            let builder = LockManager::builder().application(application);
            builder.build_with_store(store.clone()).unwrap()
        };
        let own = manager("billing");
        let (core, held) = (own.core(), own.lock("k").acquire().await.unwrap());
        for (caller, is_here) in [
            (own.clone(), true),
            (manager("billing"), true),
            (manager("shop"), false),
        ] {
            let lock = caller.lock("k").wait(Wait::Never);
            let error = lock.acquire().await.unwrap_err();
            let LockError::Busy { holder, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(holder.label.as_ref(), Some(&core.label));
            assert_eq!(holder.is_here, is_here, "{error}");
        }
        held.release().await.unwrap();
    }
}
