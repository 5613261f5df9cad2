//! Tests requests, waiting, and leaving with or without the lease.

use super::*;
use crate::fence::fence_by_the_clock;

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
    // Dropped while the request is in flight.
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
        (
            Some(SECOND * 11 / 10),
            SECOND * 11 / 10 + Duration::from_millis(1),
        ),
        (Some(TTL), SECOND),
        (None, SECOND),
    ] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.on(Event::Woken);
        let effect = desk.answer(desk.now, busy(ttl));
        assert_eq!(effect, Effect::WaitUntil(desk.now.plus(pause)));
    }
}

/// Always the same value.
struct Drawn(u64);

impl Random for Drawn {
    fn next_u64(&self) -> u64 {
        self.0
    }
}

#[test]
fn waiters_come_soon_after_an_end_that_they_know_but_not_all_at_once() {
    let spread = Duration::from_millis(25);
    for ttl in [SECOND / 10, SECOND / 2, SECOND * 11 / 10] {
        let looks = [0, 10_000, u64::MAX].map(|drawn| {
            let mut desk = Desk::waiting(Wait::Forever);
            desk.on(Event::Woken);
            let context = Context {
                random: &Drawn(drawn),
                ..context!(desk)
            };
            let (sent, answer) = (desk.now, busy(Some(ttl)));
            let answered = Event::Answered { sent, answer };
            let id = AttemptId::numbered(1);
            let effect = desk.state.on_event(id, answered, context).effect;
            let Effect::WaitUntil(at) = effect else {
                panic!("{effect:?}");
            };
            let late = at.remaining(desk.now).checked_sub(ttl);
            late.expect("it comes after the end")
        });
        assert!(
            looks
                .iter()
                .all(|late| *late <= spread + Duration::from_millis(1))
        );
        assert!(looks[0] < looks[1], "{ttl:?}: {looks:?}");
    }
}

#[test]
fn a_task_behind_a_kept_lease_knows_its_end_although_its_request_comes_first() {
    let kept = SECOND * 6 / 10;
    let mut desk = Desk::holding(Timing {
        min_hold: Some(kept),
        ..waits(Wait::Forever)
    });
    desk.queue([2]);
    desk.pass(SECOND / 5);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    let ends = desk.now.plus(SECOND * 4 / 10);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    let (sent, answer) = (desk.now, busy(Some(TTL)));
    let effect = desk.of(2, Event::Answered { sent, answer });
    let Effect::WaitUntil(at) = effect else {
        panic!("{effect:?}");
    };
    assert!(ends.is_reached(at) && at.remaining(ends) <= Duration::from_millis(2));

    // After that it knows no more than what it is told.
    desk.now = at;
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    let (sent, answer) = (desk.now, busy(Some(TTL)));
    let looks = Effect::WaitUntil(desk.now.plus(SECOND));
    assert_eq!(desk.of(2, Event::Answered { sent, answer }), looks);
}

/// The number of commands that a waiter costs, as `docs/book/src/how-to/servers.md` gives it.
#[test]
fn a_waiter_asks_once_a_second_and_more_often_of_a_lease_that_is_always_about_to_end() {
    let questions_in_a_minute = |ttl: Duration| {
        let mut desk = Desk::waiting(Wait::Forever);
        let (begin, mut questions) = (desk.now, 0);
        let mut effect = desk.on(Event::Woken);
        while !begin.plus(60 * SECOND).is_reached(desk.now) {
            effect = match effect {
                Effect::Ask { .. } => {
                    questions += 1;
                    // The holder renews after each third.
                    let since = desk.now.boot.saturating_sub(begin.boot).as_nanos();
                    let since = since % (ttl / 3).as_nanos();
                    let left = ttl.saturating_sub(Duration::from_nanos(since.try_into().unwrap()));
                    desk.answer(desk.now, busy(Some(left)))
                }
                Effect::WaitUntil(at) => {
                    desk.now = at;
                    desk.on(Event::Woken)
                }
                other => panic!("{other:?}"),
            };
        }
        questions
    };
    for ttl in [TTL, 3 * SECOND / 2] {
        assert_eq!(questions_in_a_minute(ttl), 60, "{ttl:?}");
    }
    let (most, least) = (questions_in_a_minute(SECOND / 5), 60 * 5);
    assert!((least..=60 * 15 / 2).contains(&most), "{most}");
}

