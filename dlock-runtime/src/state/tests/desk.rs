//! A test bench for rules: a state, its time, and the answers of the store.

use super::*;

/// Attempts at one key, and a clock that moves only on command.
///
/// Methods without a number refer to the first attempt.
pub(super) struct Desk {
    pub(super) state: KeyState<u64>,
    pub(super) client: ClientId,
    pub(super) owners: Owners,
    pub(super) now: Moment,
    pub(super) handover: bool,
    pub(super) grants: bool,
}

/// Always the same value: no jitter.
pub(super) struct NotRandom;

impl Random for NotRandom {
    fn next_u64(&self) -> u64 {
        0
    }
}

/// The context of the state. A function instead would borrow the state as well.
macro_rules! context {
    ($desk:expr) => {
        Context {
            now: $desk.now,
            response_limit: SECOND,
            handover: $desk.handover,
            grants: $desk.grants,
            random: &NotRandom,
            owners: &$desk.owners,
        }
    };
}
pub(super) use context;

impl Desk {
    pub(super) fn new(timing: Timing) -> Self {
        let client = ClientId::new(&SystemRandom);
        let mut desk = Self {
            state: KeyState::default(),
            client,
            owners: Owners::new(client),
            now: Moment {
                monotonic: Instant::now(),
                boot: SECOND,
            },
            handover: true,
            grants: true,
        };
        desk.enter(1, timing);
        desk
    }

    pub(super) fn waiting(wait: Wait) -> Self {
        Self::new(waits(wait))
    }

    /// Creates a desk whose first attempt holds a lease that was requested just now.
    pub(super) fn holding(timing: Timing) -> Self {
        let mut desk = Self::new(timing);
        desk.is_granted(7);
        desk
    }

    /// The first attempt sends a request and gets the lease.
    pub(super) fn is_granted(&mut self, fence: u64) {
        assert!(matches!(self.on(Event::Woken), Effect::Ask { .. }));
        let answer = Ok(AcquireOutcome::granted(fence));
        let effect = self.answer(self.now, answer);
        assert!(matches!(effect, Effect::Enter { renew_at: Some(_) }));
    }

    /// The first attempt sends a request and waits in the store's queue.
    pub(super) fn is_busy(&mut self, last_fence: u64) {
        assert!(matches!(self.on(Event::Woken), Effect::Ask { .. }));
        let holder = Holder {
            ttl: Some(TTL),
            last_fence,
            ..Holder::default()
        };
        let effect = self.answer(self.now, Ok(AcquireOutcome::Busy(holder)));
        assert!(matches!(effect, Effect::WaitUntil(_)));
    }

    /// Returns the owner of the claim with this number.
    pub(super) fn owner(&self, number: u64) -> OwnerId {
        OwnerId::new(self.client, number)
    }

    pub(super) fn waiter(&self, number: u64, timing: Timing) -> LocalWaiter<u64> {
        let validity = Validity::new(timing.ttl, |ttl| ttl / 100 + Duration::from_millis(2));
        let id = AttemptId::numbered(number);
        LocalWaiter::new(id, number, timing, validity, self.now)
    }

    pub(super) fn enter(&mut self, number: u64, timing: Timing) {
        let waiter = self.waiter(number, timing);
        self.state.enter(waiter, context!(self));
    }

    /// Adds attempts that wait behind the first.
    pub(super) fn queue<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.enter(number, waits(Wait::Forever));
            let looks = Effect::Queue(self.now.plus(ALIVE));
            assert_eq!(self.of(number, Event::Woken), looks);
        }
    }

    /// Adds an attempt that waits behind the others, if need be after a request of its own.
    pub(super) fn put_off(&mut self, number: u64, timing: Timing) {
        self.enter(number, timing);
        let mut effect = self.of(number, Event::Woken);
        if matches!(effect, Effect::Ask { queue: false, .. }) {
            let (sent, answer) = (self.now, busy(Some(TTL)));
            effect = self.of(number, Event::Answered { sent, answer });
        }
        assert!(matches!(effect, Effect::Queue(_)), "{effect:?}");
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    /// Returns all consequences of an event of attempt `number`.
    pub(super) fn outcome(&mut self, number: u64, event: Event) -> Outcome<u64> {
        let id = AttemptId::numbered(number);
        self.state.on_event(id, event, context!(self))
    }

    /// Returns the effect for attempt `number`, and the other task that is woken.
    pub(super) fn both(&mut self, number: u64, event: Event) -> (Effect, Option<u64>) {
        let outcome = self.outcome(number, event);
        (outcome.effect, outcome.next)
    }

    pub(super) fn of(&mut self, number: u64, event: Event) -> Effect {
        self.both(number, event).0
    }

    pub(super) fn on(&mut self, event: Event) -> Effect {
        self.of(1, event)
    }

    pub(super) fn check(&mut self) -> Effect {
        self.state
            .check(AttemptId::numbered(1), context!(self))
            .effect
    }

    pub(super) fn answer(
        &mut self,
        sent: Moment,
        answer: Result<AcquireOutcome, StoreError>,
    ) -> Effect {
        self.on(Event::Answered { sent, answer })
    }

    pub(super) fn lease(&self, number: u64) -> Option<HeldLease> {
        self.state.lease(AttemptId::numbered(number))
    }

    pub(super) fn deadline(&self) -> Moment {
        self.lease(1).expect("it holds").deadline
    }

    pub(super) fn cause(&self) -> LostCause {
        let loss = self.state.loss(AttemptId::numbered(1));
        loss.expect("it was lost").cause
    }

    pub(super) fn release(&self) -> Effect {
        let owner = self.owner(1);
        Effect::Release { owner }
    }
}

impl Effect {
    /// The renewer receives a lease that came from the store.
    pub(super) fn enters(&self) -> bool {
        matches!(self, Self::Enter { renew_at: Some(_) })
    }
}

pub(super) fn waits(wait: Wait) -> Timing {
    Timing {
        wait,
        ..Timing::default()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer like the others")]
pub(super) fn granted() -> Result<AcquireOutcome, StoreError> {
    Ok(AcquireOutcome::granted(7))
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer like the others")]
pub(super) fn busy(ttl: Option<Duration>) -> Result<AcquireOutcome, StoreError> {
    Ok(AcquireOutcome::Busy(Holder {
        ttl,
        ..Holder::default()
    }))
}

pub(super) fn failed(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "it failed")
}
