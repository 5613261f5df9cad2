//! Tests that a lease which its task does not take goes back to the store.

use super::*;

/// The time for which a lease waits for its task.
const TAKEN_WITHIN: Duration = Duration::from_millis(250);
/// The attempt that releases.
const RELEASER: u64 = 100;

impl Desk {
    fn give_back(&mut self, owner: OwnerId, timing: Timing) -> Option<Outcome<u64>> {
        let releaser = self.waiter(RELEASER, timing);
        self.state.give_back(owner, releaser, context!(self))
    }
}

fn permit() -> Timing {
    Timing {
        mode: LockMode::Permits(2),
        ..waits(Wait::Forever)
    }
}

fn not_renewed() -> Timing {
    Timing {
        renew: false,
        ..waits(Wait::Forever)
    }
}

#[test]
fn a_lease_that_its_task_does_not_take_goes_back_to_the_store() {
    for timing in [waits(Wait::Forever), not_renewed()] {
        let mut desk = Desk::holding(Timing::default());
        desk.enter(2, timing);
        assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
        desk.queue([3]);
        assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(2)));
        let owner = desk.owner(1);
        let at = desk.now.plus(TAKEN_WITHIN);
        let untaken = desk.state.untaken(AttemptId::numbered(2));
        assert_eq!(untaken, Some(RenewAt { owner, at }));

        desk.pass(TAKEN_WITHIN.saturating_sub(Duration::from_millis(1)));
        assert_eq!(desk.of(2, Event::Tick), Effect::WaitUntil(at));
        assert!(desk.give_back(owner, timing).is_none(), "it has time left");
        desk.pass(Duration::from_millis(1));
        assert_eq!(desk.of(2, Event::Tick), Effect::GiveBack { owner });
        let given = desk.give_back(owner, timing).expect("it was not taken");
        assert_eq!(given.effect, Effect::Release { owner });
        assert_eq!(given.next, Some(3), "the third responds");

        let asks = desk.of(3, Event::Woken);
        let own = desk.owner(2);
        assert!(
            matches!(asks, Effect::Ask { owner, .. } if owner == own),
            "{asks:?}"
        );
        assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
        let answer = Some(Released::WasHeld);
        let released = desk.of(RELEASER, Event::Released(answer));
        assert_eq!(released, Effect::Forget(answer));
    }
}

#[test]
fn a_task_that_lost_its_lease_so_asks_when_it_is_polled() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.both(1, Event::Left);
    desk.pass(TAKEN_WITHIN);
    let first = desk.owner(1);
    let given = desk.give_back(first, Timing::default());
    assert_eq!(given.expect("it was not taken").next, None);
    let own = desk.owner(2);
    let asks = desk.of(2, Event::Woken);
    assert!(
        matches!(asks, Effect::Ask { owner, queue: true, .. } if owner == own),
        "{asks:?}"
    );
}

#[test]
fn other_processes_go_first_when_a_lease_was_given_back() {
    let mut desk = Desk::holding(Timing::default());
    desk.grants = false;
    desk.queue([2, 3]);
    desk.both(1, Event::Left);
    desk.pass(TAKEN_WITHIN);
    let given = desk.give_back(desk.owner(1), Timing::default());
    assert_eq!(given.expect("it was not taken").next, Some(3));
    let waits = desk.of(3, Event::Woken);
    assert!(matches!(waits, Effect::WaitUntil(_)), "{waits:?}");
}

#[test]
fn a_lease_that_was_taken_at_the_last_moment_stays() {
    let mut desk = Desk::holding(Timing::default());
    desk.queue([2]);
    desk.both(1, Event::Left);
    desk.pass(TAKEN_WITHIN);
    let owner = desk.owner(1);
    assert_eq!(desk.of(2, Event::Tick), Effect::GiveBack { owner });
    assert!(desk.of(2, Event::Woken).enters(), "the renewer has to know");
    assert!(desk.give_back(owner, Timing::default()).is_none());
    assert!(desk.lease(2).is_some());
    assert_eq!(desk.state.untaken(AttemptId::numbered(2)), None);
}

#[test]
fn a_grant_that_its_task_does_not_take_goes_back_to_the_store() {
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let timing = Timing {
            mode,
            ..waits(Wait::Forever)
        };
        let mut desk = Desk::new(timing);
        desk.is_busy(6);
        let (fence, number) = (7, 7);
        assert_eq!(desk.on(Event::Granted { fence, number }), Effect::Wake);
        let owner = desk.owner(1);
        desk.enter(2, timing);
        assert!(matches!(desk.of(2, Event::Woken), Effect::Queue(_)));
        desk.pass(TAKEN_WITHIN);
        assert_eq!(desk.on(Event::Tick), Effect::GiveBack { owner });
        let given = desk.give_back(owner, timing).expect("it was not taken");
        assert_eq!((given.effect, given.next), (desk.release(), Some(2)));
        // Its task goes without another look.
        assert_eq!(desk.on(Event::Left), Effect::Forget(None));
    }
}

#[test]
fn a_permit_that_its_task_does_not_take_goes_back_to_the_store() {
    let mut desk = Desk::holding(permit());
    desk.enter(2, permit());
    assert!(matches!(desk.of(2, Event::Woken), Effect::Ask { .. }));
    for number in [3, 4] {
        desk.put_off(number, permit());
    }
    let owner = desk.owner(1);
    assert_eq!(desk.both(1, Event::Left), (Effect::Forget(None), Some(3)));
    desk.pass(TAKEN_WITHIN);
    assert_eq!(desk.of(3, Event::Tick), Effect::GiveBack { owner });
    let given = desk.give_back(owner, permit()).expect("it was not taken");
    let no_other = (Effect::Release { owner }, None);
    assert_eq!((given.effect, given.next), no_other, "one asks already");
}

#[test]
fn a_short_lease_waits_for_its_task_for_a_third_of_its_ttl() {
    let short = Timing {
        ttl: Duration::from_millis(300),
        ..waits(Wait::Forever)
    };
    let mut desk = Desk::holding(short);
    desk.enter(2, short);
    desk.of(2, Event::Woken);
    desk.both(1, Event::Left);
    let untaken = desk.state.untaken(AttemptId::numbered(2));
    let third = desk.now.plus(Duration::from_millis(100));
    assert_eq!(untaken.expect("it was not taken").at, third);
}