#[test]
fn a_hint_makes_a_waiter_look_at_once_also_when_it_overtakes_an_answer() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    desk.answer(desk.now, busy(None));
    assert_eq!(desk.on(Event::LookAgain), Effect::Wake);
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
    assert!(
        !desk.now.plus(SECOND).is_reached(at),
        "the wait ends before the next look is due"
    );
    // One request that the end of the wait cuts short is less precise than the answer before.
    desk.pass(SECOND / 2);
    desk.on(Event::LookAgain);
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("a request is due")
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
    pauses.truncate(pauses.len() - 2);
    // The last two are cut short by the last request and the end of the wait.
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
    let effect = desk.answer(desk.now, Ok(AcquireOutcome::granted(u64::MAX)));
    assert!(matches!(effect, Effect::Refuse(Denial::Unavailable { .. })));
    assert_eq!(
        desk.on(Event::Left),
        desk.release(),
        "the store believes that it granted"
    );
}

/// A resource that has seen it would refuse all tokens after it.
#[test]
fn a_hint_with_a_fence_of_the_far_future_only_makes_the_waiter_ask() {
    let far = fence_by_the_clock() + 25 * 3600 * 100_000;
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    let hint = Event::Granted {
        fence: far,
        number: far,
    };
    assert_eq!(desk.on(hint), Effect::Wake);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn closing_refuses_waiters_and_spares_holders_and_revoking_takes_their_leases() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.on(Event::Woken);
    assert_eq!(desk.on(Event::Closed), Effect::Wake);
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
    assert_eq!(desk.on(Event::CutShort), Effect::Lose);
    assert_eq!(desk.cause(), LostCause::ShutDown);
}

#[test]
fn a_question_is_not_waited_for_longer_than_its_lease_would_last() {
    let ttl = SECOND / 5;
    let mut desk = Desk::new(Timing {
        ttl,
        ..waits(Wait::Forever)
    });
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it is in front")
    };
    assert_eq!(limit, ttl);
}

#[test]
fn a_wait_that_ends_with_its_first_question_unanswered_ends_there() {
    let mut desk = Desk::waiting(Wait::For(SECOND / 2));
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it is in front")
    };
    let sent = desk.now;
    desk.pass(limit);
    let effect = desk.answer(sent, Err(StoreError::timed_out(limit)));
    let Effect::Refuse(Denial::Unavailable { waited, .. }) = effect else {
        panic!("{effect:?}")
    };
    assert_eq!(waited, SECOND / 2);
}

#[test]
fn a_wait_that_ends_before_a_store_has_to_answer_finds_the_lock_busy() {
    let wait = (SECOND / 4).saturating_sub(Duration::from_millis(1));
    let mut desk = Desk::waiting(Wait::For(wait));
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it is in front")
    };
    let sent = desk.now;
    desk.enter(2, waits(Wait::For(wait)));
    desk.of(2, Event::Woken);
    desk.pass(limit);
    // Behind the request as well.
    let behind = desk.of(2, Event::Woken);
    let effect = desk.answer(sent, Err(StoreError::timed_out(limit)));
    for effect in [behind, effect] {
        assert!(
            matches!(effect, Effect::Refuse(Denial::Busy { waited, .. }) if waited == wait),
            "{effect:?}"
        );
    }
    assert_eq!(desk.on(Event::Left), desk.release());
}

#[test]
fn only_a_question_that_the_end_of_the_wait_cuts_short_says_less_than_the_one_before() {
    // A failure of another kind is more precise.
    let mut desk = Desk::waiting(Wait::For(SECOND));
    desk.is_busy(6);
    desk.on(Event::LookAgain);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.pass(SECOND);
    let effect = desk.answer(sent, Err(failed(StoreErrorKind::Disconnected)));
    assert!(
        matches!(effect, Effect::Refuse(Denial::Unavailable { .. })),
        "{effect:?}"
    );

    // The same is true of a server that has not answered for a whole second before the end.
    let mut desk = Desk::waiting(Wait::For(2 * SECOND));
    desk.is_busy(6);
    desk.on(Event::LookAgain);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.pass(SECOND);
    let effect = desk.answer(sent, Err(StoreError::timed_out(SECOND)));
    let mut effect = waits_on(&mut desk, effect);
    while let Effect::Ask { limit, .. } = effect {
        let sent = desk.now;
        desk.pass(limit);
        let answer = desk.answer(sent, Err(StoreError::timed_out(limit)));
        effect = waits_on(&mut desk, answer);
    }
    assert!(
        matches!(effect, Effect::Refuse(Denial::Unavailable { waited, .. }) if waited == 2 * SECOND),
        "{effect:?}"
    );
}

