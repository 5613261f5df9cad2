//! Tests that many tasks at one key do not slow each other down.

use super::*;
use crate::attempt::compared;

/// How many tasks hold the key.
const MANY: u64 = 2000;

/// More than the steps down the tables of [`MANY`] entries, and far fewer than these.
const FEW: usize = 1000;

fn in_mode(mode: LockMode) -> Timing {
    Timing {
        mode,
        ..waits(Wait::Forever)
    }
}

/// All hold the key: one lease for all, or each a permit.
fn many(timing: Timing) -> Desk {
    let mut desk = Desk::holding(timing);
    for number in 2..=MANY {
        desk.enter(number, timing);
        let mut effect = desk.of(number, Event::Woken);
        if matches!(effect, Effect::Ask { .. }) {
            let (sent, answer) = (desk.now, granted());
            effect = desk.of(number, Event::Answered { sent, answer });
        }
        assert!(matches!(effect, Effect::Enter { .. }), "{effect:?}");
    }
    desk
}

#[test]
fn a_poll_of_one_of_many_looks_at_few() {
    for mode in [LockMode::Shared, LockMode::Permits(5000)] {
        let mut desk = many(in_mode(mode));
        let held = compared::during(|| {
            for number in [1, MANY / 2, MANY] {
                let id = AttemptId::numbered(number);
                let checked = desk.state.check(id, context!(desk));
                assert_eq!(checked.effect, Effect::Nothing);
                assert!(desk.lease(number).is_some());
                assert!(desk.state.loss(id).is_none() && !desk.state.is_doubted(id));
            }
        });
        assert!(held < FEW, "{mode:?}: {held}");
        let left = compared::during(|| {
            for number in [MANY, 1, MANY / 2] {
                desk.of(number, Event::Left);
            }
        });
        assert!(left < FEW, "{mode:?}: {left}");
        assert!(desk.lease(MANY / 2 + 1).is_some());
    }
}

#[test]
fn a_reconnection_is_no_matter_of_those_that_hold_or_wait_behind_others() {
    for mode in [LockMode::Shared, LockMode::Permits(5000)] {
        let desk = many(in_mode(mode));
        assert_eq!(desk.state.told_by_store(), Vec::<u64>::new(), "{mode:?}");
    }
    let mut desk = Desk::waiting(Wait::Forever);
    desk.is_busy(6);
    desk.queue([2, 3]);
    assert_eq!(desk.state.told_by_store(), [1]);
    let mut desk = Desk::holding(waits(Wait::Forever));
    desk.pass(SECOND);
    desk.queue([2]);
    assert_eq!(desk.both(1, Event::Left), (desk.release(), Some(2)));
    assert_eq!(
        desk.state.told_by_store(),
        [2, 1],
        "a release may have failed"
    );
}

#[test]
fn the_waiters_of_a_large_pool_are_counted_where_it_matters() {
    let mut desk = many(in_mode(LockMode::Permits(5000)));
    for number in [MANY + 1, MANY + 2] {
        desk.enter(number, in_mode(LockMode::Permits(5000)));
    }
    for (bound, is_room) in [(2, false), (3, true), (10_000, true)] {
        assert_eq!(desk.state.fewer_wait_than(bound), is_room, "{bound}");
    }
}

#[test]
fn a_task_that_has_lost_its_lease_does_not_count_as_a_waiter() {
    let mut desk = Desk::holding(Timing::default());
    desk.pass(TTL);
    assert_eq!(desk.check(), Effect::Lose);
    assert!(desk.state.fewer_wait_than(1));
}
