//! The tools of a case: a store, its own key, and requests whose errors end the case.

use std::{
    cell::{Cell, RefCell},
    fmt::{self, Debug},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::{
    Holder, LockKey, LockMode, StoreError,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore, OwnerId,
        Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewRequest,
        Renewal,
    },
};
use tokio::time::{Instant, sleep};

/// The TTL of leases that last for the whole case.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// The label of every holder.
pub(crate) const LABEL: &str = "conformance@host/1";

/// The amount by which a store may report too short a rest of a lease, because it may count in whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// A rule was broken.
pub(crate) struct Broken {
    pub(crate) expected: String,
    pub(crate) seen: String,
}

/// Shows the observed answer: a report has its own text for the expected one.
impl Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.seen)
    }
}

impl Broken {
    pub(crate) fn new(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            seen: seen.into(),
        }
    }

    /// The same rule, which can be broken while the store keeps all promises about exclusion and tokens.
    pub(crate) fn kept_promises(mut self) -> Self {
        if let Some(seen) = self.seen.strip_prefix(PROMISE) {
            self.seen = seen.to_owned();
        }
        self
    }
}

/// The words about a rule without which two owners could hold a key, or a resource could accept a late write. A runner of
/// tests may look for them: such a failure is real, even if a second run passes.
const PROMISE: &str = "broken promise: ";

/// Says that the rule is such a one.
pub(crate) fn promise(what: &str) -> impl FnOnce(Broken) -> Broken {
    move |Broken { expected, seen }| Broken::new(expected, format!("{PROMISE}{what}: {seen}"))
}

/// Ends the case unless `is_kept`.
pub(crate) fn expect(is_kept: bool, expected: &str, seen: impl Debug) -> Result<(), Broken> {
    if is_kept {
        return Ok(());
    }
    Err(Broken::new(expected, format!("{seen:?}")))
}

/// Ends the case unless `seen` is the remaining time of a lease of this TTL that was requested at `asked`.
///
/// The store starts to count after that time, so a paused machine does not count against the store.
pub(crate) fn expect_rest(seen: Duration, ttl: Duration, asked: Instant) -> Result<(), Broken> {
    let is_rest = seen <= ttl && seen + asked.elapsed() + ROUNDING >= ttl;
    expect(is_rest, &format!("the rest of a TTL of {ttl:?}"), seen)
}

/// Ends the case unless both are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "cases say what they expect in one line"
)]
pub(crate) fn expect_eq<T: Debug + PartialEq>(
    seen: T,
    expected: T,
    of: &str,
) -> Result<(), Broken> {
    if seen == expected {
        return Ok(());
    }
    Err(Broken::new(
        format!("{expected:?} {of}"),
        format!("{seen:?}"),
    ))
}

/// The terms of all cases of a suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The TTL of a lease that a case lets expire.
    pub(crate) brief: Duration,
    /// The maximum time of a case.
    pub(crate) limit: Duration,
    pub(crate) keeps_places: bool,
    pub(crate) is_alone: bool,
}

/// One case over one store.
pub(crate) struct Trial<'a, S> {
    pub(crate) store: &'a S,
    pub(crate) key: LockKey,
    pub(crate) terms: Terms,
    /// The time by which requests must be answered. After it, the case says nothing about the store.
    hurry: Cell<Option<Instant>>,
    /// Every owner that has requested the key.
    used: RefCell<Vec<(OwnerId, LockMode)>>,
}

impl<'a, S: LockStore> Trial<'a, S> {
    pub(crate) fn new(store: &'a S, terms: Terms, case: &str) -> Self {
        Self {
            store,
            key: key(case),
            terms,
            hurry: Cell::new(None),
            used: RefCell::default(),
        }
    }

    /// Returns the same trial for another key.
    pub(crate) fn elsewhere(&self, number: usize) -> Self {
        self.at(key(&number.to_string()))
    }

    /// Returns the same trial for a key that begins like the key of this trial.
    pub(crate) fn beside(&self, rest: &str) -> Self {
        let text = format!("{}:{rest}", self.key);
        self.at(LockKey::new(text).expect("it is plain, and no longer than a key may be"))
    }

    fn at(&self, key: LockKey) -> Self {
        Self {
            key,
            hurry: Cell::new(None),
            used: RefCell::default(),
            ..*self
        }
    }

    pub(crate) async fn ask(
        &self,
        owner: OwnerId,
        ttl: Duration,
        queue: Queue,
    ) -> Result<AcquireOutcome, Broken> {
        self.ask_in(LockMode::Exclusive, owner, ttl, queue).await
    }