#[test]
fn whoever_is_refused_by_a_shutdown_waits_for_no_answer() {
    for event in [|| Event::Closed, || Event::CutShort] {
        let mut desk = Desk::waiting(Wait::Forever);
        assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
        assert!(desk.state.is_asking(AttemptId::numbered(1)));
        assert_eq!(desk.on(event()), Effect::Wake);
        assert!(!desk.state.is_asking(AttemptId::numbered(1)));
        assert_eq!(desk.on(Event::Woken), Effect::Refuse(Denial::Closed));
    }
}

#[test]
fn somebody_who_does_not_wait_is_told_who_is_before_it_also_while_that_one_asks() {
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    desk.enter(2, waits(Wait::Never));
    let Effect::Refuse(Denial::Busy { holder, .. }) = desk.of(2, Event::Woken) else {
        panic!("another task of this process is first")
    };
    assert!(holder.is_here);

    // The holder is then another process, and the place in its queue is not this one's.
    let holder = Holder {
        ttl: Some(TTL),
        position: Some(3),
        label: Some("other@host/1".to_owned()),
        ..Holder::default()
    };
    desk.answer(desk.now, Ok(AcquireOutcome::Busy(holder)));
    desk.enter(3, waits(Wait::Never));
    let Effect::Refuse(Denial::Busy { holder, .. }) = desk.of(3, Event::Woken) else {
        panic!("it is held")
    };
    assert_eq!((holder.position, holder.is_here), (None, false));
    assert_eq!(holder.label.as_deref(), Some("other@host/1"));
}

#[test]
fn waiters_do_not_all_look_again_at_the_same_time() {
    struct Late;
    impl Random for Late {
        fn next_u64(&self) -> u64 {
            200_000
        }
    }

    let mut desk = Desk::waiting(Wait::Forever);
    let (id, sent) = (AttemptId::numbered(1), desk.now);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let answered = Event::Answered {
        sent,
        answer: busy(None),
    };
    let context = Context {
        random: &Late,
        ..context!(desk)
    };
    let effect = desk.state.on_event(id, answered, context).effect;
    assert_eq!(effect, Effect::WaitUntil(sent.plus(SECOND * 6 / 5)));
}

/// Continues until the task has to do something other than wait.
fn waits_on(desk: &mut Desk, mut effect: Effect) -> Effect {
    while let Effect::WaitUntil(at) = effect {
        desk.now = at;
        effect = desk.on(Event::Woken);
    }
    effect
}

#[test]
fn a_key_that_was_deleted_without_a_word_is_taken_at_the_end_of_the_wait() {
    for wait in [SECOND / 100, SECOND / 2, SECOND, 5 * SECOND / 2, TTL] {
        let mut desk = Desk::waiting(Wait::For(wait));
        let end = desk.now.plus(wait);
        let mut effect = desk.on(Event::Woken);
        // The key is held for most of the wait, and until after the request of each second.
        let freed = desk.now.plus(wait / 2);
        loop {
            assert!(matches!(effect, Effect::Ask { .. }), "{wait:?}: {effect:?}");
            let is_free = freed.is_reached(desk.now);
            effect = desk.answer(desk.now, if is_free { granted() } else { busy(Some(TTL)) });
            if is_free {
                break;
            }
            effect = waits_on(&mut desk, effect);
        }
        assert!(effect.enters(), "{wait:?}: {effect:?}");
        assert!(!end.is_reached(desk.now), "{wait:?}");
    }
}

#[test]
fn the_last_look_is_one_question_and_the_wait_ends_with_it() {
    let mut desk = Desk::waiting(Wait::For(SECOND));
    let (begun, mut sent) = (desk.now, Vec::new());
    let mut effect = desk.on(Event::Woken);
    let denial = loop {
        match effect {
            Effect::Ask { .. } => {
                sent.push(begun.elapsed(desk.now));
                let answer = desk.answer(desk.now, busy(Some(TTL)));
                effect = waits_on(&mut desk, answer);
            }
            Effect::Refuse(denial) => break denial,
            other => panic!("{other:?}"),
        }
    };
    let last = Duration::from_millis(950);
    assert_eq!(sent, [Duration::ZERO, last]);
    assert!(matches!(denial, Denial::Busy { waited, .. } if waited == SECOND));
}

