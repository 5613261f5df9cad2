//! Tests what the store may still keep of an attempt, and for how long its release is repeated.

use super::*;

/// Repeats a release that never gets an answer. Returns when the repetition ends.
fn repeated_until(desk: &mut Desk, number: u64) -> Moment {
    loop {
        match desk.of(number, Event::Released(None)) {
            Effect::WaitUntil(at) => desk.now = at,
            Effect::Forget(None) => return desk.now,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_release_of_a_renewed_lease_is_repeated_until_the_renewal_has_run_out() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    // Its answer has not arrived: the request may have been carried out.
    let sent = desk.now;
    assert_eq!(desk.on(Event::Left), desk.release());
    let end = repeated_until(&mut desk, 1);
    assert!(sent.plus(TTL).is_reached(end));
}

#[test]
fn a_release_at_the_very_end_of_a_lease_is_still_repeated_for_a_second() {
    let mut desk = Desk::holding(Timing {
        renew: false,
        ..Timing::default()
    });
    desk.pass(TTL);
    assert_eq!(desk.on(Event::Left), desk.release());
    let left = desk.now;
    let end = repeated_until(&mut desk, 1);
    assert!(left.plus(SECOND).is_reached(end));
}

#[test]
fn a_release_after_a_wake_up_that_was_not_believed_covers_the_whole_lease() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    // Later requests are not even sent.
    desk.pass(TTL.saturating_sub(SECOND));
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let unreachable = Err(failed(StoreErrorKind::Unreachable));
    desk.answer(desk.now, unreachable);
    let told = desk.now;
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert_eq!(desk.on(Event::Left), desk.release());
    let end = repeated_until(&mut desk, 1);
    assert!(told.plus(TTL).is_reached(end));
}

#[test]
fn after_a_success_failures_are_repeated_as_soon_as_the_first_time() {
    let soon = Duration::from_millis(25);
    let pause = |effect: &Effect, desk: &Desk| match effect {
        Effect::WaitUntil(at) => at.remaining(desk.now),
        other => panic!("{other:?}"),
    };
    let unreachable = || failed(StoreErrorKind::Unreachable);
    let fail_often = |desk: &mut Desk| {
        for _ in 0..8 {
            let effect = desk.on(Event::Woken);
            assert!(matches!(effect, Effect::Ask { .. }), "{effect:?}");
            let effect = desk.answer(desk.now, Err(unreachable()));
            let at = pause(&effect, desk);
            desk.pass(at);
        }
    };

    // An answer that the key is held.
    let mut desk = Desk::waiting(Wait::Forever);
    fail_often(&mut desk);
    desk.is_busy(6);
    desk.pass(2 * SECOND);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let effect = desk.answer(desk.now, Err(unreachable()));
    assert!(pause(&effect, &desk) <= soon, "{effect:?}");

    // A grant.
    let mut desk = Desk::waiting(Wait::Forever);
    fail_often(&mut desk);
    desk.is_granted(7);
    desk.pass(TTL / 3);
    for _ in 0..8 {
        let effect = desk.on(Event::Tick);
        assert!(matches!(effect, Effect::Renew { .. }), "{effect:?}");
        let (sent, answer) = (desk.now, Err(unreachable()));
        let effect = desk.on(Event::Renewed { sent, answer });
        let at = pause(&effect, &desk);
        assert!(sent != desk.now || at <= SECOND);
        desk.pass(at);
    }
    // A renewal.
    let effect = desk.on(Event::Tick);
    assert!(matches!(effect, Effect::Renew { .. }), "{effect:?}");
    let sent = desk.now;
    let answer = Ok(Renewal::Renewed);
    desk.on(Event::Renewed { sent, answer });
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let (sent, answer) = (desk.now, Err(unreachable()));
    let effect = desk.on(Event::Renewed { sent, answer });
    assert!(pause(&effect, &desk) <= soon, "{effect:?}");

    // A release starts the time anew, whatever failed before it.
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.pass(2 * SECOND);
    fail_often(&mut desk);
    assert_eq!(desk.on(Event::Left), desk.release());
    let effect = desk.on(Event::Released(None));
    assert!(pause(&effect, &desk) <= soon, "{effect:?}");
}

#[test]
fn the_first_renewal_of_a_lease_is_repeated_soon_whatever_failed_before_the_grant() {
    let mut desk = Desk::waiting(Wait::Forever);
    for _ in 0..8 {
        assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
        desk.answer(desk.now, Err(failed(StoreErrorKind::Unreachable)));
        desk.pass(2 * SECOND);
    }
    desk.is_granted(7);
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    let answer = Err(failed(StoreErrorKind::TimedOut));
    let Effect::WaitUntil(at) = desk.on(Event::Renewed { sent, answer }) else {
        panic!("it is repeated after a pause")
    };
    assert!(at.remaining(desk.now) <= Duration::from_millis(25));
}

#[test]
fn renewals_of_a_short_lease_are_repeated_after_a_tenth_of_it_at_the_latest() {
    let ttl = Duration::from_millis(100);
    let mut desk = Desk::holding(Timing {
        ttl,
        ..waits(Wait::Forever)
    });
    desk.pass(ttl / 3);
    let mut effect = desk.on(Event::Tick);
    let mut tries = 0;
    while let Effect::Renew { limit, .. } = effect {
        tries += 1;
        assert!(limit <= ttl / 3, "time for a second try is left: {limit:?}");
        assert!(limit <= desk.deadline().remaining(desk.now));
        let (sent, answer) = (desk.now, Err(failed(StoreErrorKind::Disconnected)));
        effect = desk.on(Event::Renewed { sent, answer });
        if let Effect::WaitUntil(at) = effect {
            assert!(at.remaining(desk.now) <= ttl / 10);
            desk.now = at;
            effect = desk.on(Event::Tick);
        }
    }
    assert_eq!(effect, Effect::Lose);
    assert!(tries >= 6, "{tries}");
}

#[test]
fn a_failure_that_was_made_up_for_is_not_the_cause_of_a_later_loss() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let (sent, answer) = (desk.now, Err(failed(StoreErrorKind::Disconnected)));
    desk.on(Event::Renewed { sent, answer });
    desk.pass(SECOND);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let (sent, answer) = (desk.now, Ok(Renewal::Renewed));
    desk.on(Event::Renewed { sent, answer });
    // The machine is suspended.
    desk.now.boot += TTL;
    assert_eq!(desk.on(Event::Tick), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::Expired);
}

