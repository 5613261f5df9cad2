//! Tests the validity of a lease, the effect of a renewal, and the release.

use super::*;

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
            // A late answer is more useful than another request.
            limit: first.remaining(desk.now) / 2,
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
    assert!(tries >= 5, "{tries}");
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
    assert_eq!(desk.cause(), LostCause::Revoked);
}

#[test]
fn a_renewal_that_arrives_after_the_deadline_saves_nothing() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    desk.on(Event::Tick);
    let sent = desk.now;
    // The old deadline has passed; the new one would not have.
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
fn the_max_hold_of_one_of_several_begins_when_all_are_there() {
    let max_hold = TTL / 10;
    let mut desk = Desk::holding(Timing {
        max_hold: Some(max_hold),
        on_trial: true,
        ..Timing::default()
    });
    // The call waits for the other keys, and that takes longer than the body may.
    let confirmed = desk.deadline();
    desk.pass(2 * max_hold);
    assert!(matches!(desk.on(Event::Tick), Effect::WaitUntil(_)));
    assert_eq!(desk.deadline(), confirmed);
    let end = desk.now.plus(max_hold);
    let keep = desk.state.end_trial(AttemptId::numbered(1), desk.now);
    let owner = desk.owner(1);
    assert_eq!(
        keep,
        Some(RenewAt { owner, at: end }),
        "the renewer is notified"
    );
    assert_eq!(desk.deadline(), end);
    desk.now = end;
    assert_eq!(desk.on(Event::Tick), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::MaxHold);

    let mut desk = Desk::holding(Timing {
        on_trial: true,
        ..Timing::default()
    });
    let keep = desk.state.end_trial(AttemptId::numbered(1), desk.now);
    assert_eq!(keep, None, "it knows when to renew");
}

#[test]
fn a_forked_child_has_no_lease() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    desk.on(Event::Tick);
    let sent = desk.now;
    let answer = Err(failed(StoreErrorKind::Forked));
    assert_eq!(desk.on(Event::Renewed { sent, answer }), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::OtherProcess);
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
    assert_eq!(desk.cause(), LostCause::RenewalDisabled);
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
    let kept = desk.state.kept_for(AttemptId::numbered(1), desk.now);
    let longer = Duration::from_millis(1);
    assert_eq!(kept, Some(least.saturating_sub(SECOND) + longer));
    let left = desk.now;
    while let Effect::WaitUntil(at) = desk.on(Event::Released(None)) {
        desk.now = at;
    }
    // By then the store has carried it out and needs no more requests, or keeps nothing.
    assert!(!left.plus(TTL + SECOND).is_reached(desk.now));
    assert!(desk.state.is_idle());

    let mut desk = Desk::holding(Timing {
        min_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.now.boot += SECOND;
    let kept = desk.state.kept_for(AttemptId::numbered(1), desk.now);
    assert_eq!(kept, Some(SECOND + longer), "by both clocks");
    desk.now.monotonic += SECOND;
    desk.on(Event::Left);
    assert_eq!(desk.state.kept_for(AttemptId::numbered(1), desk.now), None);
}

#[test]
fn a_lease_that_was_renewed_is_renewed_again_after_a_third_of_its_ttl() {
    let mut desk = Desk::holding(Timing::default());
    for _ in 0..3 {
        desk.pass(TTL / 3);
        assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
        let (sent, answer) = (desk.now, Ok(Renewal::Renewed));
        let Effect::WaitUntil(at) = desk.on(Event::Renewed { sent, answer }) else {
            panic!("it is good for a while")
        };
        assert!(at.remaining(sent) <= TTL / 3);
    }
}
