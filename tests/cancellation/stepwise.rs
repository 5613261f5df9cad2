//! A store in which every request is two awaits, and which stops or panics at the one a test names.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use dlock::store::{
    AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockModes, LockStore, OwnerId,
    Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch,
    Renewal, StoreError, StoreErrorKind, StoreHooks, StoreProperties, memory::MemoryStore,
    renew_each,
};
use futures_util::FutureExt;
use tokio::sync::watch;

use crate::common::Kind;

/// A memory store whose requests await before and after they are carried out.
///
/// It needs no runtime, and so survives each.
#[derive(Clone)]
pub(crate) struct Stepwise {
    pub(crate) store: MemoryStore,
    steps: Arc<Steps>,
    /// Whether it can release without a runtime, as [`MemoryStore`] and no server can.
    releases_at_once: bool,
    /// The last request of each owner that was carried out: one that was sent before comes no more.
    /// It is locked while one is carried out and noted, as a server does one thing after the other.
    last: Arc<Mutex<HashMap<OwnerId, Last>>>,
}

/// The number of a request. That of each owner has a mutex of its own: to carry out a request may wake
/// another owner, which then asks for something.
type Last = Arc<Mutex<u64>>;

/// The awaits of one or several stores.
pub(crate) struct Steps {
    plan: Mutex<Plan>,
    frozen: watch::Sender<bool>,
}

#[derive(Default)]
struct Plan {
    /// Whether steps count by now.
    counts: bool,
    taken: usize,
    freeze_at: Option<usize>,
    panic_at: Option<usize>,
    always_panics: Option<Kind>,
    /// What was carried out and has changed something.
    done: Vec<(Kind, OwnerId)>,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            plan: Mutex::default(),
            frozen: watch::Sender::new(false),
        }
    }
}

