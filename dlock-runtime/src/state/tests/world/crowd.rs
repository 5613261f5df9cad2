//! Several processes with readers, writers and permits, and one store.

use std::mem::swap;

use super::{
    process::{World, check_together},
    *,
};

/// Processes that use one store. Each has it while it moves.
struct Crowd {
    processes: Vec<World>,
    /// Has the store and the time while nobody moves.
    between: World,
}

fn timing_in_mode() -> impl Strategy<Value = Timing> {
    let mode = prop_oneof![
        2 => Just(LockMode::Exclusive),
        4 => Just(LockMode::Shared),
        4 => Just(PERMITS),
    ];
    let min_hold = prop_oneof![9 => Just(None), 1 => Just(Some(SECOND / 2))];
    (timing(), mode, min_hold).prop_map(|(timing, mode, min_hold)| Timing {
        min_hold,
        mode,
        ..timing
    })
}

fn moves() -> impl Strategy<Value = Vec<(Index, Move)>> {
    prop::collection::vec((any::<Index>(), move_of(timing_in_mode())), 1..160)
}

impl Crowd {
    fn new(processes: usize, handover: bool) -> Self {
        Self {
            processes: (0..processes).map(|_| World::new(handover)).collect(),
            between: World::new(handover),
        }
    }

    fn with<R>(&mut self, process: usize, act: impl FnOnce(&mut World) -> R) -> R {
        let process = &mut self.processes[process];
        swap_all(process, &mut self.between);
        let result = act(process);
        swap_all(process, &mut self.between);
        result
    }

    fn make(&mut self, process: Index, next: &Move, is_prompt: bool) {
        let process = process.index(self.processes.len());
        self.with(process, |world| world.make(next, is_prompt));
    }

    fn check(&mut self) {
        let mut held = Vec::new();
        for process in 0..self.processes.len() {
            self.with(process, |world| {
                world.check();
                held.extend(world.trusted());
            });
        }
        check_together(&held);
    }

    fn end(&mut self) -> bool {
        let all = 0..self.processes.len();
        let left: Vec<_> = all.map(|process| self.with(process, World::end)).collect();
        left.iter().all(|is_nothing| *is_nothing)
    }
}

/// The store, its messages, the time, and what is known of all bodies.
fn swap_all(one: &mut World, other: &mut World) {
    swap(&mut one.store, &mut other.store);
    swap(&mut one.hints, &mut other.hints);
    swap(&mut one.now, &mut other.now);
    swap(&mut one.last_token, &mut other.last_token);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// Requests are carried out at any time and in any order, or never.
    #[test]
    fn a_crowd_is_within_what_the_store_keeps(
        processes in 1..4_usize,
        handover in prop::bool::weighted(0.9),
        moves in moves(),
    ) {
        let mut crowd = Crowd::new(processes, handover);
        for (process, next) in &moves {
            crowd.make(*process, next, false);
            crowd.check();
        }
        crowd.end();
    }

    /// Over one connection for each process, with answers, the store keeps nothing.
    #[test]
    fn a_crowd_that_has_gone_has_left_nothing_in_the_store(
        processes in 1..4_usize,
        moves in moves(),
    ) {
        let mut crowd = Crowd::new(processes, true);
        for (process, next) in &moves {
            crowd.make(*process, next, true);
            crowd.check();
        }
        prop_assert!(crowd.end());
    }

    /// Each lease of a crowd is renewed and its end detected.
    #[test]
    fn somebody_looks_after_every_lease_of_a_crowd(
        processes in 1..4_usize,
        moves in moves(),
    ) {
        let mut crowd = Crowd::new(processes, true);
        for (process, next) in &moves {
            crowd.make(*process, next, false);
            for process in 0..processes {
                crowd.with(process, |world| world.check_care());
            }
        }
    }

    /// An operator ends leases of the process, and it is told of that at once.
    #[test]
    fn no_body_begins_with_a_lease_that_its_process_knows_to_be_gone(
        moves in prop::collection::vec(
            prop_oneof![
                12 => move_of(timing_in_mode()),
                1 => any::<Index>().prop_map(Move::Unlock),
            ],
            1..160,
        ),
    ) {
        let mut world = World::with_operator();
        for next in &moves {
            world.make(next, false);
        }
    }
}
