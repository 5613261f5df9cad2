//! Tests the order of the tasks of one process, and grants to other processes.

use super::*;

const TURN: Duration = Duration::from_millis(10);

/// The next task is woken, looks, and has the lease. Returns its token.
fn takes_over(desk: &mut Desk, last: u64, next: u64) -> FencingToken {
    let left = desk.both(last, Event::Left);
    assert_eq!(left, (Effect::Forget(None), Some(next)));
    assert_eq!(
        desk.of(next, Event::Woken),
        Effect::Enter { renew_at: None }
    );
    desk.lease(next).expect("it holds").token
}

#[test]
fn a_lease_goes_from_task_to_task_in_the_order_of_arrival_with_greater_tokens() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2, 3, 4]);
    let mut tokens = vec![desk.lease(1).unwrap().token];
    for number in 2..=4 {
        tokens.push(takes_over(&mut desk, number - 1, number));
    }
    assert!(
        tokens.is_sorted_by(|one, next| one < next),
        "broken promise: the token did not grow: {tokens:?}"
    );
    assert!(tokens.iter().all(|token| token.fence() == 7));
    assert_eq!(desk.both(4, Event::Left), (desk.release(), None));
    assert_eq!(
        desk.of(4, Event::Released(Some(Released::WasHeld))),
        Effect::Forget(Some(Released::WasHeld))
    );
    assert!(desk.state.is_idle());
}

#[test]
fn a_lease_that_came_too_long_ago_goes_back_to_the_store() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2, 3]);
    desk.pass(TURN);
    takes_over(&mut desk, 1, 2);
    desk.pass(Duration::from_micros(1));
    // With the first claim, which the second attempt has held.
    assert_eq!(desk.both(2, Event::Left), (desk.release(), Some(3)));
    let owner = desk.owner(2);
    let asks = desk.of(3, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
}

#[test]
fn a_lease_that_was_passed_to_a_transaction_goes_back_to_the_store() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    let owner = desk.owner(1);
    assert_eq!(desk.state.bind(AttemptId::numbered(1)), Some(owner));
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    // Nor does the next task ask in the name of that claim, whose lease the store may still keep.
    let asks = desk.of(2, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner: other, .. } if other != owner));
}

#[test]
fn a_lease_goes_round_no_more_often_than_there_are_tokens() {
    let mut desk = Desk::holding(Timing::default());
    let mut holder = 1;
    for next in 2.. {
        desk.queue([next]);
        let last = desk.lease(holder).unwrap().token;
        let (effect, woken) = desk.both(holder, Event::Left);
        assert_eq!(woken, Some(next));
        if effect == desk.release() {
            assert_eq!(holder, 4096, "the first and 4095 more");
            break;
        }
        assert_eq!(
            desk.of(next, Event::Woken),
            Effect::Enter { renew_at: None }
        );
        assert!(
            desk.lease(next).unwrap().token > last,
            "broken promise: the token did not grow"
        );
        holder = next;
    }
}

#[test]
fn nobody_gets_a_lease_past_its_deadline_or_with_too_little_left() {
    // By the boot clock only: the machine was suspended.
    for asleep in [TTL, TRUSTED.saturating_sub(SECOND / 2)] {
        let mut desk = Desk::holding(Timing::default());
        desk.queue([2]);
        desk.now.boot += asleep;
        assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
        assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    }
}

