//! The decisions about an attempt, one rule at a time, and under any order of events.

mod pauses;
mod turns;
mod world;

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::{
    options::{Timing, Wait},
    owner::ClientId,
    random::SystemRandom,
    store::{ALIVE, StoreErrorKind},
};

const TTL: Duration = Duration::from_secs(30);
const DRIFT: Duration = Duration::from_millis(302);
/// For how long a confirmed lease may be trusted.
const TRUSTED: Duration = TTL.saturating_sub(DRIFT);
const SECOND: Duration = Duration::from_secs(1);

/// Attempts at one key, and a clock that only moves when told.
///
/// Without a number, the first of them is meant.
struct Desk {
    state: KeyState<u64>,
    client: ClientId,
    owners: Owners,
    now: Moment,
    handover: bool,
    hands_on: bool,
}

/// Always the same: no jitter.
struct NotRandom;

impl Random for NotRandom {
    fn next_u64(&self) -> u64 {
        0
    }
}

/// Owners that are no attempt's id.
fn not_numbered(client: ClientId) -> Owners {
    let owners = Owners::new(client);
    for _ in 0..10_000 {
        owners.next();
    }
    owners
}

/// What surrounds the state; a function would borrow the state as well.
macro_rules! around {
    ($desk:expr) => {
        Surroundings {
            now: $desk.now,
            response_limit: SECOND,
            handover: $desk.handover,
            hands_on: $desk.hands_on,
            random: &NotRandom,
            owners: &$desk.owners,
        }
    };
}
use around;

impl Desk {
    fn new(timing: Timing) -> Self {
        let client = ClientId::new(&SystemRandom);
        let mut desk = Self {
            state: KeyState::default(),
            client,
            owners: not_numbered(client),
            now: Moment {
                monotonic: Instant::now(),
                boot: SECOND,
            },
            handover: true,
            hands_on: true,
        };
        desk.enter(1, timing);
        desk
    }

    fn waiting(wait: Wait) -> Self {
        Self::new(waits(wait))
    }

    /// Holds a lease that was asked for just now.
    fn holding(timing: Timing) -> Self {
        let mut desk = Self::new(timing);
        desk.is_granted(7);
        desk
    }

    /// The first asks, and gets the lease.
    fn is_granted(&mut self, fence: u64) {
        assert!(matches!(self.on(Event::Woken), Effect::Ask { .. }));
        let answer = Ok(Acquisition::Granted { fence });
        let effect = self.answer(self.now, answer);
        assert!(matches!(effect, Effect::Enter { keep: Some(_) }));
    }

    /// The first asks, and waits in the store's queue.
    fn is_busy(&mut self, last_fence: u64) {
        assert!(matches!(self.on(Event::Woken), Effect::Ask { .. }));
        let holder = Holder {
            ttl: Some(TTL),
            last_fence,
            ..Holder::default()
        };
        let effect = self.answer(self.now, Ok(Acquisition::Busy(holder)));
        assert!(matches!(effect, Effect::WaitUntil(_)));
    }

    fn owner(&self, number: u64) -> OwnerId {
        OwnerId::new(self.client, number)
    }

    fn enter(&mut self, number: u64, timing: Timing) {
        let trust = Trust::new(timing.ttl, |ttl| ttl / 100 + Duration::from_millis(2));
        let waiter = Waiter::new(self.owner(number), number, timing, trust, self.now);
        self.state.enter(waiter, around!(self));
    }

    /// They wait behind the first.
    fn queue<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.enter(number, waits(Wait::Forever));
            let looks = Effect::Queue(self.now.plus(ALIVE));
            assert_eq!(self.of(number, Event::Woken), looks);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    /// What follows for attempt `number`, and who is rung besides.
    fn both(&mut self, number: u64, event: Event) -> (Effect, Option<u64>) {
        let owner = self.owner(number);
        let outcome = self.state.on_event(owner, event, around!(self));
        (outcome.effect, outcome.next)
    }

    fn of(&mut self, number: u64, event: Event) -> Effect {
        self.both(number, event).0
    }

    fn on(&mut self, event: Event) -> Effect {
        self.of(1, event)
    }

    fn check(&mut self) -> Effect {
        self.state.check(self.owner(1), around!(self)).effect
    }