#[test]
fn the_last_look_comes_earlier_if_the_store_is_far_away() {
    let mut desk = Desk::waiting(Wait::For(2 * SECOND));
    desk.on(Event::Woken);
    let (begun, took) = (desk.now, Duration::from_millis(100));
    desk.pass(took);
    let mut effect = desk.answer(begun, busy(Some(TTL)));
    let mut last = begun;
    loop {
        effect = waits_on(&mut desk, effect);
        let Effect::Ask { limit, .. } = effect else {
            break;
        };
        assert!(limit > took);
        last = desk.now;
        desk.pass(took);
        effect = desk.answer(last, busy(Some(TTL)));
    }
    let lead = 2 * took + Duration::from_millis(50);
    assert_eq!(last.elapsed(begun.plus(2 * SECOND)), lead);
}

#[test]
fn a_task_that_is_woken_after_the_end_of_its_wait_still_has_its_last_look() {
    let mut desk = Desk::waiting(Wait::For(SECOND));
    desk.on(Event::Woken);
    desk.answer(desk.now, busy(Some(TTL)));
    desk.pass(2 * SECOND);
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it was not polled when it was due")
    };
    assert_eq!(
        limit,
        Duration::from_millis(50),
        "no more than was left for it"
    );
    // It was the last request, whatever its result.
    desk.on(Event::LookAgain);
    let effect = desk.answer(desk.now, busy(Some(TTL)));
    assert!(
        matches!(effect, Effect::Refuse(Denial::Busy { .. })),
        "{effect:?}"
    );
}

#[test]
fn a_far_store_leaves_no_more_time_to_the_last_look_of_a_task_that_is_woken_late() {
    let mut desk = Desk::waiting(Wait::For(2 * SECOND));
    desk.on(Event::Woken);
    let sent = desk.now;
    desk.pass(Duration::from_millis(100));
    desk.answer(sent, busy(Some(TTL)));
    desk.pass(2 * SECOND);
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("it was not polled when it was due")
    };
    assert_eq!(limit, Duration::from_millis(50));
}

#[test]
fn the_last_look_of_a_store_that_is_slow_comes_in_the_middle_of_the_rest() {
    let mut desk = Desk::waiting(Wait::For(2 * SECOND));
    desk.on(Event::Woken);
    let sent = desk.now;
    desk.pass(Duration::from_millis(800));
    let effect = desk.answer(sent, busy(Some(TTL)));
    let middle = desk.now.plus(Duration::from_millis(600));
    assert_eq!(effect, Effect::WaitUntil(middle));
}

#[test]
fn an_answer_is_due_after_a_quarter_of_its_time_and_after_250_ms_at_the_latest() {
    let desk = Desk::waiting(Wait::Never);
    let ms = Duration::from_millis;
    for (limit, due) in [(ms(400), ms(100)), (ms(4000), ms(250))] {
        let is_due_after = |passed: Duration| {
            let context = Context {
                now: desk.now.plus(passed),
                response_limit: limit,
                ..context!(desk)
            };
            context.is_answer_due(desk.now)
        };
        assert!(
            is_due_after(due) && !is_due_after(due.saturating_sub(ms(1))),
            "{limit:?}"
        );
    }
}

#[test]
fn a_reader_without_an_answer_is_told_that_the_store_gave_none() {
    let mut desk = Desk::new(Timing {
        mode: LockMode::Shared,
        ..waits(Wait::For(SECOND))
    });
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.pass(SECOND);
    let effect = desk.answer(sent, Err(failed(StoreErrorKind::TimedOut)));
    assert!(
        matches!(effect, Effect::Refuse(Denial::Unavailable { .. })),
        "{effect:?}"
    );
}

#[test]
fn a_word_of_the_store_after_the_last_look_and_before_the_end_makes_a_waiter_ask_once_more() {
    let mut desk = Desk::waiting(Wait::For(SECOND));
    desk.on(Event::Woken);
    let first = desk.answer(desk.now, busy(Some(TTL)));
    assert!(matches!(waits_on(&mut desk, first), Effect::Ask { .. }));
    desk.answer(desk.now, busy(Some(TTL)));
    desk.pass(Duration::from_millis(10));
    assert_eq!(desk.on(Event::LookAgain), Effect::Wake);
    let Effect::Ask { limit, .. } = desk.on(Event::Woken) else {
        panic!("a request is due")
    };
    assert_eq!(limit, Duration::from_millis(40));
    let effect = desk.answer(desk.now, busy(Some(TTL)));
    let effect = waits_on(&mut desk, effect);
    assert!(
        matches!(effect, Effect::Refuse(Denial::Busy { .. })),
        "{effect:?}"
    );
}