#[test]
fn without_handing_over_each_section_asks_in_its_turn() {
    let mut desk = Desk::holding(Timing::default());
    desk.handover = false;
    desk.queue([2]);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_lease_is_handed_only_to_who_can_use_it_as_it_is() {
    let others = [
        Timing {
            ttl: 2 * TTL,
            ..waits(Wait::Forever)
        },
        Timing {
            ttl: TTL / 2,
            ..waits(Wait::Forever)
        },
        Timing {
            min_hold: Some(SECOND),
            ..waits(Wait::Forever)
        },
    ];
    for timing in others {
        let mut desk = Desk::holding(Timing::default());
        desk.enter(2, timing);
        assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    }
    let mut desk = Desk::holding(Timing {
        min_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.queue([2]);
    assert_eq!(
        desk.both(1, Event::Left),
        (desk.release(), Some(2)),
        "it is kept"
    );
}

#[test]
fn a_lease_that_is_not_to_be_renewed_begins_with_its_whole_ttl() {
    let mut desk = Desk::holding(Timing::default());
    desk.enter(
        2,
        Timing {
            renew: false,
            ..waits(Wait::Forever)
        },
    );
    desk.pass(TURN);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    // It sends a request for the owner that the store knows, and the answer is that it already holds the
    // lease.
    let owner = desk.owner(1);
    let asks = desk.of(2, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
    let sent = desk.now;
    let effect = desk.of(
        2,
        Event::Answered {
            sent,
            answer: granted(),
        },
    );
    assert!(matches!(effect, Effect::Enter { .. }));
    let held = desk.lease(2).unwrap();
    assert_eq!(held.deadline, sent.plus(TRUSTED));
    assert_eq!(
        held.token,
        FencingToken::from_fence(7).unwrap().next().unwrap()
    );
}

#[test]
fn a_lease_whose_renewal_fails_is_not_handed_over() {
    let mut desk = Desk::holding(Timing {
        ttl: TTL / 300,
        ..Timing::default()
    });
    desk.enter(
        2,
        Timing {
            ttl: TTL / 300,
            ..waits(Wait::Forever)
        },
    );
    desk.pass(TTL / 900);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let answer = Err(failed(StoreErrorKind::Disconnected));
    desk.on(Event::Renewed {
        sent: desk.now,
        answer,
    });
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
}

#[test]
fn a_renewal_belongs_to_the_lease_whoever_holds_it_by_then() {
    let ttl = TTL / 1000;
    let timing = Timing {
        ttl,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(timing);
    desk.enter(2, timing);
    desk.pass(TURN);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    takes_over(&mut desk, 1, 2);
    let renewed = Event::Renewed {
        sent,
        answer: Ok(Renewal::Renewed),
    };
    let owner = desk.owner(1);
    let (bearer, outcome) = desk
        .state
        .on_claim(owner, renewed, context!(desk))
        .expect("an attempt holds the claim");
    assert_eq!(bearer, 2);
    assert!(matches!(outcome.effect, Effect::WaitUntil(_)));
    let trusted = Validity::new(ttl, |ttl| ttl / 100 + Duration::from_millis(2)).asked;
    assert_eq!(desk.lease(2).unwrap().deadline, sent.plus(trusted));
}

#[test]
fn a_place_in_the_queue_of_the_store_is_taken_over() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.queue([2, 3]);
    desk.is_busy(6);
    let look_at = desk.now.plus(SECOND);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    assert_eq!(desk.of(2, Event::Woken), Effect::WaitUntil(look_at));
    // Dropped while its request is in flight: the answer is lost with it.
    desk.now = look_at;
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    let asks = desk.of(3, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner, .. } if owner == desk.owner(1)));
    assert_eq!(desk.both(3, Event::Left), (desk.release(), None));
}

#[test]
fn who_is_dropped_before_it_could_look_passes_the_lease_on() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2, 3]);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    let token = takes_over(&mut desk, 2, 3);
    assert_eq!(
        token,
        FencingToken::from_fence(7).unwrap().next().unwrap(),
        "the unused one"
    );
}

#[test]
fn a_waiter_that_leaves_the_queue_changes_nothing_for_the_others() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2, 3, 4]);
    assert_eq!(desk.both(3, Event::Left), (Effect::Forget(None), None));
    takes_over(&mut desk, 1, 2);
    takes_over(&mut desk, 2, 4);
}

#[test]
fn a_lost_lease_lets_the_next_ask_for_itself_while_the_body_ends() {
    let mut desk = Desk::holding(Timing {
        max_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.queue([2]);
    desk.pass(SECOND);
    assert_eq!(desk.both(1, Event::Tick), (Effect::Lose, Some(2)));
    let owner = desk.owner(2);
    let asks = desk.of(2, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
    assert_eq!(desk.cause(), LostCause::MaxHold);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), None));
}