    fn answer(&mut self, sent: Moment, answer: Result<Acquisition, StoreError>) -> Effect {
        self.on(Event::Answered { sent, answer })
    }

    fn lease(&self, number: u64) -> Option<Held> {
        self.state.lease(self.owner(number))
    }

    fn deadline(&self) -> Moment {
        self.lease(1).expect("it holds").deadline
    }

    fn cause(&self) -> LostCause {
        let loss = self.state.loss(self.owner(1));
        loss.expect("it was lost").cause
    }

    fn release(&self) -> Effect {
        let owner = self.owner(1);
        Effect::Release { owner }
    }
}

impl Effect {
    /// The keeper is told of a lease that came from the store.
    fn enters(&self) -> bool {
        matches!(self, Self::Enter { keep: Some(_) })
    }
}

fn waits(wait: Wait) -> Timing {
    Timing {
        wait,
        ..Timing::default()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer like the others")]
fn granted() -> Result<Acquisition, StoreError> {
    Ok(Acquisition::Granted { fence: 7 })
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer like the others")]
fn busy(ttl: Option<Duration>) -> Result<Acquisition, StoreError> {
    Ok(Acquisition::Busy(Holder {
        ttl,
        ..Holder::default()
    }))
}

fn failed(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "it failed")
}

#[test]
fn a_deadline_counts_from_the_sending_not_from_the_answer() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    let sent = desk.now;
    desk.pass(SECOND / 2);
    assert!(desk.answer(sent, granted()).enters());
    assert_eq!(desk.deadline(), sent.plus(TRUSTED));
}

#[test]
fn a_grant_that_arrives_after_its_deadline_is_asked_for_again() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    let sent = desk.now;
    desk.pass(TRUSTED);
    assert!(matches!(desk.answer(sent, granted()), Effect::WaitUntil(_)));
    assert!(desk.lease(1).is_none());
}

#[test]
fn time_asleep_ends_a_lease() {
    let mut desk = Desk::holding(Timing::default());
    desk.now.boot += TTL;
    assert_eq!(desk.check(), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::Expired);
}

#[test]
fn a_renewal_moves_the_deadline_to_its_own_sending() {
    let mut desk = Desk::holding(Timing::default());
    let Effect::WaitUntil(at) = desk.on(Event::Tick) else {
        panic!("too early to renew")
    };
    let third = TTL / 3;
    let earlier = third.saturating_sub(at.remaining(desk.now));
    assert!(earlier < TTL / 512, "{earlier:?}");
    desk.now = at;
    let first = desk.deadline();
    assert_eq!(
        desk.on(Event::Tick),
        Effect::Renew {
            owner: desk.owner(1),
            limit: SECOND,
            then: first
        }
    );
    assert_eq!(
        desk.on(Event::Tick),
        Effect::WaitUntil(first),
        "one renewal at a time"
    );
    let sent = desk.now;
    desk.pass(SECOND);
    desk.on(Event::Renewed {
        sent,
        answer: Ok(Renewal::Renewed),
    });
    assert_eq!(desk.deadline(), sent.plus(TRUSTED));
}

#[test]
fn a_renewal_without_an_answer_moves_nothing_and_is_repeated_until_the_deadline() {
    let mut desk = Desk::holding(Timing::default());
    let deadline = desk.deadline();
    desk.pass(TTL / 3);
    let mut tries = 0;
    let mut effect = desk.on(Event::Tick);
    loop {
        match effect {
            Effect::Renew { limit, .. } => {
                tries += 1;
                let sent = desk.now;
                desk.pass(limit);
                let answer = Err(failed(StoreErrorKind::TimedOut));
                effect = desk.on(Event::Renewed { sent, answer });
            }
            Effect::WaitUntil(at) => {
                desk.now = at;
                effect = desk.on(Event::Tick);
            }
            Effect::Lose => break,
            other => panic!("{other:?}"),
        }
        assert!(desk.lease(1).is_none_or(|held| held.deadline == deadline));
    }
    assert!(tries > 5, "{tries}");
    assert!(deadline.is_reached(desk.now));
    assert!(matches!(desk.cause(), LostCause::NotRenewed { .. }));
}