    pub(crate) async fn ask_in(
        &self,
        mode: LockMode,
        owner: OwnerId,
        ttl: Duration,
        queue: Queue,
    ) -> Result<AcquireOutcome, Broken> {
        self.used.borrow_mut().push((owner, mode));
        let request = AcquireRequest::new(&self.key, owner, ttl).mode(mode);
        let answer = self.store.acquire(request.queue(queue).label(LABEL)).await;
        answered(answer, "acquire")
    }

    /// Returns the answer to an owner that does not wait.
    pub(crate) async fn ask_once(&self, owner: OwnerId) -> Result<AcquireOutcome, Broken> {
        self.ask(owner, TTL, Queue::No).await
    }

    /// Returns the fence with which the owner acquires the key or already holds it.
    pub(crate) async fn granted(&self, owner: OwnerId, ttl: Duration) -> Result<u64, Broken> {
        fence_of(self.ask(owner, ttl, Queue::ForLease).await?)
    }

    /// Returns the holder of the key. From now on `owner` waits.
    pub(crate) async fn busy(&self, owner: OwnerId) -> Result<Holder, Broken> {
        holder_of(self.ask(owner, TTL, Queue::ForLease).await?)
    }

    /// Returns the holder of the key, for an owner that does not wait.
    pub(crate) async fn busy_once(&self, owner: OwnerId) -> Result<Holder, Broken> {
        holder_of(self.ask_once(owner).await?)
    }

    /// Sets the time in which the following requests must be answered. If the machine pauses for longer, the
    /// case is repeated: places of waiters and unconfirmed grants, for example, end by themselves.
    pub(crate) fn hurry(&self, time: Duration) {
        self.hurry.set(Some(Instant::now() + time));
    }

    /// Ends the time limit for requests.
    pub(crate) fn calm(&self) -> Result<(), Broken> {
        if self.is_late() {
            let expected = "requests that are answered long before a short lease expires";
            return Err(Broken::new(expected, "slower requests"));
        }
        self.hurry.set(None);
        Ok(())
    }

    pub(crate) fn is_late(&self) -> bool {
        let until = self.hurry.get();
        until.is_some_and(|until| until <= Instant::now())
    }

    /// Expects the fence `least`, or a greater one if other clients count fences of the store at the same time.
    pub(crate) fn expect_fence(&self, seen: u64, least: u64, of: &str) -> Result<(), Broken> {
        let is_right = seen == least || (!self.terms.is_alone && seen > least);
        let at_least = if self.terms.is_alone { "" } else { "at least " };
        expect(is_right, &format!("{at_least}{least} {of}"), seen)
    }

