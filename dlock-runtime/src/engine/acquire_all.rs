//! Acquires several locks for a task: all or none, without deadlocks between tasks.
//!
//! All keys have one order, which is the same in every process. A task sends the first requests for all of
//! them at once: if they are free, this takes one round trip. If a key is busy, the task keeps the keys that
//! sort before it, releases the keys that sort after it, and waits for the busy key. Then it sends requests
//! for the rest. A task therefore waits only for a key that sorts after every key that it holds. Deadlock is
//! therefore impossible: among tasks that wait for each other, consider the one that waits for the last key
//! in the order. The holder of that key would have to wait for a key that sorts after it, and there is none.
//!
//! Leases that are held while the call waits for another key are renewed, even with `renew = false`, so each
//! of them begins with its whole TTL. If such a lease is lost, no body has seen it: the call releases all
//! keys and starts over after a pause, within its `wait`. The body does not begin while such a lease may be gone,
//! according to a message or a failed renewal. All releases are sent at once, and each one is
//! repeated independently. `min_hold` of each key starts when its lease was acquired. `max_hold` starts for
//! all keys when the last lease was acquired.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, join_all, pending, select, select_all};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::{
    acquire::{self, Taken, no_runtime, one},
    acquisition::Engine,
    reentrancy,
    release::release,
    renewer,
};
use crate::{
    clock::Moment,
    error::{LockError, LostCause},
    key::{LockKey, LockKeys},
    observe::{self, Asking, Trail},
    options::{Options, Timing, Wait},
    random::jittered,
    site::Origin,
    store::{StoreError, StoreErrorKind},
};

/// The pause after a lease was lost while the call waited for other keys: the same cause may end the next
/// lease.
const BEFORE_STARTING_OVER: Duration = Duration::from_millis(20);

/// Acquires all of `keys` and returns their locks in the order of `keys`. Dropping the future releases
/// everything that it has acquired so far.
pub(crate) async fn acquire(
    core: Arc<Engine>,
    keys: LockKeys,
    options: Options,
    origin: Origin,
) -> Result<Vec<Taken>, LockError> {
    if let Some(only) = keys.only() {
        let options = options.for_key(only.mode);
        let only = acquire::acquire(core, only.key.clone(), options, origin);
        return Box::pin(only).await.map(|only| vec![only]);
    }
    let origin = origin.with(&options);
    let timings = keys.iter().map(|it| {
        let timing = core.timing(options.for_key(it.mode), &it.key);
        timing.map(|timing| (it.key.clone(), timing))
    });
    let timings = timings.collect::<Result<Vec<_>, _>>();
    let timings = timings.map_err(|error| observe::not_asked(origin, error))?;
    let held = |key| reentrancy::contains(core.id(), key);
    if let Some(key) = keys.iter().map(|it| &it.key).find(|key| held(key)) {
        let key = key.clone();
        return Err(observe::not_asked(origin, LockError::WouldDeadlock { key }));
    }
    if Handle::try_current().is_err() {
        return Err(observe::not_asked(origin, no_runtime(keys.first())));
    }

    let mut sorted: Vec<_> = timings.into_iter().enumerate().collect();
    sorted.sort_by(|(_, (one, _)), (_, (other, _))| one.cmp(other));
    let (_, (_, timing)) = sorted[0];
    let asking = Asking::for_several(&keys, origin);
    let call = AcquireAll {
        trail: asking.trail().clone(),
        began: core.clock.now(),
        keys: sorted.iter().map(|(_, key)| key.clone()).collect(),
        wait: timing.wait,
        core,
    };
    match call.all().await {
        Ok(all) => {
            let places = sorted.iter().map(|(place, _)| place);
            let mut as_written: Vec<_> = places.zip(all).collect();
            as_written.sort_by_key(|(place, _)| *place);
            let all: Vec<_> = as_written.into_iter().map(|(_, taken)| taken).collect();
            let now = call.core.clock.now();
            for taken in &all {
                let acquisition = &taken.place.acquisition;
                if let Some(renew_at) = acquisition.end_trial(now) {
                    renewer::note(acquisition, renew_at, now);
                }
            }
            let first = all.first().expect("a list of keys has at least one");
            asking.entered(first.token, call.began.elapsed(now), now);
            Ok(all)
        }
        Err(error) => Err(asking.refused(call.wait, refusal(error, call.waited()))),
    }
}

/// One call for several keys.
struct AcquireAll {
    core: Arc<Engine>,
    /// Sorted in the common order of keys. The timings differ in their modes only.
    keys: Vec<TimedKey>,
    wait: Wait,
    trail: Trail,
    began: Moment,
}

type TimedKey = (LockKey, Timing);

type KeyResult = Result<Taken, LockError>;

