//! Tests the attempts of a process that ask beside the one in front.

use super::*;

/// How many may ask beside the attempt in front before the first answer.
const AT_FIRST: u64 = 64;

fn permit() -> Timing {
    Timing {
        mode: LockMode::Permits(10_000),
        ..waits(Wait::Forever)
    }
}

fn bounded() -> Timing {
    Timing {
        mode: LockMode::Shared,
        max_hold: Some(TTL),
        ..waits(Wait::Forever)
    }
}

/// Leases that are shared, of two TTLs: a task with one does not use a lease of the other.
fn unbounded() -> [Timing; 2] {
    let shared = Timing {
        max_hold: None,
        ..bounded()
    };
    let brief = Timing {
        ttl: TTL / 2,
        ..shared
    };
    [shared, brief]
}

/// Asks without a place in the store's queue.
fn asks_beside(effect: &Effect) -> bool {
    matches!(effect, Effect::Ask { queue: false, .. })
}

fn asks_in_front(effect: &Effect) -> bool {
    matches!(effect, Effect::Ask { queue: true, .. })
}

impl Desk {
    fn comes(&mut self, number: u64, timing: Timing) -> Effect {
        self.enter(number, timing);
        self.of(number, Event::Woken)
    }

    fn answered(
        &mut self,
        number: u64,
        answer: Result<AcquireOutcome, StoreError>,
    ) -> Outcome<u64> {
        let sent = self.now;
        self.outcome(number, Event::Answered { sent, answer })
    }
}

/// The first attempt is in front and asks; the second asks beside it.
fn two(timing: Timing) -> Desk {
    let mut desk = Desk::new(timing);
    assert!(asks_in_front(&desk.on(Event::Woken)));
    assert!(asks_beside(&desk.comes(2, timing)));
    desk
}

#[test]
fn each_grant_lets_two_more_waiters_ask() {
    for timing in [permit(), bounded()] {
        let mut desk = Desk::new(timing);
        assert!(asks_in_front(&desk.on(Event::Woken)));
        let first = 2..2 + AT_FIRST;
        for number in first.clone() {
            assert!(asks_beside(&desk.comes(number, timing)), "{number}");
        }
        for number in first.end..first.end + 6 {
            let effect = desk.comes(number, timing);
            assert!(matches!(effect, Effect::Queue(_)), "{number}: {effect:?}");
        }
        let grant = desk.answered(2, granted());
        assert!(grant.effect.enters());
        assert_eq!(grant.next, None, "one is in front");
        assert_eq!(grant.invited, [first.end, first.end + 1]);
        let grant = desk.answered(3, granted());
        // Those that were called and have not looked yet are not called again.
        assert_eq!(grant.invited, [first.end + 2, first.end + 3]);
        let grant = desk.answered(1, granted());
        assert_eq!(grant.next, Some(first.end), "no task is in front");
        assert!(asks_in_front(&desk.of(first.end, Event::Woken)));
        for number in first.end + 1..first.end + 6 {
            assert!(asks_beside(&desk.of(number, Event::Woken)), "{number}");
        }
    }
}

#[test]
fn a_busy_answer_puts_a_waiter_off_and_it_has_left_nothing() {
    let mut desk = two(permit());
    assert!(asks_beside(&desk.comes(3, permit())));
    let looks = Effect::Queue(desk.now.plus(ALIVE));
    assert_eq!(desk.answered(2, busy(Some(TTL))).effect, looks);
    assert_eq!(desk.comes(4, permit()), looks, "no task asks any more");
    assert_eq!(desk.of(2, Event::Left), Effect::Forget(None));

    // The third, whose answer comes last, has its old place before the fourth.
    assert_eq!(desk.answered(3, busy(Some(TTL))).effect, looks);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(3)));
}

#[test]
fn a_waiter_that_was_put_off_is_in_front_if_no_other_is() {
    let mut desk = two(permit());
    assert!(desk.answered(1, granted()).effect.enters());
    let effect = desk.answered(2, busy(Some(TTL))).effect;
    let own = desk.owner(3);
    assert!(
        matches!(effect, Effect::Ask { owner, queue: true, .. } if owner == own),
        "{effect:?}"
    );
}

