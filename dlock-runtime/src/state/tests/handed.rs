//! Tests which parts of a claim pass to the next task of the process, and which do not.

use super::*;

#[test]
fn the_renewer_is_told_of_a_handed_lease_if_it_has_to_look_earlier_than_for_the_last_section() {
    let end = SECOND;
    let mut desk = Desk::holding(Timing::default());
    desk.enter(
        2,
        Timing {
            max_hold: Some(end),
            ..waits(Wait::Forever)
        },
    );
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let looked = desk.now;
    let Effect::Enter {
        renew_at: Some(keep),
    } = desk.of(2, Event::Woken)
    else {
        panic!("its `max_hold` ends before the renewal is due")
    };
    assert_eq!(keep.at, looked.plus(end));

    // The last lease was not renewed, so the renewer would check at its deadline.
    let mut desk = Desk::holding(Timing {
        renew: false,
        ..Timing::default()
    });
    desk.queue([2]);
    desk.both(1, Event::Left);
    let Effect::Enter {
        renew_at: Some(keep),
    } = desk.of(2, Event::Woken)
    else {
        panic!("it is to be renewed")
    };
    assert!(keep.at.remaining(desk.now) <= TTL / 3);
}

#[test]
fn the_renewer_looks_no_later_than_the_end_of_max_hold() {
    let mut desk = Desk::new(Timing {
        max_hold: Some(SECOND),
        ..waits(Wait::Forever)
    });
    desk.on(Event::Woken);
    let Effect::Enter {
        renew_at: Some(keep),
    } = desk.answer(desk.now, granted())
    else {
        panic!("it is free")
    };
    assert_eq!(keep.at, desk.now.plus(SECOND));
}

#[test]
fn a_lease_that_came_due_unlooked_at_is_told_to_the_renewer_when_somebody_looks() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.both(1, Event::Left);
    assert!(matches!(desk.of(2, Event::Tick), Effect::WaitUntil(_)));
    let effect = desk.of(2, Event::Woken);
    assert!(
        matches!(effect, Effect::Enter { renew_at: Some(_) }),
        "{effect:?}"
    );

    // Also if it is handed over once more before that.
    let mut desk = Desk::new(waits(Wait::Forever));
    desk.is_busy(6);
    desk.queue([2]);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let effect = desk.of(2, Event::Woken);
    assert!(effect.enters(), "no renewer knows of it: {effect:?}");
}

#[test]
fn a_section_counts_from_when_it_has_looked_not_from_when_it_was_handed_the_lease() {
    let mut desk = Desk::holding(Timing::default());
    desk.enter(
        2,
        Timing {
            max_hold: Some(2 * SECOND),
            ..waits(Wait::Forever)
        },
    );
    desk.both(1, Event::Left);
    desk.pass(SECOND);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Enter { .. }));
    let since = desk.now;
    let held = desk.lease(2).expect("it holds");
    assert_eq!((held.since, held.deadline), (since, since.plus(2 * SECOND)));
    desk.now = desk.now.plus(2 * SECOND);
    assert_eq!(desk.of(2, Event::Tick), Effect::Lose);
    let loss = desk
        .state
        .loss(AttemptId::numbered(2))
        .expect("it was lost");
    assert_eq!(
        (loss.cause, loss.held_for),
        (LostCause::MaxHold, 2 * SECOND)
    );
}

#[test]
fn a_section_with_a_min_hold_takes_over_no_lease_that_nobody_has_looked_at() {
    let mut desk = Desk::new(waits(Wait::Forever));
    desk.is_busy(6);
    desk.enter(
        2,
        Timing {
            min_hold: Some(SECOND),
            ..waits(Wait::Forever)
        },
    );
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    let second = desk.owner(2);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { owner, .. } if owner == second));
}