/// The reason why one pass over the keys did not reach its end.
enum Setback {
    Refused(LockError),
    /// A lease ended before all keys were held. No body has seen it, so only time is lost.
    Lost(LockError),
}

impl Setback {
    fn into_error(self) -> LockError {
        match self {
            Self::Refused(error) | Self::Lost(error) => error,
        }
    }
}

impl AcquireAll {
    /// Returns the leases of all keys, in their order.
    async fn all(&self) -> Result<Vec<Taken>, LockError> {
        let mut wait = self.wait;
        if wait == Wait::Never {
            return self.if_free().await;
        }
        loop {
            let lost = match self.in_order(wait).await {
                Ok(guards) => return Ok(guards),
                Err(Setback::Refused(error)) => return Err(error),
                Err(Setback::Lost(lost)) => lost,
            };
            let pause = jittered(BEFORE_STARTING_OVER, self.core.random.next_u64());
            match self.rest_of_wait() {
                Some(Wait::For(rest)) if rest <= pause => return Err(lost),
                None => return Err(lost),
                Some(_) => {}
            }
            observe::starts_over(&self.trail, &lost);
            sleep(pause).await;
            let Some(rest) = self.rest_of_wait() else {
                return Err(lost);
            };
            wait = rest;
        }
    }

    /// Does the same for a caller that does not wait.
    async fn if_free(&self) -> Result<Vec<Taken>, LockError> {
        let asked = self.keys.iter().map(|key| self.one(key, Wait::Never));
        let (mut taken, mut failure) = (Vec::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(got) => taken.push(got),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let failure = match failure {
            Some(error) => Some(error),
            None => self.settled(&taken).await.err().map(Setback::into_error),
        };
        let Some(error) = failure else {
            return Ok(taken);
        };
        // Awaited: a caller that finds one key busy must not find the other keys busy because of this call.
        give_back(taken).await;
        Err(error)
    }

    /// Makes one pass over the keys, in which no lease is lost.
    async fn in_order(&self, wait: Wait) -> Result<Vec<Taken>, Setback> {
        let mut held = Vec::with_capacity(self.keys.len());
        match self.take_all(&mut held, wait).await {
            Ok(()) => Ok(held),
            Err(setback) => {
                // Awaited, as above: the caller may try again at once.
                give_back(held).await;
                Err(setback)
            }
        }
    }

    /// Acquires the keys that are missing in `held`.
    async fn take_all(&self, held: &mut Vec<Taken>, mut wait: Wait) -> Result<(), Setback> {
        while let Some((next, others)) = self.keys[held.len()..].split_first() {
            let (taken, answers) = self.wait_and_ask(held, next, others, wait).await?;
            held.push(taken);
            let mut failure = None;
            for answer in answers {
                match answer {
                    Ok(taken) => held.push(taken),
                    Err(error) => {
                        failure = Some(error);
                        // The answers for later keys are dropped, which releases them.
                        break;
                    }
                }
            }
            let Some(missing) = self.keys.get(held.len()) else {
                break;
            };
            wait = self.rest_of_wait().ok_or_else(|| {
                Setback::Refused(failure.unwrap_or_else(|| self.out_of_time(&missing.0)))
            })?;
        }
        self.settled(held).await
    }

    /// Waits until all are held for certain: the first may have ended, or be doubted, since the call waited for the
    /// last.
    async fn settled(&self, held: &[Taken]) -> Result<(), Setback> {
        let acquisitions = || held.iter().map(|taken| &taken.place.acquisition);
        while let Some(doubted) = acquisitions().find(|it| it.is_doubted()) {
            let answer = self.core.response_limit;
            let limit = match self.rest_of_wait() {
                Some(Wait::Forever) => Duration::MAX,
                Some(Wait::For(rest)) => rest.max(answer),
                // A caller that does not wait still needs the time of one answer.
                Some(Wait::Never) | None => answer,
            };
            timeout(limit, doubted.settled())
                .await
                .map_err(|_| Setback::Refused(self.out_of_time(doubted.key())))?;
        }
        match held.iter().find_map(Taken::loss) {
            None => Ok(()),
            Some(error) => Err(Setback::Lost(error)),
        }
    }

    /// Waits for `next`, the first key that is not `held`, and sends requests for the keys after it at the
    /// same time. If `next` is not free, their answers are ignored, and the keys that were acquired are
    /// released.
    async fn wait_and_ask(
        &self,
        held: &[Taken],
        next: &TimedKey,
        others: &[TimedKey],
        wait: Wait,
    ) -> Result<(Taken, Vec<KeyResult>), Setback> {
        let waiting = pin!(self.one(next, wait));
        let asking = join_all(others.iter().map(|key| self.ask_once(key, wait)));
        match select(waiting, asking).await {
            Either::Left((taken, asking)) => {
                let taken = taken.map_err(Setback::Refused)?;
                let answers = asking.await;
                refuse_if_hopeless(&answers)?;
                Ok((taken, answers))
            }
            // A store answers in the order of the requests: `next`, whose request was sent first, is not
            // free. Holding a later key while waiting for `next` could cause a deadlock.
            Either::Right((answers, waiting)) => {
                refuse_if_hopeless(&answers)?;
                drop(answers);
                match select(waiting, pin!(any_lost(held))).await {
                    Either::Left((taken, _)) => Ok((taken.map_err(Setback::Refused)?, Vec::new())),
                    Either::Right((lost, _)) => Err(Setback::Lost(lost)),
                }
            }
        }
    }

    /// Sends one acquire request for `key`, without a place in its queue.
    async fn ask_once(&self, key: &TimedKey, wait: Wait) -> KeyResult {
        let asking = self.one(key, Wait::Never);
        match wait {
            Wait::For(rest) => timeout(rest, asking)
                .await
                .unwrap_or_else(|_| Err(self.out_of_time(&key.0))),
            Wait::Never | Wait::Forever => asking.await,
        }
    }

    async fn one(&self, (key, timing): &TimedKey, wait: Wait) -> KeyResult {
        let timing = Timing {
            wait,
            on_trial: true,
            ..*timing
        };
        let got = one(&self.core, key, timing, &self.trail).await?;
        Ok(got.taken)
    }

    fn waited(&self) -> Duration {
        self.began.elapsed(self.core.clock.now())
    }

    /// Returns the rest of the wait, or `None` if the caller does not wait any longer.
    fn rest_of_wait(&self) -> Option<Wait> {
        match self.wait {
            Wait::Never => None,
            Wait::Forever => Some(Wait::Forever),
            Wait::For(limit) => {
                let end = self.began.plus(limit);
                let rest = end.remaining(self.core.clock.now());
                (!rest.is_zero()).then_some(Wait::For(rest))
            }
        }
    }

    /// Returns the error if the wait ends before the store has answered about `key`.
    fn out_of_time(&self, key: &LockKey) -> LockError {
        let waited = self.waited();
        LockError::Unavailable {
            key: key.clone(),
            waited,
            reason: StoreError::timed_out(waited),
        }
    }
}

/// Turns `error` into the error of the whole call, which has `waited` and whose body has not run.
fn refusal(error: LockError, waited: Duration) -> LockError {
    match error {
        LockError::Busy { key, holder, .. } => LockError::Busy {
            key,
            waited,
            holder,
        },
        LockError::Unavailable { key, reason, .. } => LockError::Unavailable {
            key,
            waited,
            reason,
        },
        LockError::Lost {
            key,
            cause: LostCause::ShutDown,
            ..
        } => LockError::Closed { key },
        LockError::Lost { key, cause, .. } => {
            let text = format!("its lease ended before the other keys were acquired: {cause}");
            LockError::Unavailable {
                key,
                waited,
                reason: StoreError::new(StoreErrorKind::TimedOut, text),
            }
        }
        error => error,
    }
}

/// Fails if one of `answers` shows that waiting cannot succeed.
fn refuse_if_hopeless(answers: &[KeyResult]) -> Result<(), Setback> {
    let hopeless = |error: &&LockError| match error {
        LockError::Busy { .. } | LockError::Lost { .. } => false,
        LockError::Unavailable { reason, .. } => reason.is_final(),
        _ => true,
    };
    let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
    match errors.find(hopeless) {
        Some(error) => Err(Setback::Refused(error.clone())),
        None => Ok(()),
    }
}

/// Releases all of them and waits for the answers. The caller never had these leases, so their loss is not
/// reported.
async fn give_back(taken: Vec<Taken>) {
    join_all(taken.into_iter().map(|taken| release(taken.place))).await;
}

/// Waits until one of `held` is lost.
async fn any_lost(held: &[Taken]) -> LockError {
    if held.is_empty() {
        return pending().await;
    }
    let losses = held
        .iter()
        .map(|taken| Box::pin(taken.place.acquisition.lost()));
    select_all(losses).await.0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use dlock_testkit::eventually;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        api::manager::LockManager,
        store::{
            AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch,
            Renewal, StoreProperties, memory::MemoryStore,
        },
    };

