//! Tests a store that only notifies waiters: a process that has had its turn lets others go first.

use super::*;

const TURN: Duration = Duration::from_millis(10);
/// The maximum delay of a message.
const NOTICED: Duration = Duration::from_millis(5);
const MS: Duration = Duration::from_millis(1);

/// The first attempt holds a lease.
fn over_a_quorum(timing: Timing) -> Desk {
    let mut desk = Desk::holding(timing);
    desk.grants = false;
    desk
}

/// An attempt that waits behind the first gets the lease.
fn is_granted(desk: &mut Desk, number: u64, fence: u64) {
    assert!(matches!(desk.of(number, Event::Woken), Effect::Ask { .. }));
    let (sent, answer) = (desk.now, Ok(AcquireOutcome::granted(fence)));
    let effect = desk.of(number, Event::Answered { sent, answer });
    assert!(matches!(effect, Effect::Enter { .. }), "{effect:?}");
}

fn asks(desk: &mut Desk, number: u64) -> bool {
    match desk.of(number, Event::Woken) {
        Effect::Ask { .. } => true,
        Effect::WaitUntil(_) => false,
        other => panic!("{other:?}"),
    }
}

/// Its release is answered. Returns the task that is woken.
fn is_released(desk: &mut Desk, number: u64) -> Option<u64> {
    let answer = Some(Released::WasHeld);
    let (effect, woken) = desk.both(number, Event::Released(answer));
    assert_eq!(effect, Effect::Forget(answer));
    woken
}

#[test]
fn after_a_turn_the_next_one_asks_when_others_have_had_the_time_to() {
    let mut desk = over_a_quorum(Timing::default());
    desk.queue([2]);
    desk.pass(TURN + MS);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    let looks = Effect::WaitUntil(desk.now.plus(SECOND));
    assert_eq!(desk.of(2, Event::Woken), looks, "if there is no answer");
    desk.pass(2 * MS);
    assert_eq!(is_released(&mut desk, 1), Some(2));
    let looks = Effect::WaitUntil(desk.now.plus(2 * MS + NOTICED));
    assert_eq!(
        desk.of(2, Event::Woken),
        looks,
        "what the release took, and more"
    );
    desk.pass(2 * MS + NOTICED);
    is_granted(&mut desk, 2, 9);
    // That is a separate turn.
    desk.queue([3]);
    desk.pass(TURN);
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
}

#[test]
fn a_turn_ends_however_many_leases_it_takes() {
    let mut desk = over_a_quorum(Timing::default());
    desk.handover = false;
    desk.queue([2, 3, 4]);
    for number in 1..=2 {
        desk.pass(4 * MS);
        let (effect, next) = desk.both(number, Event::Left);
        assert!(matches!(effect, Effect::Release { .. }), "{effect:?}");
        assert_eq!(next, Some(number + 1));
        is_granted(&mut desk, number + 1, 7 + number);
        is_released(&mut desk, number);
    }
    desk.pass(4 * MS);
    desk.both(3, Event::Left);
    assert!(!asks(&mut desk, 4), "twelve milliseconds");
    assert_eq!(is_released(&mut desk, 3), Some(4));
    desk.pass(NOTICED);
    assert!(asks(&mut desk, 4));
}

#[test]
fn a_turn_begins_anew_when_somebody_else_has_had_the_lock() {
    let mut desk = over_a_quorum(Timing::default());
    desk.handover = false;
    desk.queue([2, 3]);
    desk.pass(4 * MS);
    desk.both(1, Event::Left);
    assert!(asks(&mut desk, 2));
    is_released(&mut desk, 1);
    let (sent, answer) = (desk.now, Ok(AcquireOutcome::Busy(Holder::default())));
    desk.of(2, Event::Answered { sent, answer });
    desk.pass(2 * SECOND);
    is_granted(&mut desk, 2, 9);
    desk.pass(4 * MS);
    desk.both(2, Event::Left);
    assert!(asks(&mut desk, 3));
}

#[test]
fn who_comes_while_a_long_turn_is_given_back_lets_others_go_first_as_well() {
    let mut desk = over_a_quorum(Timing::default());
    desk.pass(TURN + MS);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), None));
    desk.enter(2, waits(Wait::Forever));
    assert!(!asks(&mut desk, 2));
    assert_eq!(is_released(&mut desk, 1), Some(2));
    desk.pass(NOTICED);
    assert!(asks(&mut desk, 2));
}

