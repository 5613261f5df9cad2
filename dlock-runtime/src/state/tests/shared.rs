//! Tests leases that several tasks of a process use together, and permits.

use super::*;

const TURN: Duration = Duration::from_millis(10);
const JOINED: Effect = Effect::Enter { renew_at: None };

fn shared() -> Timing {
    Timing {
        mode: LockMode::Shared,
        ..waits(Wait::Forever)
    }
}

fn permit() -> Timing {
    Timing {
        mode: LockMode::Permits(2),
        ..waits(Wait::Forever)
    }
}

/// The first attempt shares the key, and so do these.
fn together<const N: usize>(numbers: [u64; N]) -> Desk {
    let mut desk = Desk::holding(shared());
    for number in numbers {
        desk.enter(number, shared());
        assert_eq!(desk.of(number, Event::Woken), JOINED);
    }
    desk
}

fn asks(effect: &Effect) -> bool {
    matches!(effect, Effect::Ask { queue: true, .. })
}

#[test]
fn a_task_joins_a_lease_within_a_turn_and_no_later() {
    let mut desk = Desk::holding(shared());
    desk.pass(TURN);
    desk.enter(2, shared());
    assert_eq!(desk.of(2, Event::Woken), JOINED);
    let [one, other] = [1, 2].map(|number| desk.lease(number).expect("both hold it"));
    assert_eq!((one.token, one.deadline), (other.token, other.deadline));
    assert_eq!(other.since, desk.now);

    desk.pass(Duration::from_micros(1));
    desk.enter(3, shared());
    let effect = desk.of(3, Event::Woken);
    let own = desk.owner(2);
    assert!(
        matches!(effect, Effect::Ask { owner, .. } if owner == own),
        "with a claim of its own: {effect:?}"
    );
}

#[test]
fn a_task_that_comes_long_after_the_request_joins_no_lease() {
    // The answer took as long as the turn, and longer.
    for (late, joins) in [(TURN, true), (TURN + Duration::from_micros(1), false)] {
        let mut desk = Desk::new(shared());
        assert!(asks(&desk.on(Event::Woken)));
        let sent = desk.now;
        desk.pass(late);
        // One waits when the body begins, one comes then.
        desk.enter(2, shared());
        assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
        let answer = granted();
        assert!(desk.on(Event::Answered { sent, answer }).enters());
        desk.enter(3, shared());
        for number in [3, 2] {
            let effect = desk.of(number, Event::Woken);
            assert_eq!(effect == JOINED, joins, "{late:?}, {number}: {effect:?}");
        }
    }
}

#[test]
fn a_lease_that_is_bound_or_left_to_the_store_is_not_shared() {
    let id = AttemptId::numbered(1);
    let mut desk = Desk::holding(shared());
    assert_eq!(desk.state.bind(id), Some(desk.owner(1)));
    desk.enter(2, shared());
    assert!(asks(&desk.of(2, Event::Woken)));

    for (number, last) in [(1, 2), (2, 1)] {
        let mut desk = together([2]);
        desk.state.leave_to_store(AttemptId::numbered(number));
        assert_eq!(desk.both(number, Event::Left), (Effect::Forget(None), None));
        desk.enter(3, shared());
        assert!(asks(&desk.of(3, Event::Woken)), "{number} has left it");
        assert_eq!(desk.of(last, Event::Left), desk.release());
        let last = AttemptId::numbered(last);
        assert!(
            desk.state.is_left_to_store(last),
            "the driver sends no release"
        );
    }
}

#[test]
fn who_comes_while_the_lease_is_in_doubt_asks() {
    let mut desk = Desk::holding(shared());
    assert_eq!(
        desk.on(Event::Doubted),
        Effect::WaitUntil(desk.now.plus(SECOND / 4))
    );
    desk.enter(2, shared());
    assert!(asks(&desk.of(2, Event::Woken)));
}

#[test]
fn a_waiter_that_is_refused_shares_no_lease() {
    let mut desk = Desk::holding(shared());
    desk.enter(2, shared());
    assert_eq!(desk.of(2, Event::Closed), Effect::Wake);
    let refused = Effect::Refuse(Denial::Closed);
    assert_eq!(desk.of(2, Event::Woken), refused);
}

