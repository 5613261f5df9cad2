//! One attempt of one task at one key, as its drivers see it.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Mutex, Notify, futures::Notified},
    time::{Instant, timeout},
};
use tracing::Span;

use crate::{
    background::release_in_background,
    clock::Moment,
    error::{LockError, LostCause},
    key::LockKey,
    local::Slot,
    manager::Shared,
    observe,
    options::Timing,
    owner::OwnerId,
    state::{Effect, Event, Held, Loss},
    store::{AcquireRequest, Acquisition, Released, Renewal, StoreError},
};

/// An attempt, from its first question until the store has nothing of it left.
pub(crate) struct Section {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timing: Timing,
    pub(crate) span: Span,
    slot: Arc<Slot>,
    owner: OwnerId,
    bell: Arc<Notify>,
    /// Held by who sets the TTL: the renewal, or what keeps the lease for its `min_hold`.
    setting_ttl: Mutex<()>,
    /// Where the attempt was made, and where what outlives its task runs.
    runtime: Handle,
}

impl Section {
    /// Enters the local table; `Err` once the manager is closed.
    pub(crate) fn enter(
        shared: &Arc<Shared>,
        key: &LockKey,
        timing: Timing,
        span: Span,
        runtime: Handle,
    ) -> Result<Arc<Self>, LockError> {
        let owner = shared.owners.next();
        let bell = Arc::new(Notify::new());
        let drift = shared.store.drift(timing.ttl);
        let now = shared.clock.now();
        let slot = shared
            .local
            .enter(key, |state| {
                state.enter(owner, timing, drift, now, bell.clone());
            })
            .ok_or_else(|| LockError::Closed { key: key.clone() })?;
        let shared = shared.clone();
        Ok(Arc::new(Self {
            shared,
            timing,
            span,
            slot,
            owner,
            bell,
            setting_ttl: Mutex::default(),
            runtime,
        }))
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.slot.key
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.owner
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared.clock.now()
    }

    /// Tells the state what happened, and does what concerns everybody.
    pub(crate) fn event(&self, event: Event) -> Effect {
        let around = self.shared.surroundings();
        let effect = self.slot.state().on_event(self.owner, event, around);
        match &effect {
            Effect::Lose => self.report_loss(),
            Effect::Ring => self.bell.notify_waiters(),
            Effect::Forget(_) => self.shared.local.forget_if_idle(&self.slot),
            _ => {}
        }
        effect
    }

    fn report_loss(&self) {
        let loss = self.slot.state().loss(self.owner);
        if let Some(loss) = loss {
            observe::lost(self, &loss);
        }
        self.bell.notify_waiters();
    }

