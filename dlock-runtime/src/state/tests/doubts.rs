//! Tests messages that a holder's lock is gone, which may be false.

use super::*;

const DOUBT: Event = Event::Granted {
    fence: 0,
    number: 0,
};

/// The renewer's work on a lease that was doubted.
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
    let effect = desk.on(Event::Granted {
        fence: 0,
        number: 0,
    });
    assert_eq!(desk.deadline(), deadline, "a message moves no deadline");
    assert_eq!(
        is_renewed(&mut desk, &effect, Renewal::NotOwner),
        Effect::Lose
    );
    assert_eq!(desk.cause(), LostCause::Revoked);
}

#[test]
fn a_doubt_that_comes_during_a_renewal_has_one_of_its_own() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    let renews = desk.on(Event::Tick);
    let doubted = desk.on(Event::Granted {
        fence: 0,
        number: 0,
    });
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
        let effect = desk.on(Event::Granted {
            fence: 0,
            number: 0,
        });
        if matches!(effect, Effect::Renew { .. }) {
            renewals += 1;
            is_renewed(&mut desk, &effect, Renewal::Renewed);
        }
        desk.pass(Duration::from_millis(1));
    }
    assert_eq!(renewals, 3);
    // The last doubt is not forgotten.
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
    let doubted = desk.on(Event::Granted {
        fence: 0,
        number: 0,
    });
    assert_eq!(doubted, Effect::WaitUntil(deadline));
    assert_eq!(
        desk.on(Event::Granted {
            fence: 9,
            number: 9
        }),
        Effect::Nothing
    );
}

#[test]
fn a_lease_that_is_doubted_is_not_handed_over() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    assert!(matches!(desk.on(DOUBT), Effect::WaitUntil(_)));
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    let own = desk.owner(2);
    let asked = desk.of(2, Event::Woken);
    assert!(
        matches!(asked, Effect::Ask { owner, .. } if owner == own),
        "with a claim of its own: {asked:?}"
    );
}

#[test]
fn a_lease_that_is_doubted_after_it_was_handed_over_begins_with_a_request() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let claim = desk.owner(1);
    let heard = desk.state.on_claim(claim, DOUBT, context!(desk));
    let (bearer, outcome) = heard.expect("the second holds the claim");
    assert_eq!(
        (bearer, outcome.effect),
        (2, Effect::Nothing),
        "it has yet to look"
    );
    let asked = desk.of(2, Event::Woken);
    assert!(
        matches!(asked, Effect::Ask { owner, .. } if owner == claim),
        "{asked:?}"
    );
    let (sent, answer) = (desk.now, granted());
    assert!(desk.of(2, Event::Answered { sent, answer }).enters());
    let token = desk.lease(2).expect("it holds").token;
    assert_eq!(
        Some(token),
        FencingToken::from_fence(7).and_then(FencingToken::next)
    );
}

#[test]
fn a_grant_that_is_doubted_before_its_task_looks_begins_with_a_request() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    let grant = Event::Granted {
        fence: 7,
        number: 7,
    };
    assert_eq!(desk.on(grant), Effect::Wake);
    assert_eq!(desk.on(DOUBT), Effect::Nothing);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_doubt_that_overtakes_the_message_of_its_grant_counts() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    assert_eq!(desk.on(DOUBT), Effect::Wake);
    let grant = Event::Granted {
        fence: 7,
        number: 7,
    };
    assert_eq!(desk.on(grant), Effect::Wake);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_lease_that_is_doubted_while_its_request_is_in_flight_is_asked_for_again() {
    for wait in [Wait::Forever, Wait::Never] {
        let mut desk = Desk::waiting(wait);
        assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
        assert_eq!(desk.on(DOUBT), Effect::Nothing);
        let grant = Event::Granted {
            fence: 7,
            number: 7,
        };
        assert_eq!(desk.on(grant), Effect::Nothing, "it may be older");
        let asked = desk.answer(desk.now, granted());
        assert!(matches!(asked, Effect::Ask { .. }), "{asked:?}");
        assert!(desk.answer(desk.now, granted()).enters());
    }
}