#[test]
fn a_wait_behind_others_ends_in_time_and_says_who_they_are() {
    let mut desk = Desk::holding(Timing::default());
    desk.enter(2, waits(Wait::For(SECOND)));
    let end = desk.now.plus(SECOND);
    assert_eq!(desk.of(2, Event::Woken), Effect::Queue(end));
    desk.enter(3, waits(Wait::Never));
    let Effect::Refuse(Denial::Busy { holder, .. }) = desk.of(3, Event::Woken) else {
        panic!("it is held here");
    };
    assert!(holder.is_here);
    assert_eq!((holder.ttl, holder.position), (Some(TRUSTED), Some(1)));
    desk.now = end;
    assert!(matches!(
        desk.of(2, Event::Woken),
        Effect::Refuse(Denial::Busy { .. })
    ));

    // An attempt that has given up gets no hand-over, although it has not left yet.
    desk.queue([4]);
    desk.handover = false;
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(4)));
}

#[test]
fn who_waits_behind_a_question_without_an_answer_knows_as_much() {
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    desk.enter(2, waits(Wait::For(SECOND)));
    desk.pass(SECOND);
    assert!(matches!(
        desk.of(2, Event::Woken),
        Effect::Refuse(Denial::Unavailable { .. })
    ));
    let answer = Err(failed(StoreErrorKind::Unreachable));
    desk.answer(desk.now, answer);
    desk.enter(3, waits(Wait::Never));
    assert!(matches!(
        desk.of(3, Event::Woken),
        Effect::Refuse(Denial::Unavailable { .. })
    ));
}

#[test]
fn closing_refuses_everybody_in_the_queue_and_hands_them_nothing() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2, 3]);
    for number in 2..=3 {
        assert_eq!(desk.of(number, Event::Closed), Effect::Wake);
    }
    assert_eq!(desk.both(1, Event::Left), (desk.release(), None));
    assert_eq!(desk.of(2, Event::Woken), Effect::Refuse(Denial::Closed));

    // An attempt does not keep a lease that was handed to it and that it has not seen either.
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.of(1, Event::Left);
    assert_eq!(desk.of(2, Event::Closed), Effect::Wake);
    assert_eq!(desk.of(2, Event::Woken), Effect::Refuse(Denial::Closed));
    assert_eq!(desk.of(2, Event::Left), desk.release());
}

#[test]
fn a_hint_is_believed_by_the_last_answer_if_that_knew_a_smaller_fence() {
    let granted = |desk: &Desk| {
        let drift = Duration::from_millis(32);
        desk.now.plus(Duration::from_secs(3).saturating_sub(drift))
    };
    // With the fence 6, the second answer arrived after that lease had been granted, and it had ended by then.
    for (fence, is_believed) in [(6, false), (7, true)] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.is_busy(5);
        desk.pass(SECOND);
        desk.is_busy(6);
        let until = granted(&desk);
        desk.pass(SECOND / 2);
        let number = fence;
        assert_eq!(desk.on(Event::Granted { fence, number }), Effect::Wake);
        let effect = desk.on(Event::Woken);
        assert_eq!(effect.enters(), is_believed, "{fence}: {effect:?}");
        if is_believed {
            assert_eq!(desk.deadline(), until, "three seconds from that answer");
        }
    }
}

#[test]
fn a_call_that_comes_long_after_the_request_begins_with_one_of_its_own() {
    let late = TURN + Duration::from_micros(1);
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    desk.pass(late);
    assert!(desk.answer(sent, granted()).enters());
    desk.queue([2, 3]);
    // The store may have forgotten the lease.
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    let asked = desk.of(2, Event::Woken);
    assert!(matches!(asked, Effect::Ask { .. }), "{asked:?}");
    let (sent, answer) = (desk.now, granted());
    assert!(desk.of(2, Event::Answered { sent, answer }).enters());
    // The third came before that request.
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    assert_eq!(desk.of(3, Event::Woken), Effect::Enter { renew_at: None });
}