#[test]
fn the_stores_word_is_final() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    desk.on(Event::Tick);
    let sent = desk.now;
    let answer = Ok(Renewal::NotOwner);
    assert_eq!(desk.on(Event::Renewed { sent, answer }), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::TakenAway);
}

/// What the keeper does with a lease that somebody has doubted.
fn is_renewed(desk: &mut Desk, effect: &Effect, answer: Renewal) -> Effect {
    assert!(matches!(effect, Effect::Renew { .. }), "{effect:?}");
    let sent = desk.now;
    let answer = Ok(answer);
    desk.on(Event::Renewed { sent, answer })
}

#[test]
fn a_lease_that_is_doubted_is_renewed_at_once() {
    let mut desk = Desk::holding(Timing::default());
    let deadline = desk.deadline();
    desk.pass(SECOND);
    let effect = desk.on(Event::Granted { fence: 0 });
    assert_eq!(desk.deadline(), deadline, "a word moves nothing");
    assert_eq!(
        is_renewed(&mut desk, &effect, Renewal::NotOwner),
        Effect::Lose
    );
    assert_eq!(desk.cause(), LostCause::TakenAway);
}

#[test]
fn a_doubt_that_comes_during_a_renewal_has_one_of_its_own() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    let renews = desk.on(Event::Tick);
    let doubted = desk.on(Event::Granted { fence: 0 });
    assert_eq!(doubted, Effect::WaitUntil(desk.deadline()), "one at a time");
    let next = is_renewed(&mut desk, &renews, Renewal::Renewed);
    assert_eq!(
        is_renewed(&mut desk, &next, Renewal::NotOwner),
        Effect::Lose
    );
}

#[test]
fn any_number_of_doubts_are_a_few_renewals() {
    let mut desk = Desk::holding(Timing::default());
    let began = desk.now;
    let mut renewals = 0;
    while began.elapsed(desk.now) < SECOND * 9 / 10 {
        let effect = desk.on(Event::Granted { fence: 0 });
        if matches!(effect, Effect::Renew { .. }) {
            renewals += 1;
            is_renewed(&mut desk, &effect, Renewal::Renewed);
        }
        desk.pass(Duration::from_millis(1));
    }
    assert_eq!(renewals, 3);
    // The last of them is not forgotten.
    let Effect::WaitUntil(at) = desk.on(Event::Tick) else {
        panic!("it has just been renewed")
    };
    assert!(at.remaining(desk.now) <= SECOND / 4);
    desk.now = at;
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
}

#[test]
fn a_lease_that_is_not_to_be_renewed_is_left_alone_by_doubts() {
    let mut desk = Desk::holding(Timing {
        renew: false,
        ..Timing::default()
    });
    let deadline = desk.deadline();
    desk.pass(SECOND);
    let doubted = desk.on(Event::Granted { fence: 0 });
    assert_eq!(doubted, Effect::WaitUntil(deadline));
    assert_eq!(desk.on(Event::Granted { fence: 9 }), Effect::Nothing);
}

#[test]
fn a_doubt_about_a_lease_that_was_handed_on_is_the_next_ones() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    let (effect, next) = desk.both(1, Event::Left);
    assert_eq!((effect, next), (Effect::Forget(None), Some(2)));
    let owner = desk.owner(1);
    let doubt = Event::Granted { fence: 0 };
    let heard = desk.state.on_claim(owner, doubt, around!(desk));
    let (bearer, outcome) = heard.expect("the second bears the claim");
    assert_eq!(
        (bearer, outcome.effect),
        (2, Effect::Nothing),
        "it has yet to look"
    );
    let Effect::Enter { keep: Some(keep) } = desk.of(2, Event::Woken) else {
        panic!("it has the lease")
    };
    let soon = keep.at.remaining(desk.now);
    assert!(!soon.is_zero() && soon <= SECOND / 4, "{soon:?}");
    desk.now = keep.at;
    assert!(matches!(desk.of(2, Event::Tick), Effect::Renew { .. }));
}

#[test]
fn a_lease_that_has_just_come_is_doubted_a_little_later() {
    let mut desk = Desk::holding(Timing::default());
    let Effect::WaitUntil(at) = desk.on(Event::Granted { fence: 0 }) else {
        panic!("it is told about what was before it")
    };
    assert!(at.remaining(desk.now) <= SECOND / 4);
    desk.now = at;
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
}