#[test]
fn a_renewal_wakes_those_whose_bodies_have_not_begun() {
    let on_trial = Timing {
        on_trial: true,
        ..shared()
    };
    let mut desk = Desk::holding(on_trial);
    desk.enter(2, on_trial);
    assert_eq!(desk.of(2, Event::Woken), JOINED);
    let confirmed = |desk: &mut Desk| {
        let (owner, sent, answer) = (desk.owner(1), desk.now, Ok(Renewal::Renewed));
        let renewed = Event::Renewed { sent, answer };
        let heard = desk.state.on_claim(owner, renewed, context!(desk));
        heard.expect("it holds the claim").1.invited
    };
    assert_eq!(confirmed(&mut desk), [1, 2]);
    desk.state.end_trial(AttemptId::numbered(2), desk.now);
    assert_eq!(confirmed(&mut desk), [1]);
    desk.state.end_trial(AttemptId::numbered(1), desk.now);
    assert_eq!(confirmed(&mut desk), [0; 0]);
}

#[test]
fn waiters_are_invited_when_the_body_begins_and_may_come_late() {
    let mut desk = Desk::new(shared());
    assert!(asks(&desk.on(Event::Woken)));
    for number in [2, 3] {
        desk.enter(number, shared());
        let looks = Effect::Queue(desk.now.plus(ALIVE));
        assert_eq!(desk.of(number, Event::Woken), looks);
    }
    let (sent, answer) = (desk.now, granted());
    let outcome = desk.outcome(1, Event::Answered { sent, answer });
    assert!(outcome.effect.enters());
    assert_eq!(outcome.invited, [2, 3]);
    desk.enter(4, shared());
    desk.pass(5 * SECOND);
    assert_eq!(desk.of(3, Event::Woken), JOINED);
    assert_eq!(desk.of(2, Event::Woken), JOINED);
    assert!(asks(&desk.of(4, Event::Woken)), "it came later");
}

#[test]
fn the_bearer_leaves_first_and_another_bears_the_claim() {
    let mut desk = together([2, 3]);
    let owner = desk.owner(1);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), None));
    assert_eq!(desk.state.bearer(owner), Some(3));
    assert!(desk.state.is_held_by(owner));
    let deadline = desk.lease(2).expect("it holds").deadline;
    desk.pass(TTL / 3);
    let sent = desk.now;
    assert!(
        matches!(desk.of(3, Event::Tick), Effect::Renew { owner: other, .. } if other == owner)
    );
    let renewed = Event::Renewed {
        sent,
        answer: Ok(Renewal::Renewed),
    };
    desk.of(3, renewed);
    for number in [2, 3] {
        let held = desk.lease(number).expect("it holds");
        assert_eq!(held.deadline, sent.plus(TRUSTED));
        assert_ne!(held.deadline, deadline);
    }
}

#[test]
fn the_last_user_releases() {
    let mut desk = together([2, 3]);
    for number in [3, 1] {
        assert_eq!(desk.both(number, Event::Left), (Effect::Forget(None), None));
        assert!(desk.lease(2).is_some());
    }
    assert_eq!(desk.both(2, Event::Left), (desk.release(), None));
    let released = Event::Released(Some(Released::WasHeld));
    let forgotten = Effect::Forget(Some(Released::WasHeld));
    assert_eq!(desk.of(2, released), forgotten);
    assert!(desk.state.is_idle());
}

#[test]
fn a_loss_is_everybodys_and_each_is_told_once() {
    let mut desk = together([2, 3]);
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let answer = Ok(Renewal::NotOwner);
    let sent = desk.now;
    let found = desk.outcome(1, Event::Renewed { sent, answer });
    assert_eq!((found.effect, found.also_lost), (Effect::Lose, vec![2, 3]));
    for number in [1, 2, 3] {
        assert!(desk.lease(number).is_none());
        let loss = desk.state.loss(AttemptId::numbered(number));
        assert_eq!(loss.expect("it was lost").cause, LostCause::Revoked);
        let again = desk.outcome(number, Event::CutShort);
        assert_ne!(again.effect, Effect::Lose);
        assert!(again.also_lost.is_empty());
    }
    // Those that are left keep the loss, whoever bears the claim.
    desk.of(1, Event::Left);
    assert!(desk.state.loss(AttemptId::numbered(2)).is_some());
    desk.of(2, Event::Left);
    assert_eq!(desk.of(3, Event::Left), desk.release());
}