#[test]
fn a_grant_to_the_place_of_another_call_begins_no_call_that_came_long_after_its_request() {
    for (late, is_believed) in [(TURN, true), (TURN + Duration::from_micros(1), false)] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.is_busy(6);
        desk.pass(late);
        desk.queue([2]);
        assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
        let grant = Event::Granted {
            fence: 7,
            number: 7,
        };
        assert_eq!(desk.of(2, grant), Effect::Wake);
        let effect = desk.of(2, Event::Woken);
        assert_eq!(effect.enters(), is_believed, "{late:?}: {effect:?}");
    }
}

#[test]
fn a_hint_that_no_answer_vouches_for_only_makes_the_waiter_ask() {
    // No answer knew a smaller fence.
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 6,
            number: 6
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));

    // It is late: the lease may have ended.
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.pass(3 * SECOND);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));

    // Three seconds are shorter than its TTL.
    let mut desk = Desk::new(Timing {
        renew: false,
        ..waits(Wait::Forever)
    });
    desk.is_busy(6);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_hint_that_overtakes_an_answer_is_judged_by_that_answer() {
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
    let holder = Holder {
        last_fence: 6,
        ..Holder::default()
    };
    let effect = desk.answer(sent, Ok(AcquireOutcome::Busy(holder)));
    assert!(effect.enters());
    // A short body needs no renewal; a longer one is renewed in time.
    let Effect::WaitUntil(at) = desk.on(Event::Tick) else {
        panic!("not yet due")
    };
    assert!(at.remaining(desk.now) < SECOND);
    desk.now = at;
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
}

#[test]
fn a_short_ttl_bounds_a_grant_too() {
    // A request that is carried out after the grant sets the shorter TTL.
    let mut desk = Desk::new(Timing {
        ttl: SECOND,
        ..waits(Wait::Forever)
    });
    desk.is_busy(6);
    let sent = desk.now;
    desk.on(Event::Granted {
        fence: 7,
        number: 7,
    });
    assert!(desk.on(Event::Woken).enters());
    assert_eq!(desk.deadline(), sent.plus(Duration::from_millis(988)));
}

#[test]
fn another_answer_makes_a_lease_no_younger() {
    // Three attempts without renewal: each begins with a request, and the answer is that it already holds the
    // lease.
    let timing = Timing {
        renew: false,
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::new(timing);
    desk.is_granted(7);
    desk.enter(2, timing);
    desk.enter(3, timing);
    desk.pass(TURN);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    let sent = desk.now;
    let answer = granted();
    let effect = desk.of(2, Event::Answered { sent, answer });
    assert!(effect.enters());
    desk.pass(Duration::from_micros(1));
    assert_eq!(desk.both(2, Event::Left), (desk.release(), Some(3)));
}

#[test]
fn a_lease_with_next_to_nothing_left_is_not_begun_with() {
    // A message that arrives late, but not too late to be trusted.
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.pass(2 * SECOND);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));

    // A task that looks late at a lease that was handed to it.
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.of(1, Event::Left);
    desk.pass(TRUSTED.saturating_sub(SECOND / 2));
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
}

#[test]
fn a_hint_without_a_fence_only_makes_the_waiter_ask() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 0,
            number: 0
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    // It arrived while the request was in flight whose answer knew nothing of the grant.
    assert_eq!(
        desk.on(Event::Granted {
            fence: 0,
            number: 0
        }),
        Effect::Nothing
    );
    let holder = Holder {
        ttl: Some(TTL),
        last_fence: 6,
        ..Holder::default()
    };
    let effect = desk.answer(desk.now, Ok(AcquireOutcome::Busy(holder)));
    assert!(matches!(effect, Effect::Ask { .. }), "{effect:?}");
    let effect = desk.answer(desk.now, Ok(AcquireOutcome::granted(7)));
    assert!(effect.enters(), "the answer confirms its lease");
}

#[test]
fn an_answer_that_tells_no_fence_vouches_for_no_hint() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(0);
    assert_eq!(
        desk.on(Event::Granted {
            fence: 7,
            number: 7
        }),
        Effect::Wake
    );
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
}