    /// The next ring. Created before the state is looked at, no ring is missed.
    pub(crate) fn ring(&self) -> Notified<'_> {
        self.bell.notified()
    }

    /// When a timer has to fire for `at`, as far as can be known now.
    pub(crate) fn timer(&self, at: Moment) -> Instant {
        let now = self.now();
        now.monotonic + at.remaining(now)
    }

    /// The lease if it is valid now, or how it was lost.
    pub(crate) fn check(&self) -> Result<Held, Loss> {
        let now = self.now();
        let mut state = self.slot.state();
        let effect = state.check(self.owner, now);
        let held = state.lease(self.owner).ok_or_else(|| {
            // Only a lease that is being given back is neither held nor lost.
            state.loss(self.owner).unwrap_or(Loss {
                cause: LostCause::Expired,
                held_for: Duration::ZERO,
            })
        });
        drop(state);
        if effect == Effect::Lose {
            self.report_loss();
        }
        held
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> LockError {
        LockError::Lost {
            key: self.key().clone(),
            held_for: loss.held_for,
            cause: loss.cause,
        }
    }

    pub(crate) async fn ask_acquire(
        &self,
        limit: Duration,
        queue: bool,
    ) -> Result<Acquisition, StoreError> {
        let request = AcquireRequest {
            key: self.key(),
            owner: self.owner,
            ttl: self.timing.ttl,
            queue,
            label: &self.shared.label,
        };
        let answer = self.shared.store.acquire(request);
        self.within(limit, "acquire", answer).await
    }

    /// `None` if the lease was given back before it could be sent.
    pub(crate) async fn ask_renew(&self, limit: Duration) -> Option<Result<Renewal, StoreError>> {
        let _alone = self.setting_ttl.lock().await;
        if !self.is_held() {
            return None;
        }
        let renewal = self
            .shared
            .store
            .renew(self.key(), self.owner, self.timing.ttl);
        Some(self.within(limit, "renew", renewal).await)
    }

    pub(crate) fn release_at_once(&self) -> bool {
        // Freed now it would be free too early; its TTL at least keeps others out.
        let is_kept = self.kept_for().is_some();
        !is_kept && self.shared.store.release_at_once(self.key(), self.owner)
    }

    /// Gives the lease back, or leaves it to the store for the rest of its `min_hold`: this process
    /// may end, and does not have to wait for that.
    pub(crate) async fn ask_release(&self) -> Result<Released, StoreError> {
        let limit = self.shared.response_limit;
        let store = &self.shared.store;
        // Carried out after it, a renewal would put the lease's TTL in place of the rest. One that
        // does not end is on a runtime that nobody runs.
        let _alone = match self.kept_for() {
            Some(_) => timeout(limit, self.setting_ttl.lock()).await.ok(),
            None => None,
        };
        let Some(rest) = self.kept_for() else {
            let release = store.release(self.key(), self.owner);
            return self.within(limit, "release", release).await;
        };
        let keep = store.renew(self.key(), self.owner, rest);
        let answer = self.within(limit, "keep", keep).await?;
        if answer == Renewal::Renewed {
            observe::kept(self, rest);
        }
        Ok(match answer {
            Renewal::Renewed => Released::WasHeld,
            Renewal::NotOwner => Released::WasGone,
        })
    }

    fn kept_for(&self) -> Option<Duration> {
        let now = self.now();
        self.slot.state().kept_for(self.owner, now)
    }

    /// The answer to a request, or that there was none in time.
    async fn within<T>(
        &self,
        limit: Duration,
        request: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(StoreError::timed_out(limit)));
        if let Err(error) = &answer {
            observe::request_failed(self, request, error);
        }
        answer
    }

    /// Gives back what the task left behind: the lease, the place in the queue, the local entry.
    ///
    /// Needs no runtime to be called from. If none is left that could send the release, the
    /// store's TTL has to do.
    pub(crate) fn leave_in_background(self: &Arc<Self>) {
        let left = self.event(Event::Left);
        self.shared.keeper.remove(self.owner);
        if !matches!(left, Effect::Forget(_)) {
            release_in_background(self);
        }
    }

    /// Whether the manager has closed before a lease was got.
    pub(crate) fn is_refused(&self) -> bool {
        self.slot.state().is_refused(self.owner)
    }

    /// Whether a lease is held, as far as anybody has looked.
    pub(crate) fn is_held(&self) -> bool {
        self.slot.state().lease(self.owner).is_some()
    }

    /// Where the manager's work for this attempt can run: where the attempt was made, where the
    /// manager was, unless that is to be avoided, and where the caller is.
    pub(crate) fn runtimes(&self, avoid_home: bool) -> Vec<Handle> {
        let home = self.shared.home.clone().filter(|_| !avoid_home);
        let (here, current) = (Some(self.runtime.clone()), Handle::try_current().ok());
        let mut runtimes: Vec<_> = [here, home, current].into_iter().flatten().collect();
        runtimes.sort_by_key(|runtime| !runs_by_itself(runtime));
        runtimes
    }
}

/// Whether a runtime has workers of its own: one of a single thread may be kept without being run.
pub(crate) fn runs_by_itself(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}