#[test]
fn a_lease_of_several_is_kept_for_its_min_hold_from_when_all_are_there() {
    let timing = Timing {
        min_hold: Some(TTL),
        on_trial: true,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(timing);
    assert_eq!(desk.state.kept_for(AttemptId::numbered(1), desk.now), None);
    desk.state.end_trial(AttemptId::numbered(1), desk.now);
    let kept = desk.state.kept_for(AttemptId::numbered(1), desk.now);
    assert_eq!(kept, Some(TTL + Duration::from_millis(1)));
    // The message refers to the lease of another attempt.
    let mut desk = Desk::holding(timing);
    desk.state.end_trial(AttemptId::numbered(2), desk.now);
    assert_eq!(desk.state.kept_for(AttemptId::numbered(1), desk.now), None);
}

#[test]
fn an_absent_task_keeps_its_own_claim_also_if_it_could_use_the_one_in_front() {
    let mut desk = Desk::holding(waits(Wait::Forever));
    desk.handover = false;
    desk.queue([2]);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    // The second attempt had a lease before its task stopped responding: an attempt with a `min_hold` cannot
    // use that claim.
    let sent = desk.now;
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    desk.of(
        2,
        Event::Answered {
            sent,
            answer: granted(),
        },
    );
    desk.handover = true;
    desk.queue([3]);
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    desk.pass(2 * ALIVE);
    desk.enter(
        4,
        Timing {
            min_hold: Some(SECOND),
            ..waits(Wait::Forever)
        },
    );
    let fourth = desk.owner(3);
    assert!(matches!(desk.of(4, Event::Woken), Effect::Ask { owner, .. } if owner == fourth));
    assert!(matches!(desk.of(3, Event::Woken), Effect::Queue(_)));
    // If it took over this claim, the claim that it has kept would never be released.
    let (effect, next) = desk.both(4, Event::Left);
    assert_eq!((effect, next), (Effect::Release { owner: fourth }, Some(3)));
    let second = desk.owner(2);
    assert!(matches!(desk.of(3, Event::Woken), Effect::Ask { owner, .. } if owner == second));
}

#[test]
fn what_an_absent_task_has_kept_is_given_back_until_the_store_has_answered() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.enter(
        2,
        Timing {
            ttl: 2 * TTL,
            ..waits(Wait::Forever)
        },
    );
    desk.pass(2 * ALIVE);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.on(Event::Left), desk.release());
    assert!(matches!(
        desk.on(Event::Released(None)),
        Effect::WaitUntil(_)
    ));
    let answer = Some(Released::WasGone);
    assert_eq!(desk.on(Event::Released(answer)), Effect::Forget(answer));
}

#[test]
fn a_long_section_is_not_passed_over_by_those_behind_it() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.pass(2 * ALIVE);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
    assert!(desk.lease(1).is_some());
}

#[test]
fn who_comes_after_one_that_did_not_wait_asks_at_once() {
    let mut desk = Desk::waiting(Wait::Never);
    desk.on(Event::Woken);
    desk.queue([2]);
    let effect = desk.answer(desk.now, busy(Some(TTL)));
    assert!(matches!(effect, Effect::Refuse(_)));
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let effect = desk.of(2, Event::Woken);
    assert!(
        matches!(effect, Effect::Ask { queue: true, .. }),
        "the first has no place in the queue: {effect:?}"
    );
}

#[test]
fn a_young_lease_with_too_little_left_goes_back_to_the_store() {
    let timing = Timing {
        ttl: SECOND / 5,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::new(timing);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.enter(2, timing);
    // The answer has taken most of the time.
    desk.pass(SECOND * 3 / 20);
    assert!(desk.answer(sent, granted()).enters());
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
}

#[test]
fn a_waiter_that_comes_to_the_front_as_its_wait_ends_asks_nothing() {
    let mut desk = Desk::holding(Timing::default());
    desk.enter(2, waits(Wait::For(SECOND)));
    assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
    desk.handover = false;
    desk.pass(SECOND.saturating_sub(Duration::from_millis(1)));
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    desk.pass(Duration::from_millis(1));
    let effect = desk.of(2, Event::Woken);
    assert!(
        matches!(effect, Effect::Refuse(Denial::Busy { .. })),
        "{effect:?}"
    );
}

#[test]
fn an_absent_task_that_looks_again_has_its_old_place_before_those_that_came_later() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.queue([2, 3]);
    desk.pass(2 * ALIVE);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert!(matches!(desk.on(Event::Woken), Effect::Queue(_)));
    let (_, next) = desk.both(2, Event::Left);
    assert_eq!(next, Some(1), "the third came later");
}

#[test]
fn a_young_lease_whose_renewal_has_failed_goes_back_to_the_store() {
    let timing = Timing {
        ttl: TTL / 1000,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(timing);
    desk.enter(2, timing);
    desk.pass(timing.ttl / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let (sent, answer) = (desk.now, Err(failed(StoreErrorKind::Disconnected)));
    desk.on(Event::Renewed { sent, answer });
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
}

#[test]
fn a_turn_ends_also_while_the_machine_sleeps() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.now.boot += Duration::from_millis(11);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
}

#[test]
fn a_loss_that_a_look_finds_lets_the_next_one_ask() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    let first = desk.owner(1);
    assert!(desk.state.is_held_by(first));
    assert!(!desk.state.is_held_by(desk.owner(2)), "a separate claim");
    desk.pass(TTL);
    let outcome = desk.state.check(AttemptId::numbered(1), context!(desk));
    assert_eq!((outcome.effect, outcome.next), (Effect::Lose, Some(2)));
    let second = desk.owner(2);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { owner, .. } if owner == second));
}

#[test]
fn a_task_behind_others_looks_now_and_then_however_long_it_waits() {
    let mut desk = Desk::holding(Timing::default());
    desk.enter(2, waits(Wait::For(100 * ALIVE)));
    let looks = Effect::Queue(desk.now.plus(ALIVE));
    assert_eq!(desk.of(2, Event::Woken), looks);
}
