//! Tests answers and wake-up messages that come late, twice, or out of order.

use super::*;

/// The first task has a lease of this TTL, and its renewal is in flight when the lease passes to the second
/// task. That one does not renew and therefore sends its own request. Returns when the renewal was sent.
fn renewal_outlives_its_section(ttl: Duration) -> (Desk, Moment) {
    let timing = Timing {
        ttl,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(timing);
    desk.enter(
        2,
        Timing {
            renew: false,
            ..timing
        },
    );
    desk.pass(ttl / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    (desk, sent)
}

/// The second task sends a request for the claim and is granted the lease with this fence.
fn is_granted_to_the_second(desk: &mut Desk, fence: u64) -> Moment {
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.pass(Duration::from_millis(1));
    let answer = Ok(AcquireOutcome::granted(fence));
    assert!(matches!(
        desk.of(2, Event::Answered { sent, answer }),
        Effect::Enter { .. }
    ));
    sent
}

fn renewed(desk: &mut Desk, sent: Moment, answer: Renewal) -> Effect {
    let (owner, answer) = (desk.owner(1), Ok(answer));
    let event = Event::Renewed { sent, answer };
    let told = desk.state.on_claim(owner, event, context!(desk));
    let (bearer, outcome) = told.expect("the second holds the claim");
    assert_eq!(bearer, 2);
    outcome.effect
}

#[test]
fn a_stale_not_yours_does_not_end_a_newer_lease() {
    let (mut desk, sent) = renewal_outlives_its_section(TTL / 1000);
    // The store had lost the first lease: this one has another fence.
    is_granted_to_the_second(&mut desk, 9);
    let HeldLease {
        token, deadline, ..
    } = desk.lease(2).expect("it holds");
    // Others may have had the lock in between, with greater tokens than the next one of the first lease.
    assert_eq!(Some(token), FencingToken::from_fence(9));
    let effect = renewed(&mut desk, sent, Renewal::NotOwner);
    assert_eq!(effect, Effect::WaitUntil(deadline));
    assert_eq!(desk.lease(2).map(|held| held.deadline), Some(deadline));
}

#[test]
fn a_not_yours_that_was_asked_for_under_this_lease_ends_it_whoever_asked() {
    let (mut desk, sent) = renewal_outlives_its_section(TTL / 1000);
    // The same lease: its renewal was sent after it was granted.
    is_granted_to_the_second(&mut desk, 7);
    assert_eq!(renewed(&mut desk, sent, Renewal::NotOwner), Effect::Lose);
    let loss = desk
        .state
        .loss(AttemptId::numbered(2))
        .expect("it was lost");
    assert_eq!(loss.cause, LostCause::Revoked);
}

#[test]
fn an_older_answer_takes_nothing_from_what_a_newer_one_has_promised() {
    let (mut desk, sent) = renewal_outlives_its_section(TTL / 1000);
    desk.pass(Duration::from_millis(3));
    is_granted_to_the_second(&mut desk, 7);
    let deadline = desk.lease(2).expect("it holds").deadline;
    renewed(&mut desk, sent, Renewal::Renewed);
    assert_eq!(desk.lease(2).map(|held| held.deadline), Some(deadline));
}

#[test]
fn a_lease_that_is_lost_before_its_section_has_looked_is_asked_for_again() {
    let timing = Timing {
        ttl: TTL / 1000,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(timing);
    desk.enter(2, timing);
    desk.pass(TTL / 3000);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let told = renewed(&mut desk, sent, Renewal::NotOwner);
    assert_eq!(
        told,
        Effect::Wake,
        "no section has begun that could lose it"
    );
    assert_eq!(desk.state.loss(AttemptId::numbered(2)), None);
    assert!(
        !desk.state.is_held_by(desk.owner(1)),
        "nothing to look after"
    );
    let first = desk.owner(1);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { owner, .. } if owner == first));
}

#[test]
fn a_wake_up_that_comes_again_does_not_bring_back_a_lease_that_the_store_denied() {
    // Short enough that the renewal is due while the lease may still be handed over.
    let timing = Timing {
        ttl: TTL / 1000,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::new(timing);
    desk.is_busy(6);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    let Effect::Enter {
        renew_at: Some(keep),
    } = desk.on(Event::Woken)
    else {
        panic!("an answer confirms it")
    };
    desk.enter(2, timing);
    desk.now = keep.at;
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    assert_eq!(renewed(&mut desk, sent, Renewal::NotOwner), Effect::Wake);
    let again = Event::Granted {
        fence: 7,
        number: 7,
    };
    assert_eq!(desk.of(2, again), Effect::Wake);
    let asks = desk.of(2, Event::Woken);
    assert!(matches!(asks, Effect::Ask { .. }), "{asks:?}");
}

#[test]
fn news_of_a_grant_are_not_replaced_by_the_word_to_look_again() {
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Nothing
    );
    assert_eq!(desk.on(Event::LookAgain), Effect::Nothing);
    let holder = Holder {
        last_fence: 6,
        ..Holder::default()
    };
    let effect = desk.answer(sent, Ok(AcquireOutcome::Busy(holder)));
    assert!(effect.enters(), "{effect:?}");
}

#[test]
fn a_wake_up_about_a_lease_that_the_last_answer_knew_to_be_over_is_not_believed() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.pass(SECOND / 4);
    // Otherwise the answer would have been that it holds the lease: an operator has revoked it.
    desk.on(Event::LookAgain);
    desk.is_busy(8);
    let revoked = Event::Granted {
        fence: 7,
        number: 7,
    };
    assert_eq!(desk.on(revoked), Effect::Wake);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_wake_up_of_a_section_that_has_begun_changes_nothing() {
    let max_hold = Some(SECOND);
    let mut desk = Desk::holding(Timing {
        max_hold,
        ..Timing::default()
    });
    let end = desk.deadline();
    desk.pass(SECOND / 2);
    assert_eq!(desk.on(Event::Woken), Effect::Nothing);
    assert_eq!(desk.on(Event::LookAgain), Effect::Nothing);
    assert_eq!(desk.deadline(), end, "`max_hold` does not begin anew");
}

#[test]
fn a_release_that_waits_to_be_repeated_is_woken_by_any_word_of_the_store() {
    for word in [
        Event::LookAgain,
        Event::Granted {
            fence: 9,
            number: 9,
        },
    ] {
        let mut desk = Desk::holding(Timing::default());
        assert_eq!(desk.on(Event::Left), desk.release());
        assert_eq!(desk.on(word), Effect::Wake);
    }
}

#[test]
fn a_wake_up_that_comes_again_makes_a_lease_no_younger() {
    let mut desk = Desk::new(waits(Wait::Forever));
    desk.is_busy(6);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert!(desk.on(Event::Woken).enters());
    // The next attempt sends a request, as it does not renew, and leaves before the answer.
    desk.enter(
        2,
        Timing {
            renew: false,
            ..waits(Wait::Forever)
        },
    );
    desk.queue([3, 4]);
    desk.pass(Duration::from_millis(10));
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    assert_eq!(
        desk.of(
            3,
            Event::Granted {
                fence: 7,
                number: 7
            }
        ),
        Effect::Wake
    );
    assert!(matches!(desk.of(3, Event::Woken), Effect::Enter { .. }));
    desk.pass(Duration::from_micros(1));
    assert_eq!(desk.both(3, Event::Left), (desk.release(), Some(4)));
}