#[test]
fn a_renewal_that_arrives_after_the_deadline_saves_nothing() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    desk.on(Event::Tick);
    let sent = desk.now;
    // The old deadline has passed, the new one would not have.
    desk.pass(TTL * 5 / 6);
    let answer = Ok(Renewal::Renewed);
    assert_eq!(desk.on(Event::Renewed { sent, answer }), Effect::Lose);
}

#[test]
fn no_renewal_outlives_max_hold() {
    let max_hold = Some(TTL / 2);
    let mut desk = Desk::holding(Timing {
        max_hold,
        ..Timing::default()
    });
    let end = desk.now.plus(TTL / 2);
    desk.pass(TTL / 3);
    desk.on(Event::Tick);
    let sent = desk.now;
    desk.on(Event::Renewed {
        sent,
        answer: Ok(Renewal::Renewed),
    });
    assert_eq!(desk.deadline(), end);
    desk.now = end;
    assert_eq!(desk.on(Event::Tick), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::MaxHold);
}

#[test]
fn without_renewal_the_lease_just_ends() {
    let mut desk = Desk::holding(Timing {
        renew: false,
        ..Timing::default()
    });
    assert_eq!(desk.on(Event::Tick), Effect::WaitUntil(desk.deadline()));
    desk.now = desk.deadline();
    assert_eq!(desk.on(Event::Tick), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::NotToBeRenewed);
}

#[test]
fn who_does_not_wait_asks_once_and_leaves_nothing() {
    let mut desk = Desk::waiting(Wait::Never);
    assert_eq!(
        desk.on(Event::Woken),
        Effect::Ask {
            owner: desk.owner(1),
            limit: SECOND,
            queue: false
        }
    );
    let effect = desk.answer(desk.now, busy(Some(TTL)));
    assert!(matches!(effect, Effect::Refuse(Denial::Busy { .. })));
    assert_eq!(
        desk.on(Event::Left),
        Effect::Forget(None),
        "there is nothing to release"
    );
}

#[test]
fn a_question_without_an_answer_is_released_whatever_became_of_it() {
    for kind in [StoreErrorKind::TimedOut, StoreErrorKind::Disconnected] {
        let mut desk = Desk::waiting(Wait::Never);
        desk.on(Event::Woken);
        let effect = desk.answer(desk.now, Err(failed(kind)));
        assert!(matches!(effect, Effect::Refuse(Denial::Unavailable { .. })));
        assert_eq!(desk.on(Event::Left), desk.release());
    }
    // Dropped while the question is under way.
    let mut desk = Desk::waiting(Wait::Never);
    desk.on(Event::Woken);
    assert_eq!(desk.on(Event::Left), desk.release());
}

#[test]
fn a_question_that_was_never_carried_out_leaves_nothing_unless_an_earlier_one_did() {
    let unreachable = || Err(failed(StoreErrorKind::Unreachable));
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    desk.answer(desk.now, unreachable());
    assert_eq!(desk.on(Event::Left), Effect::Forget(None));

    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    desk.answer(desk.now, busy(None));
    desk.pass(2 * SECOND);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    desk.answer(desk.now, unreachable());
    assert_eq!(
        desk.on(Event::Left),
        desk.release(),
        "its place in the queue"
    );
}

#[test]
fn a_waiter_looks_again_when_the_lease_has_ended_and_at_least_each_second() {
    for (ttl, pause) in [
        (Some(SECOND / 2), SECOND / 2 + Duration::from_millis(1)),
        (Some(TTL), SECOND),
        (None, SECOND),
    ] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.on(Event::Woken);
        let effect = desk.answer(desk.now, busy(ttl));
        assert_eq!(effect, Effect::WaitUntil(desk.now.plus(pause)));
    }
}

#[test]
fn a_hint_makes_a_waiter_look_at_once_also_when_it_overtakes_an_answer() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    desk.answer(desk.now, busy(None));
    assert_eq!(desk.on(Event::LookAgain), Effect::Ring);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.on(Event::LookAgain), Effect::Nothing);
    assert!(matches!(
        desk.answer(desk.now, busy(None)),
        Effect::Ask { .. }
    ));
}