#[test]
fn the_release_of_a_place_in_the_queue_covers_what_may_still_be_granted_to_it() {
    let ttl = Duration::from_millis(100);
    let mut desk = Desk::new(Timing {
        ttl,
        ..waits(Wait::Forever)
    });
    desk.is_busy(6);
    let asked = desk.now;
    assert_eq!(desk.on(Event::Left), desk.release());
    // Alive in the queue for three seconds, and then the holder for three.
    let end = repeated_until(&mut desk, 1);
    assert!(asked.plus(2 * ALIVE).is_reached(end));
}

#[test]
fn whoever_takes_over_a_release_goes_on_with_its_pauses() {
    let mut desk = Desk::holding(Timing::default());
    assert_eq!(desk.on(Event::Left), desk.release());
    let mut pause = Duration::ZERO;
    for _ in 0..5 {
        let Effect::WaitUntil(at) = desk.on(Event::Released(None)) else {
            panic!("it is repeated")
        };
        pause = at.remaining(desk.now);
        desk.now = at;
    }
    // Its runtime has shut down.
    assert_eq!(desk.on(Event::Left), desk.release());
    let Effect::WaitUntil(at) = desk.on(Event::Released(None)) else {
        panic!("it is repeated")
    };
    assert!(at.remaining(desk.now) >= pause);
}

#[test]
fn what_is_known_of_a_key_does_not_grow_with_the_wait_for_it() {
    let mut desk = Desk::waiting(Wait::Forever);
    let mut sizes = Vec::new();
    for last_fence in 1000..1100 {
        desk.is_busy(last_fence);
        sizes.push(format!("{:?}", desk.state).len());
        desk.pass(2 * SECOND);
    }
    let (early, late) = (sizes[10], sizes[99]);
    assert!(late < early + early / 10, "{early} and then {late}");
}
