//! Tests messages that a holder's lock is gone, which may be false.

use super::*;

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
fn a_doubt_about_a_lease_that_was_handed_on_is_the_next_ones() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    let (effect, next) = desk.both(1, Event::Left);
    assert_eq!((effect, next), (Effect::Forget(None), Some(2)));
    let owner = desk.owner(1);
    let doubt = Event::Granted {
        fence: 0,
        number: 0,
    };
    let heard = desk.state.on_claim(owner, doubt, context!(desk));
    let (bearer, outcome) = heard.expect("the second holds the claim");
    assert_eq!(
        (bearer, outcome.effect),
        (2, Effect::Nothing),
        "it has yet to look"
    );
    let Effect::Enter {
        renew_at: Some(keep),
    } = desk.of(2, Event::Woken)
    else {
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