#[test]
fn who_does_not_look_is_passed_over_by_those_behind_and_comes_after_them() {
    let long = ALIVE + ALIVE;
    for handed in [false, true] {
        let mut desk = Desk::holding(Timing::default());
        desk.queue([2, 3, 4]);
        desk.handover = handed;
        assert_eq!(desk.both(1, Event::Left).1, Some(2));
        desk.pass(long);
        // It continues with the claim of the second attempt, be it a lease or a request.
        let (asks, woken) = desk.both(3, Event::Woken);
        let owner = desk.owner(if handed { 1 } else { 2 });
        assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
        assert_eq!(woken, Some(2));
        let answer = Ok(AcquireOutcome::granted(9));
        let sent = desk.now;
        assert!(desk.of(3, Event::Answered { sent, answer }).enters());
        // Not before the second attempt has responded: then it is the first waiter, as before.
        desk.handover = true;
        let mut other = desk.both(3, Event::Left);
        assert_eq!(other, (Effect::Forget(None), Some(4)));
        assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
        desk.of(4, Event::Woken);
        other = desk.both(4, Event::Left);
        assert_eq!(other, (Effect::Forget(None), Some(2)));
    }
}

#[test]
fn who_cannot_use_the_claim_of_an_absent_task_makes_its_own() {
    let others = [
        Timing {
            ttl: 2 * TTL,
            ..waits(Wait::Forever)
        },
        Timing {
            min_hold: Some(SECOND),
            ..waits(Wait::Forever)
        },
        waits(Wait::Never),
    ];
    for timing in others {
        let mut desk = Desk::holding(Timing::default());
        desk.queue([2]);
        desk.of(1, Event::Left);
        desk.pass(ALIVE);
        desk.enter(3, timing);
        let (asks, woken) = desk.both(3, Event::Woken);
        assert_eq!(woken, Some(2), "it did not look");
        // An attempt that does not wait has the same TTL and continues with the claim.
        let suits = timing.wait == Wait::Never;
        let owner = desk.owner(if suits { 1 } else { 2 });
        assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
        // The claim that the absent attempt has kept is released separately.
        let left = desk.of(2, Event::Left);
        assert_eq!(
            left,
            if suits {
                Effect::Forget(None)
            } else {
                desk.release()
            }
        );
    }
}

#[test]
fn an_absent_task_comes_back_to_the_claim_that_it_has_kept() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    let other = Timing {
        ttl: 2 * TTL,
        ..waits(Wait::Forever)
    };
    desk.enter(2, other);
    desk.pass(2 * ALIVE);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert!(matches!(desk.on(Event::Woken), Effect::Queue(_)));
    let owner = desk.owner(2);
    assert_eq!(
        desk.both(2, Event::Left),
        (Effect::Release { owner }, Some(1))
    );
    let first = desk.owner(1);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { owner, .. } if owner == first));
}

#[test]
fn of_several_leases_each_is_renewed_until_all_are_there() {
    let mut desk = Desk::holding(Timing {
        renew: false,
        on_trial: true,
        ..waits(Wait::Forever)
    });
    desk.pass(TTL / 3);
    assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
    let sent = desk.now;
    let answer = Ok(Renewal::Renewed);
    desk.on(Event::Renewed { sent, answer });
    let keep = desk.state.end_trial(AttemptId::numbered(1), desk.now);
    assert_eq!(keep, None);
    assert_eq!(
        desk.on(Event::Tick),
        Effect::WaitUntil(sent.plus(TRUSTED)),
        "not any more"
    );
}

#[test]
fn no_two_claims_have_the_same_owner() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.handover = false;
    desk.queue([2]);
    desk.pass(ALIVE + SECOND);
    // The second attempt continues with the first one's claim, and releases it.
    let first = desk.owner(1);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { owner, .. } if owner == first));
    let sent = desk.now;
    let answer = granted();
    assert!(desk.of(2, Event::Answered { sent, answer }).enters());
    assert!(matches!(desk.on(Event::Woken), Effect::Queue(_)));
    assert_eq!(desk.both(2, Event::Left), (desk.release(), Some(1)));
    // The store may not have carried out the release when the first attempt sends its own request.
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { owner, .. } if owner != first));
}