#[test]
fn a_wait_ends_in_time_and_says_what_was_last_known() {
    let mut desk = Desk::waiting(Wait::For(SECOND));
    desk.on(Event::Woken);
    let Effect::WaitUntil(at) = desk.answer(desk.now, busy(None)) else {
        panic!("it waits")
    };
    assert_eq!(
        at,
        desk.now.plus(SECOND),
        "the wait ends before the next look is due"
    );
    // One last look, cut short by the end of the wait, says less than the answer before.
    desk.pass(SECOND / 2);
    desk.on(Event::LookAgain);
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it was told to look")
    };
    assert_eq!(limit, SECOND / 2);
    let sent = desk.now;
    desk.pass(limit);
    let effect = desk.answer(sent, Err(StoreError::timed_out(limit)));
    assert!(matches!(effect, Effect::Refuse(Denial::Busy { waited, .. }) if waited == SECOND));
}

#[test]
fn failures_are_repeated_ever_more_slowly_until_the_wait_is_over() {
    let mut desk = Desk::waiting(Wait::For(10 * SECOND));
    let mut effect = desk.on(Event::Woken);
    let mut pauses = Vec::new();
    let denial = loop {
        match effect {
            Effect::Ask { .. } => {
                effect = desk.answer(desk.now, Err(failed(StoreErrorKind::Unreachable)));
            }
            Effect::WaitUntil(at) => {
                pauses.push(at.remaining(desk.now));
                desk.now = at;
                effect = desk.on(Event::Woken);
            }
            Effect::Refuse(denial) => break denial,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(denial, Denial::Unavailable { waited, .. } if waited == 10 * SECOND));
    pauses
        .pop()
        .expect("the last one is cut short by the end of the wait");
    assert!(pauses.is_sorted() && pauses.len() > 10, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= SECOND), "{pauses:?}");
}

#[test]
fn what_asking_again_cannot_help_ends_the_wait_at_once() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    let effect = desk.answer(desk.now, Err(failed(StoreErrorKind::Unauthenticated)));
    assert!(matches!(effect, Effect::Refuse(Denial::Unavailable { .. })));
}

#[test]
fn a_fence_that_makes_no_token_is_no_grant() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    let effect = desk.answer(desk.now, Ok(Acquisition::Granted { fence: u64::MAX }));
    assert!(matches!(effect, Effect::Refuse(Denial::Unavailable { .. })));
    assert_eq!(
        desk.on(Event::Left),
        desk.release(),
        "the store believes that it granted"
    );
}

#[test]
fn closing_refuses_waiters_and_spares_holders_and_revoking_takes_their_leases() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    assert_eq!(desk.on(Event::Closed), Effect::Ring);
    assert_eq!(
        desk.answer(desk.now, granted()),
        Effect::Refuse(Denial::Closed)
    );
    assert_eq!(
        desk.on(Event::Left),
        desk.release(),
        "what was granted meanwhile"
    );

    let mut desk = Desk::holding(Timing::default());
    assert_eq!(desk.on(Event::Closed), Effect::Nothing);
    assert_eq!(desk.on(Event::Revoked), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::ShutDown);
}

#[test]
fn a_release_is_repeated_until_the_store_has_forgotten_by_itself() {
    let mut desk = Desk::holding(Timing::default());
    let left = desk.now;
    assert_eq!(desk.on(Event::Left), desk.release());
    assert_eq!(desk.on(Event::Left), desk.release(), "by who takes over");
    while let Effect::WaitUntil(at) = desk.on(Event::Released(None)) {
        desk.now = at;
    }
    assert!(left.plus(TTL).is_reached(desk.now));
    assert!(desk.state.is_idle());
}