    /// A store in memory, whose renewals fail for a while.
    #[derive(Clone, Default)]
    struct Failing {
        store: MemoryStore,
        fails: Arc<AtomicBool>,
        failed: Arc<AtomicUsize>,
    }

    impl LockStore for Failing {
        async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
            self.store.acquire(request).await
        }

        async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
            if !self.fails.load(Ordering::Relaxed) {
                return self.store.renew(batch).await;
            }
            self.failed.fetch_add(1, Ordering::Relaxed);
            let failure = || Err(StoreError::new(StoreErrorKind::Disconnected, "on purpose"));
            batch.requests.iter().map(|_| failure()).collect()
        }

        async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
            self.store.release(request).await
        }

        fn properties(&self) -> StoreProperties<'_> {
            self.store.properties()
        }
    }

    /// Another process may have the lease by then, so the call does not begin before, although it has all keys.
    #[tokio::test(start_paused = true)]
    async fn a_call_begins_when_a_renewal_has_confirmed_a_lease_that_may_be_gone() {
        const LONG: Duration = Duration::from_secs(60);
        const TTL: Duration = Duration::from_secs(30);
        let store = Failing::default();
        let builder = LockManager::builder().ttl(TTL).wait(Wait::Forever);
        let other = builder
            .clone()
            .build_with_store(store.store.clone())
            .unwrap();
        let manager = builder.build_with_store(store.clone()).unwrap();
        let holder = other.lock("b").acquire().await.unwrap();
        store.fails.store(true, Ordering::Relaxed);
        let call = tokio::spawn(manager.lock_all(["a", "b"]).acquire());
        eventually(LONG, "a renewal has failed", async || {
            store.failed.load(Ordering::Relaxed) > 0
        })
        .await;
        holder.release().await.unwrap();
        eventually(LONG, "the call has the other key", async || {
            other.lock("b").try_acquire().await.unwrap().is_none()
        })
        .await;
        assert!(
            !call.is_finished(),
            "broken promise: it begins with a lease that may be gone"
        );
        store.fails.store(false, Ordering::Relaxed);
        let since = Instant::now();
        let guard = timeout(TTL, call).await.unwrap().unwrap().unwrap();
        assert_eq!(guard.ensure_held(), Ok(()));
        assert!(since.elapsed() < TTL / 3, "{:?}", since.elapsed());
        guard.release().await.unwrap();
    }

    /// A shutdown ends the first lease just before the wait for the second one is over.
    #[test]
    fn a_lease_that_ends_before_the_others_are_there_was_never_the_callers_to_lose() {
        let waited = Duration::from_secs(2);
        let refused = |cause| {
            let lost = LockError::Lost {
                key: LockKey::new("order:42").unwrap(),
                held_for: Duration::from_secs(1),
                cause,
            };
            refusal(lost, waited)
        };
        let error = refused(LostCause::ShutDown);
        assert!(matches!(error, LockError::Closed { .. }), "{error}");
        assert_eq!(error.key(), "order:42");
        for cause in [LostCause::Expired, LostCause::Revoked, LostCause::MaxHold] {
            let error = refused(cause.clone());
            let LockError::Unavailable { waited: told, .. } = &error else {
                panic!("{cause}: {error}");
            };
            assert_eq!(*told, waited);
            assert!(error.to_string().contains(&cause.to_string()), "{error}");
        }
    }

    fn refused(kind: StoreErrorKind) -> LockError {
        LockError::Unavailable {
            key: LockKey::new("order:42").unwrap(),
            waited: Duration::ZERO,
            reason: StoreError::new(kind, "on purpose"),
        }
    }

    #[test]
    fn a_refused_call_has_waited_since_it_began() {
        let waited = Duration::from_secs(2);
        let busy = LockError::Busy {
            key: LockKey::new("order:42").unwrap(),
            waited: Duration::ZERO,
            holder: Box::default(),
        };
        for error in [busy, refused(StoreErrorKind::Disconnected)] {
            let told = refusal(error.clone(), waited);
            assert_eq!((told.code(), told.key()), (error.code(), error.key()));
            let (LockError::Busy { waited: it, .. } | LockError::Unavailable { waited: it, .. }) =
                &told
            else {
                panic!("{told}");
            };
            assert_eq!(*it, waited, "{told}");
        }
    }

    /// A call that goes on waiting would only find out later.
    #[test]
    fn an_answer_that_time_does_not_change_ends_the_call_at_once() {
        let key = LockKey::new("order:42").unwrap();
        let busy = LockError::Busy {
            key: key.clone(),
            waited: Duration::ZERO,
            holder: Box::default(),
        };
        let lost = LockError::Lost {
            key: key.clone(),
            held_for: Duration::ZERO,
            cause: LostCause::Revoked,
        };
        let away = refused(StoreErrorKind::Disconnected);
        for error in [busy.clone(), lost, away.clone()] {
            assert!(refuse_if_hopeless(&[Err(error)]).is_ok());
        }
        for error in [refused(StoreErrorKind::Denied), LockError::Closed { key }] {
            let answers = [busy.clone(), away.clone(), error.clone()].map(Err);
            let Err(Setback::Refused(told)) = refuse_if_hopeless(&answers) else {
                panic!("{error}");
            };
            assert_eq!(told, error);
        }
    }
}