#[test]
fn a_grant_of_the_store_lets_only_the_next_one_ask() {
    let mut desk = two(permit());
    desk.answered(2, busy(Some(TTL)));
    let effect = desk.answered(1, busy(Some(TTL))).effect;
    assert!(matches!(effect, Effect::WaitUntil(_)));
    desk.comes(3, permit());
    let answer = Holder {
        last_fence: 6,
        ..Holder::default()
    };
    desk.on(Event::LookAgain);
    assert!(asks_in_front(&desk.on(Event::Woken)));
    desk.answered(1, Ok(AcquireOutcome::Busy(answer)));
    let (fence, number) = (7, 7);
    assert_eq!(desk.on(Event::Granted { fence, number }), Effect::Wake);
    let entered = desk.outcome(1, Event::Woken);
    assert!(entered.effect.enters());
    assert_eq!((entered.next, entered.invited), (Some(2), Vec::new()));
    assert!(asks_in_front(&desk.of(2, Event::Woken)));
    assert!(matches!(desk.of(3, Event::Woken), Effect::Queue(_)));

    let entered = desk.answered(2, granted());
    assert_eq!((entered.next, entered.invited), (Some(3), vec![3]));
}

#[test]
fn after_a_request_without_an_answer_it_asks_on_with_a_place() {
    let mut desk = two(permit());
    let lost = Err(failed(StoreErrorKind::TimedOut));
    let effect = desk.answered(2, lost).effect;
    let Effect::WaitUntil(at) = effect else {
        panic!("it may have been let in: {effect:?}")
    };
    desk.now = at;
    let own = desk.owner(2);
    let effect = desk.of(2, Event::Woken);
    assert!(
        matches!(effect, Effect::Ask { owner, queue: true, .. } if owner == own),
        "{effect:?}"
    );
    let effect = desk.answered(2, busy(Some(TTL))).effect;
    assert!(matches!(effect, Effect::WaitUntil(_)), "{effect:?}");
    assert_eq!(desk.of(2, Event::Left), Effect::Release { owner: own });
}

#[test]
fn a_request_that_was_never_carried_out_puts_it_off() {
    let mut desk = two(permit());
    let unreachable = || Err(failed(StoreErrorKind::Unreachable));
    let looks = Effect::Queue(desk.now.plus(ALIVE));
    assert_eq!(desk.answered(2, unreachable()).effect, looks);
    assert_eq!(
        desk.comes(3, permit()),
        looks,
        "one tries whether it answers"
    );
    assert_eq!(desk.of(2, Event::Left), Effect::Forget(None));
}

#[test]
fn a_waiter_that_may_share_the_next_lease_waits_for_it() {
    let [shared, brief] = unbounded();
    let mut desk = Desk::new(shared);
    assert!(asks_in_front(&desk.on(Event::Woken)));
    assert!(matches!(desk.comes(2, shared), Effect::Queue(_)));
    assert!(asks_beside(&desk.comes(3, bounded())));
    assert!(asks_beside(&desk.comes(4, brief)));
    assert!(matches!(desk.comes(5, brief), Effect::Queue(_)));
    let entered = desk.answered(4, granted());
    assert_eq!(entered.invited, [2, 5]);
    let joined = Effect::Enter { renew_at: None };
    assert_eq!(desk.of(5, Event::Woken), joined);
    // Without hand-overs, no task shares.
    let mut desk = Desk::new(shared);
    desk.handover = false;
    assert!(asks_in_front(&desk.on(Event::Woken)));
    assert!(asks_beside(&desk.comes(2, shared)));
}

#[test]
fn a_lease_that_is_too_old_to_be_shared_keeps_no_waiter_from_asking() {
    let [shared, brief] = unbounded();
    let mut desk = Desk::holding(shared);
    desk.pass(SECOND);
    assert!(asks_in_front(&desk.comes(2, brief)));
    assert!(asks_beside(&desk.comes(3, shared)));
}

#[test]
fn a_permit_that_is_doubted_before_its_task_looks_is_asked_for_beside_the_one_in_front() {
    let mut desk = Desk::holding(permit());
    assert!(asks_in_front(&desk.comes(2, permit())));
    desk.put_off(3, permit());
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(3)));
    let (first, second) = (desk.owner(1), desk.owner(2));
    assert!(
        desk.state
            .on_claim(first, Event::Doubted, context!(desk))
            .is_some()
    );
    let asked = desk.of(3, Event::Woken);
    assert!(
        matches!(asked, Effect::Ask { owner, .. } if owner == first),
        "{asked:?}"
    );
    for (number, owner) in [(2, second), (3, first)] {
        assert!(desk.answered(number, granted()).effect.enters());
        assert!(desk.state.is_held_by(owner), "{number} is looked after");
    }
}

#[test]
fn no_waiter_asks_beside_an_exclusive_claim() {
    let mut desk = Desk::new(waits(Wait::Forever));
    assert!(asks_in_front(&desk.on(Event::Woken)));
    desk.queue([2, 3]);
}