#[test]
fn the_first_who_sees_the_end_of_a_lease_tells_the_others() {
    for number in [1, 2] {
        let mut desk = together([2, 3]);
        desk.pass(TRUSTED);
        let id = AttemptId::numbered(number);
        let mut lost = desk.state.check(id, context!(desk));
        assert_eq!(lost.effect, Effect::Lose);
        lost.also_lost.sort_unstable();
        let others: Vec<_> = (1..=3).filter(|other| *other != number).collect();
        assert_eq!(lost.also_lost, others);
        let again = desk.state.check(id, context!(desk));
        assert_eq!(again.effect, Effect::Nothing);
    }
}

#[test]
fn a_shutdown_cuts_each_one_short() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3]] {
        let mut desk = together([2, 3]);
        for (place, number) in order.into_iter().enumerate() {
            let cut = desk.outcome(number, Event::CutShort);
            assert_eq!(cut.effect, Effect::Lose, "{number} of {order:?}");
            assert!(cut.also_lost.is_empty());
            let loss = desk.state.loss(AttemptId::numbered(number));
            assert_eq!(loss.expect("it was lost").cause, LostCause::ShutDown);
            for other in &order[place + 1..] {
                assert!(desk.lease(*other).is_some(), "{other} of {order:?} goes on");
            }
        }
        desk.of(order[0], Event::Left);
        desk.of(order[1], Event::Left);
        assert_eq!(desk.of(order[2], Event::Left), desk.release());
    }
}

#[test]
fn a_permit_is_handed_over_within_the_turn_with_the_same_token() {
    let mut desk = Desk::holding(permit());
    let token = desk.lease(1).expect("it holds").token;
    desk.enter(2, permit());
    assert!(asks(&desk.of(2, Event::Woken)), "it is not shared");
    desk.put_off(3, permit());
    desk.pass(TURN);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(3)));
    assert_eq!(desk.of(3, Event::Woken), JOINED);
    assert_eq!(desk.lease(3).expect("it holds").token, token);

    desk.enter(4, permit());
    assert!(matches!(desk.of(4, Event::Woken), Effect::Queue(_)));
    desk.pass(Duration::from_micros(1));
    assert_eq!(desk.both(3, Event::Left), (desk.release(), None));
}

#[test]
fn the_next_permit_is_asked_for_as_soon_as_the_last_body_begins() {
    let mut desk = Desk::new(permit());
    assert!(asks(&desk.on(Event::Woken)));
    for number in [2, 3] {
        desk.put_off(number, permit());
    }
    let (sent, answer) = (desk.now, granted());
    let outcome = desk.outcome(1, Event::Answered { sent, answer });
    assert_eq!((outcome.next, outcome.invited), (Some(2), vec![2, 3]));
    // Who is woken and goes without a look wakes the next.
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    assert!(asks(&desk.of(3, Event::Woken)));
}

#[test]
fn who_asks_for_a_permit_that_was_handed_to_it_is_in_front() {
    let not_renewed = Timing {
        renew: false,
        ..permit()
    };
    // Such a lease begins with a request; any other has one if its task comes late.
    for (timing, late) in [(not_renewed, Duration::ZERO), (permit(), TTL)] {
        let mut desk = Desk::new(permit());
        assert!(asks(&desk.on(Event::Woken)));
        for (number, timing) in [(2, timing), (3, permit())] {
            desk.put_off(number, timing);
        }
        let (sent, answer) = (desk.now, granted());
        assert!(desk.on(Event::Answered { sent, answer }).enters());
        assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
        desk.pass(late);
        assert!(asks(&desk.of(2, Event::Woken)));

        desk.put_off(4, permit());
        assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    }
}

