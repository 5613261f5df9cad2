//! Tests several tasks, a store and another process under any order of events. No task relies on a lease for
//! longer than the store keeps it, no waiter is forgotten, and nothing stays behind.

mod crowd;
mod process;
mod store;

use proptest::{prelude::*, sample::Index};

use self::process::World;
use super::*;

/// The next event, in any order.
#[derive(Clone, Debug)]
enum Move {
    Pass(u64),
    Sleep(u64),
    Enter(Timing),
    Poll(Index),
    CarryOut(Index),
    /// The last request that was sent, and its answer.
    Promptly,
    TimeOut(Index),
    CutOff(Index),
    Hint(Index),
    Tick(Index),
    Note(Index),
    Renew(Index, bool),
    Drop(Index),
    Rival(u64),
    LookAgain,
    Close,
    Revoke,
    Unlock(Index),
}

/// As all have it that want a permit.
const PERMITS: LockMode = LockMode::Permits(2);

fn timing() -> impl Strategy<Value = Timing> {
    let ttl = prop_oneof![6 => Just(4 * SECOND), 1 => Just(SECOND)];
    let wait = prop_oneof![
        4 => Just(Wait::Forever),
        2 => Just(Wait::For(2 * SECOND)),
        1 => Just(Wait::Never),
    ];
    let max_hold = prop_oneof![5 => Just(None), 1 => Just(Some(2 * SECOND))];
    (ttl, wait, prop::bool::weighted(0.9), max_hold).prop_map(|(ttl, wait, renew, max_hold)| {
        Timing {
            ttl,
            wait,
            renew,
            max_hold: max_hold.filter(|_| renew),
            ..Timing::default()
        }
    })
}

fn next_move() -> impl Strategy<Value = Move> {
    move_of(timing())
}

fn move_of(timing: impl Strategy<Value = Timing> + 'static) -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..6_u64).prop_map(Move::Pass),
        2 => (0..4000_u64).prop_map(Move::Pass),
        1 => (0..4000_u64).prop_map(Move::Sleep),
        3 => timing.prop_map(Move::Enter),
        12 => any::<Index>().prop_map(Move::Poll),
        4 => any::<Index>().prop_map(Move::CarryOut),
        8 => Just(Move::Promptly),
        2 => any::<Index>().prop_map(Move::TimeOut),
        1 => any::<Index>().prop_map(Move::CutOff),
        5 => any::<Index>().prop_map(Move::Hint),
        4 => any::<Index>().prop_map(Move::Tick),
        5 => any::<Index>().prop_map(Move::Note),
        4 => (any::<Index>(), any::<bool>()).prop_map(|(index, comes)| Move::Renew(index, comes)),
        6 => any::<Index>().prop_map(Move::Drop),
        5 => (1..4000_u64).prop_map(Move::Rival),
        1 => Just(Move::LookAgain),
    ]
}

fn last_moves() -> impl Strategy<Value = Vec<Move>> {
    let last = prop_oneof![1 => Just(Move::Close), 1 => Just(Move::Revoke), 3 => next_move()];
    prop::collection::vec(last, 0..10)
}

impl World {
    fn make(&mut self, next: &Move, is_prompt: bool) {
        let tasks = self.tasks.len();
        match next {
            Move::Pass(ms) => self.now = self.now.plus(Duration::from_millis(*ms)),
            Move::Sleep(ms) => self.now.boot += Duration::from_millis(*ms),
            Move::Enter(timing) => self.enter(*timing),
            Move::Poll(index) if tasks > 0 => self.poll(index.index(tasks)),
            Move::CarryOut(index) if !self.sent.is_empty() => {
                let index = index.index(self.sent.len());
                self.carry_out(if is_prompt {
                    self.first_like(index)
                } else {
                    index
                });
            }
            Move::Promptly => (0..tasks).for_each(|task| self.answer(task, is_prompt)),
            Move::TimeOut(index) if tasks > 0 && !is_prompt => self.time_out(index.index(tasks)),
            Move::CutOff(index) if tasks > 0 => self.cut_off(index.index(tasks)),
            Move::Hint(index) if !self.hints.is_empty() => {
                let (owner, fence, number) = self.hints[index.index(self.hints.len())];
                self.tend(owner, Event::Granted { fence, number });
            }
            Move::Tick(index) if !self.due.is_empty() => {
                let owners: Vec<_> = self.due.keys().copied().collect();
                let owner = *index.get(&owners);
                self.due.remove(&owner);
                self.tend(owner, Event::Tick);
            }
            Move::Note(index) if !self.noting.is_empty() => {
                self.note(index.index(self.noting.len()));
            }
            Move::Renew(index, comes) if !self.renewals.is_empty() => {
                self.renew(index.index(self.renewals.len()), *comes);
            }
            Move::Drop(index) if tasks > 0 => self.drop_task(index.index(tasks)),
            Move::Rival(ttl) => self.rival(Duration::from_millis(*ttl)),
            Move::Unlock(index) => self.unlock(*index),
            Move::LookAgain => self.look_again(),
            Move::Close => self.tell_all(|| Event::Closed),
            Move::Revoke => {
                self.tell_all(|| Event::Closed);
                self.tell_all(|| Event::CutShort);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// Requests are carried out at any time and in any order, or never.
    #[test]
    fn one_at_a_time_is_within_what_the_store_keeps(
        handover in prop::bool::weighted(0.9),
        grants in any::<bool>(),
        moves in prop::collection::vec(next_move(), 1..100),
        last in last_moves(),
    ) {
        let mut world = World::new(handover);
        world.grants = grants;
        for next in moves.iter().chain(&last) {
            world.make(next, false);
            world.check();
        }
        world.end();
    }

    /// Over one connection, with answers, the store keeps nothing.
    #[test]
    fn whoever_has_gone_has_left_nothing_in_the_store(
        grants in any::<bool>(),
        moves in prop::collection::vec(next_move(), 1..100),
        last in last_moves(),
    ) {
        let mut world = World::new(true);
        world.grants = grants;
        for next in moves.iter().chain(&last) {
            world.make(next, true);
            world.check();
        }
        prop_assert!(world.end());
    }

    /// A lease is renewed and its end detected, whichever task holds it by then.
    #[test]
    fn somebody_looks_after_every_lease(
        grants in any::<bool>(),
        moves in prop::collection::vec(next_move(), 1..100),
    ) {
        let mut world = World::new(true);
        world.grants = grants;
        for next in &moves {
            world.make(next, false);
            world.check_care();
        }
    }
}
