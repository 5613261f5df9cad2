//! Experiments side by side: every operation, on every runtime, at every moment it has.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use super::experiment::{Experiment, Fate, Flavor, Home, Moment};
use crate::{
    driver::{Count, Tally},
    operations::Operation,
    panics::{assert_no_others, watch_for_others},
    stage::{Scale, Stage, assert_no_task_is_left},
    stepwise::Steps,
};

/// The experiments of one way that may be under way at the same time. Those beyond the end are in vain.
const AHEAD: usize = 16;

/// How often a moment of a way is tried again that came after the end too early. A machine that stands still may have
/// lost a lease, which ends an operation before its last moments; a mistake does so each time.
const AGAIN: usize = 2;

/// Everything that one test interrupts.
pub(super) struct Series<'a> {
    /// The name in the output.
    pub(super) what: &'static str,
    pub(super) operations: &'a [&'a Operation],
    pub(super) runtimes: &'a [(Flavor, Home)],
    pub(super) fate: Fate,
    /// The least of each kind of moment that an operation is to have.
    pub(super) least: fn(&Operation) -> [usize; 2],
    /// The number of threads: more than there are processors, since experiments wait more than they work.
    pub(super) workers: usize,
}

impl Series<'_> {
    /// Tries everything, with the result of `prepare` for each thread that works on it.
    pub(super) fn run<M: Fn(Scale, bool) -> (Stage, Arc<Steps>)>(
        &self,
        prepare: impl Fn() -> M + Sync,
    ) {
        watch_for_others();
        let rounds = Mutex::new(self.rounds());
        // One for all experiments, as a runtime has threads of its own.
        let elsewhere = Flavor::Threads.runtime();
        let work = || {
            let make = {
                let _elsewhere = elsewhere.enter();
                prepare()
            };
            loop {
                let next = take(&mut rounds.lock().unwrap());
                let Some((way, number)) = next else {
                    break;
                };
                let experiment = Experiment {
                    operation: self.operations[way.operation],
                    make: &make,
                    flavor: way.runtime.0,
                    home: way.runtime.1,
                    fate: self.fate,
                };
                let was_over = experiment.at(&elsewhere, way.kind.moment(number));
                rounds.lock().unwrap()[way.place].note(number, was_over);
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(work);
            }
        });
        let metrics = elsewhere.metrics();
        elsewhere.block_on(assert_no_task_is_left(&metrics, 0));
        let mut tally = Tally::of(self.what);
        let rounds = rounds.into_inner().unwrap();
        for (number, operation) in self.operations.iter().enumerate() {
            let its = rounds.iter().filter(|it| it.way.operation == number);
            let least = (self.least)(operation);
            let counts = its.map(|it| Count {
                interruptions: it.interruptions(),
                least: least[it.way.kind as usize],
            });
            tally.note(operation, counts.collect());
        }
        tally.finish();
        assert_no_others();
    }

    fn rounds(&self) -> Vec<Round> {
        let mut rounds = Vec::new();
        for operation in 0..self.operations.len() {
            for &runtime in self.runtimes {
                for kind in [Kind::Polled, Kind::Stepped] {
                    let way = Way {
                        place: rounds.len(),
                        operation,
                        runtime,
                        kind,
                    };
                    let least = (self.least)(self.operations[operation])[kind as usize];
                    rounds.push(Round::of(way, least));
                }
            }
        }
        rounds
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Polled,
    Stepped,
}

impl Kind {
    fn moment(self, number: usize) -> Moment {
        match self {
            Self::Polled => Moment::Polled(number),
            Self::Stepped => Moment::Stepped(number),
        }
    }
}

/// One way to interrupt an operation, at many moments.
#[derive(Clone, Copy)]
struct Way {
    /// Its place among all of them.
    place: usize,
    operation: usize,
    runtime: (Flavor, Home),
    kind: Kind,
}

/// The moments of one way: all of them are tried up to the first that came after the end.
struct Round {
    way: Way,
    /// The least number of moments.
    least: usize,
    /// The moments that are tried again, and how many more may be.
    repeated: Vec<usize>,
    again: usize,
    /// The number of moments that were handed out, the first being number 0.
    begun: usize,
    under_way: usize,
    /// The first moment, of those tried so far, that came after the end.
    end: Option<usize>,
}

impl Round {
    fn of(way: Way, least: usize) -> Self {
        Self {
            way,
            least,
            repeated: Vec::new(),
            again: AGAIN,
            begun: 0,
            under_way: 0,
            end: None,
        }
    }

    fn is_open(&self) -> bool {
        (self.end.is_none() || !self.repeated.is_empty()) && self.under_way < AHEAD
    }

    fn begin(&mut self) -> usize {
        self.under_way += 1;
        if let Some(number) = self.repeated.pop() {
            return number;
        }
        self.begun += 1;
        self.begun - 1
    }

    fn note(&mut self, number: usize, was_over: bool) {
        self.under_way -= 1;
        if was_over && number < self.least && self.again > 0 {
            self.again -= 1;
            self.repeated.push(number);
        } else if was_over {
            self.end = Some(self.end.map_or(number, |end| end.min(number)));
        }
    }

    /// The number of moments before the end, each of which was tried.
    fn interruptions(&self) -> usize {
        let end = self.end.expect("an operation ends");
        assert!(self.under_way == 0 && end < self.begun, "each was tried");
        end
    }
}

/// The next moment of the first way that has the fewest under way; `None` if there is nothing to begin.
/// Then the threads that are at work suffice for the rest.
fn take(rounds: &mut [Round]) -> Option<(Way, usize)> {
    let open = rounds.iter_mut().filter(|it| it.is_open());
    let round = open.min_by_key(|it| it.under_way)?;
    Some((round.way, round.begin()))
}

/// However late the answer of a moment comes.
#[test]
fn every_moment_up_to_the_end_is_tried() {
    const ENDS: [usize; 3] = [3, 0, 40];
    for latest_first in [false, true] {
        let mut rounds = [0, 1, 2].map(|place| {
            let way = Way {
                place,
                operation: 0,
                runtime: (Flavor::OneThread, Home::Here),
                kind: Kind::Stepped,
            };
            // The second one ends too early, each time.
            Round::of(way, 1)
        });
        let (mut under_way, mut tried) = (Vec::new(), [const { Vec::new() }; ENDS.len()]);
        loop {
            while let Some((way, number)) = take(&mut rounds) {
                under_way.push((way.place, number));
            }
            let next = match under_way.len() {
                0 => break,
                count if latest_first => count - 1,
                _ => 0,
            };
            let (place, number) = under_way.remove(next);
            tried[place].push(number);
            rounds[place].note(number, number >= ENDS[place]);
        }
        assert_eq!(rounds.each_ref().map(Round::interruptions), ENDS);
        for (tried, end) in tried.iter().zip(ENDS) {
            assert!((0..=end).all(|number| tried.contains(&number)), "{tried:?}");
        }
    }
}