#[test]
fn a_grant_that_comes_after_a_doubt_while_a_request_is_in_flight_is_not_believed() {
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    for fence in [0, 7] {
        let number = fence;
        assert_eq!(desk.on(Event::Granted { fence, number }), Effect::Nothing);
    }
    let holder = Holder {
        last_fence: 6,
        ..Holder::default()
    };
    let asked = desk.answer(sent, Ok(AcquireOutcome::Busy(holder)));
    assert!(matches!(asked, Effect::Ask { .. }), "{asked:?}");
}

#[test]
fn a_lease_on_trial_is_doubted_until_a_renewal_has_confirmed_it() {
    let on_trial = Timing {
        on_trial: true,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(on_trial);
    let is_doubted = |desk: &Desk| desk.state.is_doubted(AttemptId::numbered(1));
    assert!(!is_doubted(&desk));
    desk.pass(SECOND);
    let renews = desk.on(DOUBT);
    assert!(matches!(renews, Effect::Renew { .. }) && is_doubted(&desk));
    for (answer, woken) in [
        (Err(failed(StoreErrorKind::TimedOut)), vec![]),
        (Ok(Renewal::Renewed), vec![1]),
    ] {
        let is_confirmed = answer.is_ok();
        let (owner, sent) = (desk.owner(1), desk.now);
        let renewed = Event::Renewed { sent, answer };
        let heard = desk.state.on_claim(owner, renewed, context!(desk));
        let (_, outcome) = heard.expect("it holds the claim");
        assert_eq!(outcome.invited, woken);
        assert_eq!(is_doubted(&desk), !is_confirmed);
    }
}

#[test]
fn a_lease_that_has_just_come_is_doubted_a_little_later() {
    let mut desk = Desk::holding(Timing::default());
    let Effect::WaitUntil(at) = desk.on(Event::Granted {
        fence: 0,
        number: 0,
    }) else {
        panic!("the message is older than the lease")
    };
    assert!(at.remaining(desk.now) <= SECOND / 4);
    desk.now = at;
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
}

#[test]
fn one_doubt_is_a_reason_for_one_renewal() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(SECOND);
    let effect = desk.on(Event::Granted {
        fence: 0,
        number: 0,
    });
    let Effect::WaitUntil(at) = is_renewed(&mut desk, &effect, Renewal::Renewed) else {
        panic!("it has just been renewed")
    };
    assert!(at.remaining(desk.now) > TTL / 4, "as without a doubt");
}

const GRANT: Event = Event::Granted {
    fence: 7,
    number: 7,
};

/// A message of the store may come more than once, and late.
fn a_late_message_is_not_believed(desk: &mut Desk, number: u64) {
    let heard = desk.state.on_claim(desk.owner(1), GRANT, context!(desk));
    let (bearer, outcome) = heard.expect("it has the claim");
    assert_eq!((bearer, outcome.effect), (number, Effect::Wake));
    let asked = desk.of(number, Event::Woken);
    assert!(matches!(asked, Effect::Ask { .. }), "{asked:?}");
}

fn is_timed_out(desk: &mut Desk) {
    let answer = Err(failed(StoreErrorKind::TimedOut));
    let effect = desk.answer(desk.now, answer);
    assert!(matches!(effect, Effect::WaitUntil(_)), "{effect:?}");
}

#[test]
fn a_late_message_is_not_believed_after_a_granted_answer_was_doubted() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.pass(SECOND);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.on(DOUBT), Effect::Nothing);
    let asked = desk.answer(desk.now, granted());
    assert!(matches!(asked, Effect::Ask { .. }), "{asked:?}");
    is_timed_out(&mut desk);
    a_late_message_is_not_believed(&mut desk, 1);
}

#[test]
fn a_late_message_is_not_believed_after_a_lease_was_doubted_before_its_task_looked() {
    for doubt in [DOUBT, Event::Doubted] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.is_busy(6);
        assert_eq!(desk.on(GRANT), Effect::Wake);
        assert_eq!(desk.on(doubt), Effect::Nothing);
        assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
        is_timed_out(&mut desk);
        a_late_message_is_not_believed(&mut desk, 1);
    }
}

#[test]
fn a_late_message_is_not_believed_by_the_heir_of_a_claim_that_was_doubted() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.queue([2]);
    desk.pass(SECOND);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.on(DOUBT), Effect::Nothing);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    a_late_message_is_not_believed(&mut desk, 2);
}