#[test]
fn a_lease_is_kept_for_the_rest_of_its_min_hold_and_somewhat_longer() {
    let least = 3 * TTL;
    let mut desk = Desk::holding(Timing {
        min_hold: Some(least),
        ..Timing::default()
    });
    desk.pass(SECOND);
    assert_eq!(desk.on(Event::Left), desk.release());
    let kept = desk.state.kept_for(desk.owner(1), desk.now);
    let longer = Duration::from_millis(1);
    assert_eq!(kept, Some(least.saturating_sub(SECOND) + longer));
    let left = desk.now;
    while let Effect::WaitUntil(at) = desk.on(Event::Released(None)) {
        desk.now = at;
    }
    // By then the store has done it, and needs no more, or has nothing left to keep.
    assert!(!left.plus(TTL + SECOND).is_reached(desk.now));
    assert!(desk.state.is_idle());

    let mut desk = Desk::holding(Timing {
        min_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.now.boot += SECOND;
    let kept = desk.state.kept_for(desk.owner(1), desk.now);
    assert_eq!(kept, Some(SECOND + longer), "by both clocks");
    desk.now.monotonic += SECOND;
    desk.on(Event::Left);
    assert_eq!(desk.state.kept_for(desk.owner(1), desk.now), None);
}

/// Something that happens to an attempt, in the order a hostile world likes.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Sleep(u64),
    Wake,
    Hint,
    Tick,
    Grant,
    Busy,
    Fail,
    Renew(Result<Renewal, ()>),
    Close,
    Revoke,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_000_u64).prop_map(Step::Pass),
        1 => (0..12_000_u64).prop_map(Step::Sleep),
        4 => Just(Step::Wake),
        2 => Just(Step::Hint),
        4 => Just(Step::Tick),
        3 => Just(Step::Grant),
        2 => Just(Step::Busy),
        2 => Just(Step::Fail),
        3 => Just(Step::Renew(Ok(Renewal::Renewed))),
        1 => Just(Step::Renew(Ok(Renewal::NotOwner))),
        2 => Just(Step::Renew(Err(()))),
        1 => Just(Step::Close),
        1 => Just(Step::Revoke),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever happens in whatever order: a lease is believed only within the TTL of a request
    /// that the store has confirmed, never again once it is lost, and leaving always ends.
    #[test]
    fn a_lease_is_never_believed_beyond_what_the_store_confirmed(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut desk = Desk::waiting(Wait::Forever);
        let mut question = None;
        let mut renewal = None;
        let mut confirmed: Option<Moment> = None;
        let mut lost = false;
        for step in steps {
            let effect = match step {
                Step::Pass(ms) => { desk.pass(Duration::from_millis(ms)); Effect::Nothing }
                Step::Sleep(ms) => { desk.now.boot += Duration::from_millis(ms); Effect::Nothing }
                Step::Wake => desk.on(Event::Woken),
                Step::Hint => desk.on(Event::LookAgain),
                Step::Tick => desk.on(Event::Tick),
                Step::Grant | Step::Busy | Step::Fail => match question.take() {
                    None => Effect::Nothing,
                    Some(sent) => {
                        let answer = match step {
                            Step::Grant => granted(),
                            Step::Busy => busy(None),
                            _ => Err(failed(StoreErrorKind::TimedOut)),
                        };
                        if matches!(step, Step::Grant) {
                            confirmed = Some(sent);
                        }
                        desk.answer(sent, answer)
                    }
                },
                Step::Renew(answer) => match renewal.take() {
                    None => Effect::Nothing,
                    Some(sent) => {
                        if answer == Ok(Renewal::Renewed) {
                            confirmed = Some(sent);
                        }
                        let answer = answer.map_err(|()| failed(StoreErrorKind::TimedOut));
                        desk.on(Event::Renewed { sent, answer })
                    }
                },
                Step::Close => desk.on(Event::Closed),
                Step::Revoke => desk.on(Event::Revoked),
            };
            match effect {
                Effect::Ask { .. } => question = Some(desk.now),
                Effect::Renew { .. } => renewal = Some(desk.now),
                _ => {}
            }
            desk.check();
            if let Some(held) = desk.lease(1) {
                let sent = confirmed.expect("somebody granted it");
                prop_assert!(!lost, "a lost lease came back");
                prop_assert!(!held.deadline.is_reached(desk.now));
                let latest = sent.plus(TRUSTED);
                prop_assert_eq!(held.deadline.later(latest), latest);
            }
            lost |= desk.state.loss(desk.owner(1)).is_some();
        }
        let mut effect = desk.on(Event::Left);
        for _ in 0..200 {
            match effect {
                Effect::Release { .. } => effect = desk.on(Event::Released(None)),
                Effect::WaitUntil(at) => { desk.now = at; effect = desk.on(Event::Released(None)); }
                _ => break,
            }
        }
        prop_assert_eq!(effect, Effect::Forget(None));
        prop_assert!(desk.state.is_idle());
    }
}