#[test]
fn who_waits_for_an_answer_in_vain_drops_the_question() {
    let mut desk = Desk::waiting(Wait::Forever);
    assert!(matches!(desk.on(Event::Woken), Effect::Ask { .. }));
    assert!(desk.state.is_asking(AttemptId::numbered(1)));
    desk.queue([2]);
    desk.pass(ALIVE + SECOND);
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    assert!(!desk.state.is_asking(AttemptId::numbered(1)));
    // If the answer arrives at the same time, it is the second attempt's.
    let sent = desk.now;
    assert!(matches!(desk.answer(sent, granted()), Effect::Queue(_)));
}

#[test]
fn leases_that_came_one_after_the_other_are_renewed_together() {
    let mut due = Vec::new();
    let mut desk = Desk::new(waits(Wait::Forever));
    for number in 1..=100 {
        // Each of them in its own process.
        let mut other = Desk::new(waits(Wait::Forever));
        other.now = desk.now;
        other.is_granted(number);
        let Effect::WaitUntil(at) = other.on(Event::Tick) else {
            panic!("not yet due")
        };
        due.push(at.boot);
        desk.pass(Duration::from_millis(1));
    }
    due.dedup();
    assert!(due.len() <= 3, "{} times in 100 ms", due.len());
}

#[test]
fn a_lease_that_nobody_looked_at_is_neither_renewed_nor_believed_past_its_deadline() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.of(1, Event::Left);
    desk.pass(TTL / 3);
    let owner = desk.owner(1);
    assert_eq!(desk.of(2, Event::Tick), Effect::GiveBack { owner });
    desk.pass(TTL);
    let asks = desk.of(2, Event::Woken);
    assert!(matches!(asks, Effect::Ask { owner: other, .. } if other == owner));
}

#[test]
fn a_lease_is_looked_after_also_before_the_next_one_has_looked() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
    // A driver that schedules the next check, or sends the renewal, calls this at this moment.
    assert!(desk.state.is_held_by(desk.owner(1)));
    assert_eq!(desk.of(2, Event::Woken), Effect::Enter { renew_at: None });
    assert!(desk.state.is_held_by(desk.owner(1)));
}

/// A grant lasts 3 s, most of which may be over. A pause of the server must then not end a lease that has a
/// whole TTL.
#[test]
fn a_section_that_was_woken_asks_for_its_ttl_soon_and_a_shorter_one_never() {
    for offset in [0, 1, 50, 99] {
        let mut desk = Desk::waiting(Wait::Forever);
        desk.now.boot += Duration::from_millis(offset);
        desk.is_busy(6);
        desk.pass(SECOND);
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
            panic!("it was granted")
        };
        let after = keep.at.remaining(desk.now);
        assert!((100..=200).contains(&after.as_millis()), "{after:?}");
        desk.pass(after.saturating_sub(Duration::from_millis(1)));
        assert_eq!(desk.on(Event::Tick), Effect::WaitUntil(keep.at));
        desk.now = keep.at;
        assert!(matches!(desk.on(Event::Tick), Effect::Renew { .. }));
        let sent = desk.now;
        desk.on(Event::Renewed {
            sent,
            answer: Ok(Renewal::Renewed),
        });
        assert_eq!(desk.deadline(), sent.plus(TRUSTED));
    }
}

/// If the TTL is shorter than that, a third of it must be left for a second try.
#[test]
fn a_section_that_was_woken_with_a_short_ttl_asks_in_a_third_of_it() {
    let ttl = Duration::from_millis(300);
    let mut desk = Desk::new(Timing {
        ttl,
        ..waits(Wait::Forever)
    });
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
        panic!("it was granted")
    };
    assert!(keep.at.remaining(desk.now) <= ttl / 3);
}
