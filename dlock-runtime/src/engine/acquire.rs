//! How a task gets a lock: asks, waits, asks again, until it holds it or its wait is over.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout_at};

use crate::{
    api::{
        guard::{LockGuard, Occupied},
        manager::Shared,
    },
    clock::Moment,
    engine::{acquisition::Section, reentrancy, renewer},
    error::LockError,
    key::LockKey,
    observe::{self, Asking, Came, Trail},
    options::{Options, Timing},
    site::Origin,
    state::{Denial, Effect, Event},
    store::{AcquireOutcome, StoreError, StoreErrorKind},
};

/// Takes `key`. Dropping the future gives back whatever it has got so far.
pub(crate) async fn acquire(
    shared: Arc<Shared>,
    key: LockKey,
    options: Options,
    origin: Origin,
) -> Result<LockGuard, LockError> {
    let timing = options.resolve(&shared.defaults, &key);
    let timing = timing.map_err(|error| observe::not_asked(origin, error))?;
    if reentrancy::contains(shared.id(), &key) {
        return Err(observe::not_asked(origin, LockError::WouldDeadlock { key }));
    }
    let asking = Asking::for_one(&key, origin);
    match one(&shared, &key, timing, asking.trail()).await {
        Ok(got) => {
            asking.entered(got.guard.fencing_token(), got.waited, got.now);
            Ok(got.guard)
        }
        Err(error) => Err(asking.refused(timing.wait, error)),
    }
}

/// A lock, and how long its task has waited for it.
pub(super) struct Got {
    pub(super) guard: LockGuard,
    waited: Duration,
    /// When it was got.
    now: Moment,
}

/// One attempt at `key`, which gives back whatever it has got when it is dropped.
pub(super) async fn one(
    shared: &Arc<Shared>,
    key: &LockKey,
    timing: Timing,
    trail: &Trail,
) -> Result<Got, LockError> {
    let runtime = Handle::try_current().map_err(|_| no_runtime(key))?;
    let entered = shared.clock.now();
    let is_usable = |now: Moment| match shared.store.at(now) {
        Ok(_) => Ok(()),
        Err(reason) => Err(LockError::Unavailable {
            key: key.clone(),
            waited: entered.elapsed(now),
            reason,
        }),
    };
    // Before the table is looked at: a fork's copy of its mutex may be locked for ever.
    is_usable(entered)?;
    let section = Section::enter(shared, key, timing, trail, runtime, entered)?;
    let place = Occupied::new(section.clone());

    let (mut event, mut now) = (Event::Woken, entered);
    let mut came = Came::HandedOn;
    loop {
        // Made before the state is looked at, it misses no ring.
        let ring = section.ring();
        event = match section.event_at(event, now) {
            Effect::Ask {
                owner,
                limit,
                queue,
            } => {
                let question = section.ask_acquire(owner, limit, queue, now);
                match unless_in_vain(&section, question).await {
                    // It was sent somewhat later than `now`, which is on the safe side.
                    Some(answer) => {
                        if matches!(answer, Ok(AcquireOutcome::Granted { .. })) {
                            came = Came::Granted;
                        }
                        Event::Answered { sent: now, answer }
                    }
                    None => Event::Woken,
                }
            }
            Effect::WaitUntil(at) | Effect::Queue(at) => {
                // Woken by a ring or by the time: the state knows what to make of either.
                drop(timeout_at(section.timer(at), ring).await);
                Event::Woken
            }
            Effect::Enter { keep } => {
                // A shutdown may have taken it in this very moment.
                let held = section
                    .check_at(now)
                    .map_err(|loss| section.lost_error(loss))?;
                let waited = entered.elapsed(now);
                section.stops_waiting();
                observe::acquired(&section, held.token, came, waited);
                if let Some(keep) = keep {
                    renewer::keep(&section, keep, now);
                }
                let guard = LockGuard::new(place, held.token);
                return Ok(Got { guard, waited, now });
            }
            Effect::Refuse(denial) => return Err(refusal(&section, denial)),
            // Only a shutdown comes between two steps; every other effect is for another driver.
            // Whatever it was, the body must not run.
            other => {
                debug_assert!(false, "{other:?} is not for a waiting task");
                let key = key.clone();
                return Err(LockError::Closed { key });
            }
        };
        now = section.now();
        is_usable(now)?;
    }
}

/// What `question` yields, unless the manager closes first, or another task goes on in place of this
/// one: then the answer matters no more, and what has not been sent yet must not be.
async fn unless_in_vain<T>(section: &Section, question: impl Future<Output = T>) -> Option<T> {
    let mut question = pin!(question);
    let mut is_sent = false;
    loop {
        let mut ring = pin!(section.ring());
        if !section.is_asking() {
            return None;
        }
        let answer = poll_fn(|context| {
            if is_sent && ring.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            is_sent = true;
            match question.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => ring.as_mut().poll(context).map(|()| None),
            }
        });
        if let Some(answer) = answer.await {
            return Some(answer);
        }
    }
}

fn refusal(section: &Section, denial: Denial) -> LockError {
    let key = section.key().clone();
    match denial {
        Denial::Busy { waited, mut holder } => {
            let label = &section.shared.label;
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
        reason: StoreError::new(StoreErrorKind::NoRuntime, "there is no tokio runtime here"),
    }
}