    pub(crate) fn renewal(&self, owner: OwnerId, ttl: Duration) -> RenewRequest<'_> {
        RenewRequest::new(&self.key, owner, ttl).label(LABEL)
    }

    pub(crate) async fn renew(&self, owner: OwnerId) -> Result<Renewal, Broken> {
        answered(
            self.store.renew_one(self.renewal(owner, TTL)).await,
            "renew",
        )
    }

    pub(crate) async fn release(&self, owner: OwnerId) -> Result<Released, Broken> {
        self.release_in(LockMode::Exclusive, owner).await
    }

    pub(crate) async fn release_in(
        &self,
        mode: LockMode,
        owner: OwnerId,
    ) -> Result<Released, Broken> {
        let release = ReleaseRequest::new(&self.key, owner).mode(mode);
        answered(self.store.release(release).await, "release")
    }

    /// Releases the leases and places of a case that ended early.
    pub(crate) async fn clean_up(&self) {
        for (owner, mode) in self.used.take() {
            // A lease that cannot be released expires by itself.
            self.release_in(mode, owner).await.ok();
        }
    }

    /// Releases the key or the place of each owner.
    pub(crate) async fn release_all(
        &self,
        owners: impl IntoIterator<Item = OwnerId>,
    ) -> Result<(), Broken> {
        for owner in owners {
            self.release(owner).await?;
        }
        Ok(())
    }

    /// Repeats `find` until it finds something. If it does not, the error shows the last observation.
    pub(crate) async fn until<T, F, Seen: Debug>(
        &self,
        expected: &str,
        mut find: impl FnMut() -> F,
    ) -> Result<T, Broken>
    where
        F: Future<Output = Result<Result<T, Seen>, Broken>>,
    {
        let begun = Instant::now();
        loop {
            match find().await? {
                Ok(found) => return Ok(found),
                // The limit of the case would not show the observation.
                Err(seen) if begun.elapsed() >= self.terms.limit / 2 => {
                    return Err(Broken::new(expected, format!("{seen:?}")));
                }
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Registers a client that listens for hints.
    pub(crate) fn listen(&self) -> Result<(ClientId, Arc<Heard>), Broken> {
        let Some(hooks) = self.store.properties().hooks else {
            let expected = "hooks that register a manager for hints";
            return Err(Broken::new(expected, "none"));
        };
        let (client, heard) = (ClientId::new(&SystemRandom), Arc::new(Heard::default()));
        hooks.attach(client, HintSink::new(heard.clone()));
        Ok((client, heard))
    }
}

impl<S: QuorumNode> Trial<'_, S> {
    pub(crate) async fn propose(
        &self,
        owner: OwnerId,
        fence: u64,
        notice: bool,
    ) -> Result<AcquireOutcome, Broken> {
        self.propose_in(LockMode::Exclusive, owner, fence, notice)
            .await
    }

    pub(crate) async fn propose_in(
        &self,
        mode: LockMode,
        owner: OwnerId,
        fence: u64,
        notice: bool,
    ) -> Result<AcquireOutcome, Broken> {
        self.used.borrow_mut().push((owner, mode));
        let request = AcquireRequest::new(&self.key, owner, TTL).mode(mode);
        let request = request.label(LABEL);
        let proposal = Proposal::new(request, fence).notice(notice);
        answered(self.store.propose(proposal).await, "propose")
    }

    /// Returns the holder of the key. From now on `owner` waits for a notice.
    pub(crate) async fn wait_for_notice(&self, owner: OwnerId) -> Result<Holder, Broken> {
        holder_of(self.propose(owner, 0, true).await?)
    }

    pub(crate) async fn raise(&self, owner: OwnerId, from: u64, to: u64) -> Result<Raised, Broken> {
        let raised = self
            .store
            .raise(RaiseRequest::new(&self.key, owner, from, to))
            .await;
        answered(raised, "raise")
    }
}

/// Returns a key that no other run of the suite uses.
fn key(case: &str) -> LockKey {
    let run = ClientId::new(&SystemRandom);
    LockKey::new(format!("conformance:{case}:{run}")).expect("it is short and plain")
}

/// Returns an owner of a new process.
pub(crate) fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

pub(crate) fn owners<const N: usize>() -> [OwnerId; N] {
    [(); N].map(|()| owner())
}

fn answered<T>(answer: Result<T, StoreError>, request: &str) -> Result<T, Broken> {
    answer.map_err(|error| {
        let expected = format!("an answer to `{request}` from a reachable store");
        Broken::new(expected, error.to_string())
    })
}

pub(crate) fn fence_of(answer: AcquireOutcome) -> Result<u64, Broken> {
    match answer {
        AcquireOutcome::Granted { fence, .. } => Ok(fence),
        other => Err(Broken::new("AcquireOutcome::Granted", format!("{other:?}"))),
    }
}

pub(crate) fn holder_of(answer: AcquireOutcome) -> Result<Holder, Broken> {
    match answer {
        AcquireOutcome::Busy(holder) => Ok(holder),
        AcquireOutcome::Granted { .. } => {
            let broken = Broken::new("AcquireOutcome::Busy", format!("{answer:?}"));
            Err(promise("the key was granted beside its holder")(broken))
        }
        other => Err(Broken::new("AcquireOutcome::Busy", format!("{other:?}"))),
    }
}

/// The hints for one client.
#[derive(Default)]
pub(crate) struct Heard {
    hints: Mutex<Vec<(String, OwnerId, u64)>>,
    numbers: Mutex<Vec<(OwnerId, u64)>>,
}

impl Heard {
    fn hints(&self) -> MutexGuard<'_, Vec<(String, OwnerId, u64)>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first received hint for `waiter`.
    pub(crate) fn hint_for(&self, waiter: OwnerId) -> Option<(String, OwnerId, u64)> {
        let hints = self.hints();
        hints.iter().find(|(_, owner, _)| *owner == waiter).cloned()
    }

    /// Returns the number of the first hint for `waiter`.
    pub(crate) fn number_for(&self, waiter: OwnerId) -> Option<u64> {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_waiter = numbers.iter().filter(|(owner, _)| *owner == waiter);
        of_waiter.next().map(|(_, number)| *number)
    }

    /// Waits for a hint for `waiter`, but only for a short time: hints may be lost.
    pub(crate) async fn wait_for(&self, waiter: OwnerId) {
        for _ in 0..10 {
            if self.hint_for(waiter).is_some() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns all received hints: keys, owners and fences.
    pub(crate) fn all(&self) -> Vec<(String, OwnerId, u64)> {
        self.hints().clone()
    }
}

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push((hint.owner, hint.number));
        drop(numbers);
        let hint = (hint.key.to_owned(), hint.owner, hint.fence);
        self.hints().push(hint);
        true
    }

    fn look_again(&self) -> bool {
        true
    }
}