#[test]
fn a_caller_that_does_not_wait_asks_by_itself() {
    for timing in [shared(), permit()] {
        let mut desk = Desk::new(timing);
        desk.is_busy(6);
        let once = Timing {
            wait: Wait::Never,
            ..timing
        };
        desk.enter(2, once);
        let effect = desk.of(2, Event::Woken);
        assert!(
            matches!(effect, Effect::Ask { queue: false, .. }),
            "{effect:?}"
        );
        let (sent, answer) = (desk.now, granted());
        assert!(desk.of(2, Event::Answered { sent, answer }).enters());
        assert!(desk.lease(1).is_none());

        desk.enter(3, once);
        if timing.mode == LockMode::Shared {
            assert_eq!(desk.of(3, Event::Woken), JOINED);
            continue;
        }
        assert!(matches!(
            desk.of(3, Event::Woken),
            Effect::Ask { queue: false, .. }
        ));
        let answer = busy(Some(TTL));
        let refused = desk.of(3, Event::Answered { sent, answer });
        assert!(matches!(refused, Effect::Refuse(Denial::Busy { .. })));
        assert_eq!(desk.of(3, Event::Left), Effect::Forget(None));
    }
}

#[test]
fn a_lease_with_bounds_of_its_own_is_not_shared() {
    let bounded = [
        Timing {
            max_hold: Some(SECOND),
            ..shared()
        },
        Timing {
            min_hold: Some(SECOND),
            ..shared()
        },
        Timing {
            renew: false,
            ..shared()
        },
        Timing {
            ttl: TTL / 2,
            ..shared()
        },
    ];
    for own in bounded {
        for (first, second) in [(own, shared()), (shared(), own)] {
            let mut desk = Desk::holding(first);
            desk.enter(2, second);
            let effect = desk.of(2, Event::Woken);
            assert!(asks(&effect), "{first:?}, {second:?}: {effect:?}");
        }
    }
    for (first, second) in [(permit(), shared()), (shared(), permit())] {
        let mut desk = Desk::holding(first);
        desk.enter(2, second);
        assert!(asks(&desk.of(2, Event::Woken)), "in another mode");
    }
}

#[test]
fn without_handing_over_nobody_shares_a_lease() {
    let mut desk = Desk::holding(shared());
    desk.handover = false;
    desk.enter(2, shared());
    assert!(asks(&desk.of(2, Event::Woken)));
    let mut desk = Desk::holding(permit());
    desk.handover = false;
    desk.enter(2, permit());
    assert!(asks(&desk.of(2, Event::Woken)));
    desk.enter(3, permit());
    assert_eq!(desk.both(1, Event::Left), (desk.release(), None));
}

#[test]
fn a_grant_that_joins_others_is_dated_by_its_number() {
    let mut desk = Desk::new(shared());
    desk.is_busy(8);
    let joins = |number| Event::Granted { fence: 7, number };
    assert_eq!(desk.on(joins(8)), Effect::Wake);
    assert!(asks(&desk.on(Event::Woken)), "the answer knew that number");
    let sent = desk.now;
    let answer = Ok(AcquireOutcome::Busy(Holder {
        last_fence: 8,
        ..Holder::default()
    }));
    assert!(matches!(desk.answer(sent, answer), Effect::WaitUntil(_)));
    assert_eq!(desk.on(joins(9)), Effect::Wake);
    assert!(desk.on(Event::Woken).enters());
    let token = desk.lease(1).expect("it holds").token;
    assert_eq!(token.fence(), 7, "the fence is that of those inside");
}

#[test]
fn nobody_joins_a_lease_that_is_in_doubt() {
    let mut desk = Desk::new(shared());
    assert!(asks(&desk.on(Event::Woken)));
    desk.enter(2, shared());
    desk.of(2, Event::Woken);
    let (sent, answer) = (desk.now, granted());
    let entered = desk.outcome(1, Event::Answered { sent, answer });
    assert!(entered.effect.enters());
    desk.pass(SECOND);
    let checked = desk.on(Event::Doubted);
    assert!(matches!(checked, Effect::Renew { .. }), "{checked:?}");
    let late = desk.of(2, Event::Woken);
    assert!(asks(&late), "the answer may be that it is gone: {late:?}");
}