#[test]
fn who_does_not_wait_asks_at_once_and_who_waits_briefly_has_half_of_that_left() {
    for (wait, left) in [(Wait::Never, None), (Wait::For(4 * MS), Some(2 * MS))] {
        let mut desk = over_a_quorum(Timing::default());
        desk.pass(TURN + MS);
        desk.on(Event::Left);
        desk.enter(2, waits(wait));
        if let Some(left) = left {
            assert!(!asks(&mut desk, 2));
            is_released(&mut desk, 1);
            assert!(!asks(&mut desk, 2));
            desk.pass(left);
        }
        assert!(asks(&mut desk, 2), "{wait:?}");
    }
}

#[test]
fn the_pause_is_also_that_of_who_comes_after_one_that_left_in_it() {
    let mut desk = over_a_quorum(Timing::default());
    desk.queue([2]);
    let other = Timing {
        ttl: TTL * 2,
        ..waits(Wait::Forever)
    };
    desk.enter(3, other);
    desk.pass(TURN + MS);
    desk.on(Event::Left);
    assert!(!asks(&mut desk, 2));
    assert_eq!(desk.both(2, Event::Left), (Effect::Forget(None), Some(3)));
    assert!(!asks(&mut desk, 3));
    assert_eq!(is_released(&mut desk, 1), Some(3));
    desk.pass(NOTICED);
    assert!(asks(&mut desk, 3));
}

#[test]
fn a_release_without_an_answer_holds_nobody_up_for_long() {
    let mut desk = over_a_quorum(Timing::default());
    desk.queue([2]);
    desk.pass(TURN + MS);
    desk.on(Event::Left);
    assert!(!asks(&mut desk, 2));
    let (effect, woken) = desk.both(1, Event::Released(None));
    assert!(matches!(effect, Effect::WaitUntil(_)), "{effect:?}");
    assert_eq!(woken, None);
    desk.pass(SECOND);
    assert!(asks(&mut desk, 2));
    assert_eq!(is_released(&mut desk, 1), None, "it has asked");
}

#[test]
fn after_a_lease_that_was_lost_nobody_pauses() {
    let mut desk = over_a_quorum(Timing {
        max_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.queue([2]);
    desk.pass(SECOND);
    assert_eq!(desk.both(1, Event::Tick), (Effect::Lose, Some(2)));
    assert!(asks(&mut desk, 2));
}

#[test]
fn a_pause_ends_with_the_release_that_it_is_for_and_with_no_other() {
    let mut desk = over_a_quorum(Timing {
        max_hold: Some(SECOND),
        ..Timing::default()
    });
    desk.queue([2, 3]);
    desk.pass(SECOND);
    assert_eq!(desk.both(1, Event::Tick), (Effect::Lose, Some(2)));
    is_granted(&mut desk, 2, 9);
    desk.pass(TURN + MS);
    let owner = desk.owner(2);
    assert_eq!(
        desk.both(2, Event::Left),
        (Effect::Release { owner }, Some(3))
    );
    assert_eq!(desk.on(Event::Left), desk.release());
    assert_eq!(
        is_released(&mut desk, 1),
        None,
        "it says nothing of the second"
    );
    desk.pass(NOTICED);
    assert!(!asks(&mut desk, 3));
    assert_eq!(is_released(&mut desk, 2), Some(3));
}

#[test]
fn a_task_that_comes_back_after_a_long_turn_lets_others_go_first_as_well() {
    let mut desk = Desk::waiting(Wait::Forever);
    desk.grants = false;
    desk.queue([2]);
    desk.pass(2 * ALIVE);
    // The first task does not respond, and the second continues in its place.
    is_granted(&mut desk, 2, 7);
    desk.pass(TURN + MS);
    let (effect, next) = desk.both(2, Event::Left);
    assert_eq!((effect, next), (desk.release(), None), "no task is woken");
    assert!(!asks(&mut desk, 1));
    assert_eq!(is_released(&mut desk, 2), Some(1));
    desk.pass(2 * NOTICED);
    assert!(asks(&mut desk, 1));
}