impl Steps {
    fn plan<T>(&self, change: impl FnOnce(&mut Plan) -> T) -> T {
        change(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on steps count, the first being number 0.
    pub(crate) fn count(&self) {
        self.plan(|plan| plan.counts = true);
    }

    pub(crate) fn taken(&self) -> usize {
        self.plan(|plan| plan.taken)
    }

    /// Nothing moves from this step on.
    pub(crate) fn freeze_at(&self, step: usize) {
        self.plan(|plan| plan.freeze_at = Some(step));
    }

    pub(crate) fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    /// Waits until a request has come to the step at which all stops.
    pub(crate) async fn frozen(&self) {
        let mut frozen = self.frozen.subscribe();
        frozen.wait_for(|it| *it).await.unwrap();
    }

    /// Everything goes on.
    pub(crate) fn thaw(&self) {
        self.plan(|plan| plan.freeze_at = None);
        self.frozen.send_replace(false);
    }

    /// The request panics that comes to this step.
    pub(crate) fn panic_at(&self, step: usize) {
        self.plan(|plan| plan.panic_at = Some(step));
    }

    /// All requests of this kind panic.
    pub(crate) fn always_panic(&self, kind: Kind) {
        self.plan(|plan| plan.always_panics = Some(kind));
    }

    /// Every owner that has asked has given back afterwards, or has left the rest of a `min_hold` to the store.
    pub(crate) fn assert_nothing_is_owed(&self, may_be_kept: bool) {
        let done = self.plan(|plan| plan.done.clone());
        for (kind, owner) in &done {
            let last = done.iter().rfind(|(_, it)| it == owner).unwrap().0;
            let settled = last == Kind::Release || (may_be_kept && last == Kind::Renew);
            assert!(settled || *kind != Kind::Acquire, "{last:?} came last");
        }
    }

    async fn step(&self, kind: Kind) {
        let (number, freezes) = self.plan(|plan| {
            let number = plan.taken;
            if !plan.counts {
                return (None, false);
            }
            plan.taken += 1;
            let freezes = plan.freeze_at.is_some_and(|at| number >= at);
            (Some(number), freezes)
        });
        let panics = self.plan(|plan| {
            let always = plan.always_panics == Some(kind) && plan.counts;
            always || (number.is_some() && plan.panic_at == number)
        });
        assert!(!panics, "on purpose, by the store");
        if freezes {
            let mut frozen = self.frozen.subscribe();
            self.frozen.send_replace(true);
            frozen.wait_for(|it| !*it).await.unwrap();
        }
        let mut is_first = true;
        poll_fn(|context| {
            if std::mem::take(&mut is_first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl Stepwise {
    pub(crate) fn new(steps: &Arc<Steps>, at_once: bool) -> Self {
        Self {
            store: MemoryStore::new(),
            steps: steps.clone(),
            releases_at_once: at_once,
            last: Arc::default(),
        }
    }

    /// Does what the store has to do for a request, and notes it, before any other one of that owner. If
    /// it was `sent`, what was sent before and has not come yet comes no more.
    fn at_once<T>(
        &self,
        kind: Kind,
        owner: OwnerId,
        sent: Option<u64>,
        request: impl Future<Output = Result<T, StoreError>>,
        changes: impl Fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.entry(owner).or_default().clone()
        };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = sent {
            if *last > sent {
                let kind = StoreErrorKind::Disconnected;
                return Err(StoreError::new(kind, "another request has overtaken it"));
            }
            *last = sent;
        }
        let answer = request.now_or_never();
        let answer = answer.expect("a store in memory answers at once")?;
        if changes(&answer) {
            self.steps.plan(|plan| plan.done.push((kind, owner)));
        }
        Ok(answer)
    }

    async fn carry_out<T>(
        &self,
        kind: Kind,
        owner: OwnerId,
        request: impl Future<Output = Result<T, StoreError>>,
        changes: impl Fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        static SENT: AtomicU64 = AtomicU64::new(0);
        let sent = SENT.fetch_add(1, Ordering::Relaxed);
        self.steps.step(kind).await;
        let answer = self.at_once(kind, owner, Some(sent), request, changes)?;
        self.steps.step(kind).await;
        Ok(answer)
    }
}

impl LockStore for Stepwise {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let asks = request.queue != Queue::No;
        let changes =
            |answer: &AcquireOutcome| asks || matches!(answer, AcquireOutcome::Granted { .. });
        let acquire = self.store.acquire(request);
        self.carry_out(Kind::Acquire, request.owner, acquire, changes)
            .await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let changes = |answer: &Renewal| *answer == Renewal::Renewed;
        renew_each(batch, |request| {
            let renew = self.store.renew_one(request);
            self.carry_out(Kind::Renew, request.owner, renew, changes)
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { owner, .. } = request;
        let release = self.store.release(request);
        self.carry_out(Kind::Release, owner, release, |_| true)
            .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .modes(LockModes::ALL)
            .hooks(self)
    }
}

impl QuorumNode for Stepwise {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let asks = proposal.notice;
        let changes =
            |answer: &AcquireOutcome| asks || matches!(answer, AcquireOutcome::Granted { .. });
        let owner = proposal.request.owner;
        let propose = self.store.propose(proposal);
        self.carry_out(Kind::Acquire, owner, propose, changes).await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest { owner, .. } = request;
        let raise = self.store.raise(request);
        self.carry_out(Kind::Raise, owner, raise, |_| false).await
    }
}

impl StoreHooks for Stepwise {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest { owner, .. } = request;
        let release = async { Ok(self.store.release_at_once(request)) };
        let is_done = |released: &bool| *released;
        self.releases_at_once
            && self.at_once(Kind::Release, owner, None, release, is_done) == Ok(true)
    }
}

/// What was carried out is noted in the order in which it was.
#[test]
fn a_renewal_that_is_carried_out_before_the_release_is_noted_before_it() {
    use std::{sync::mpsc, time::Duration};

    use crate::common::{OneKey, soon};

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let steps = Arc::<Steps>::default();
    let store = Stepwise::new(&steps, false);
    let key = OneKey::new(store.clone(), "order:42");
    let owner = OneKey::<Stepwise>::owner();
    runtime.block_on(soon(key.granted(owner, Duration::from_secs(30))));
    let (carried_out, is_carried_out) = mpsc::channel();
    let (released, is_released) = mpsc::channel();
    let plain = OneKey::new(store.store.clone(), "order:42");
    let renewal = runtime.spawn(async move {
        let renew = async move {
            let answer = Ok(plain.renew(owner).await);
            carried_out.send(()).unwrap();
            // It is held up here, while the release would overtake it.
            is_released.recv_timeout(Duration::from_millis(200)).ok();
            answer
        };
        let changes = |_: &Renewal| true;
        store.carry_out(Kind::Renew, owner, renew, changes).await
    });
    is_carried_out.recv().unwrap();
    runtime.block_on(soon(key.release(owner)));
    released.send(()).ok();
    runtime.block_on(soon(renewal)).unwrap().unwrap();
    steps.assert_nothing_is_owed(false);
}
