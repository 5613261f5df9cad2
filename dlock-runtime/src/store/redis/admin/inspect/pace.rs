//! Limits inspections to a small part of a server's time, by that server's own clock.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use crate::{
    budget::Budget,
    store::{
        StoreError,
        redis::{
            net::{connection::Handle, node::Node},
            protocol::command::Command,
        },
    },
};

/// The cost of a request for a server outside of the time that its own clock shows: it waits for the request,
/// reads it, and writes the answer.
const BESIDE: Duration = Duration::from_micros(50);

/// The time for which a step may keep a server from its other clients: a server answers the requests of one write in a row.
const LONGEST_STEP: Duration = Duration::from_millis(4);

/// The number of locks that are inspected in one write, unless that takes too long.
pub(super) const LOCKS_AT_ONCE: usize = 64;

/// The time of a server that a step has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) time: Duration,
    /// `true` if it is by the server's clock. Otherwise it contains the time of the network.
    pub(super) is_exact: bool,
}

/// The pace of all inspections of one store.
#[derive(Debug, Default)]
pub(in crate::store::redis::admin) struct InspectPace(Mutex<Ledger>);

impl InspectPace {
    /// Runs one step of an inspection after the pause for the previous steps. The step returns its cost.
    pub(super) async fn step<T>(&self, step: impl Future<Output = (T, Cost)>) -> (T, Cost) {
        let due = self.ledger().due();
        if let Some(due) = due {
            sleep_until(due).await;
        }
        let began = Instant::now();
        let (outcome, cost) = step.await;
        self.ledger().book(began, cost.time);
        (outcome, cost)
    }

    /// Returns the number of locks for the next step.
    pub(super) fn locks_at_once(&self) -> usize {
        self.ledger().locks_at_once
    }

    /// Records the cost of a step about so many locks. Those with thousands of waiters take longer than others.
    pub(super) fn learn(&self, locks: usize, cost: Cost) {
        let mut ledger = self.ledger();
        ledger.locks_at_once = after(ledger.locks_at_once, locks, cost);
    }

    /// Lets a program that has just begun read a part without pauses, once.
    pub(in crate::store::redis::admin) fn begin(&self) {
        self.ledger().budget.begin(Instant::now());
    }

    /// From now on, there are no pauses.
    pub(in crate::store::redis::admin) fn lift(&self) {
        self.ledger().is_lifted = true;
    }

    /// Returns the progress of the current walk, from 0 to 1.
    pub(in crate::store::redis::admin) fn progress(&self) -> Option<f64> {
        self.ledger().progress
    }

    /// Begins a walk, which ends when the value is dropped.
    pub(super) fn walk(&self) -> KeyWalk<'_> {
        self.ledger().progress = Some(0.0);
        KeyWalk(self)
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> Counts {
        self.ledger().counts
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A walk through all keys.
pub(super) struct KeyWalk<'a>(&'a InspectPace);

impl KeyWalk<'_> {
    pub(super) fn is_at(&self, progress: f64) {
        self.0.ledger().progress = Some(progress);
    }
}

impl Drop for KeyWalk<'_> {
    fn drop(&mut self) {
        self.0.ledger().progress = None;
    }
}

#[derive(Debug)]
struct Ledger {
    is_lifted: bool,
    budget: Budget,
    locks_at_once: usize,
    progress: Option<f64>,
    #[cfg(test)]
    counts: Counts,
}

/// The steps of inspections, their pauses, and their costs.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) steps: u32,
    pub(super) pauses: u32,
    pub(super) cost: Duration,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            is_lifted: false,
            budget: Budget::new(Instant::now()),
            locks_at_once: LOCKS_AT_ONCE,
            progress: None,
            #[cfg(test)]
            counts: Counts::default(),
        }
    }
}

impl Ledger {
    /// Returns the end of the pause before the next step, if there is one.
    fn due(&mut self) -> Option<Instant> {
        let due = self.budget.due();
        let is_pause = !self.is_lifted && due > Instant::now();
        #[cfg(test)]
        {
            self.counts.pauses += u32::from(is_pause);
        }
        is_pause.then_some(due)
    }

    fn book(&mut self, began: Instant, cost: Duration) {
        #[cfg(test)]
        {
            self.counts.steps += 1;
            self.counts.cost += cost + BESIDE;
        }
        self.budget.book(began, cost + BESIDE);
    }
}

/// Returns the number of locks for the step after one with `locks` of them, where `most` were allowed.
fn after(most: usize, locks: usize, cost: Cost) -> usize {
    if cost.is_exact && cost.time > LONGEST_STEP {
        (locks / 2).max(1)
    } else if cost.time * 2 <= LONGEST_STEP && locks == most {
        (most * 2).min(LOCKS_AT_ONCE)
    } else {
        most
    }
}

/// Returns the answers to commands that are sent in one write, and their cost for the server.
///
/// The cost is the time that passes between them by the server's own clock: a server answers the requests of one
/// write without serving other clients in between. `INFO` has such times too, but for all clients together, so a scan
/// of another client would count; and not all users have that permission.
pub(super) async fn run_timed(
    node: &Node,
    commands: &[&Command],
) -> (Vec<Result<Value, StoreError>>, Cost) {
    let clock = redis::cmd("TIME");
    let first = Command::plain(clock.clone(), None);
    let all: Vec<_> = [&first]
        .into_iter()
        .chain(commands.iter().copied())
        .collect();
    let timed = async |handle: Handle| run_between(handle, &all, &clock).await;
    match node.over_connection(timed).await {
        Ok(done) => done,
        // The cost is unknown, and a caller that was refused or got no answer pauses anyway.
        Err(error) => {
            let cost = Cost {
                time: Duration::ZERO,
                is_exact: false,
            };
            (vec![Err(error); commands.len()], cost)
        }
    }
}

async fn run_between(
    handle: Handle,
    all: &[&Command],
    clock: &Cmd,
) -> (Vec<Result<Value, StoreError>>, Cost) {
    let sent = Instant::now();
    let (mut answers, after) = handle.execute_all_then(all, clock).await;
    let took = sent.elapsed();
    let before = answers.remove(0);
    let times = [before, after].map(|answer| time(&answer.ok()?));
    (answers, cost(times, took))
}

/// Returns the cost of requests whose answers took `took`, by the server's time before and after.
///
/// A user may lack the permission to read the time, and a clock may be set in between: no cost is greater than
/// `took`.
fn cost([before, after]: [Option<Duration>; 2], took: Duration) -> Cost {
    let told = before.zip(after);
    let told = told.and_then(|(before, after)| after.checked_sub(before));
    Cost {
        time: told.map_or(took, |told| told.min(took)),
        is_exact: told.is_some_and(|told| told <= took),
    }
}

fn time(answer: &Value) -> Option<Duration> {
    let (seconds, micros): (u64, u32) = redis::from_redis_value_ref(answer).ok()?;
    Duration::from_secs(seconds).checked_add(Duration::from_micros(micros.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_costs_more_than_it_took() {
        let at = |ms: u32| Some(MS * ms);
        for (times, took, charged, is_exact) in [
            ([at(1000), at(1003)], 5, 3, true),
            // The clock was set forward, and back.
            ([at(1000), at(9_999_999)], 5, 5, false),
            ([at(1000), at(900)], 5, 5, false),
            // The time is unknown.
            ([None, None], 5, 5, false),
            ([at(1000), None], 5, 5, false),
        ] {
            let cost = cost(times, MS * took);
            assert_eq!(
                (cost.time, cost.is_exact),
                (MS * charged, is_exact),
                "{times:?}"
            );
        }
    }

    fn exact(time: Duration) -> Cost {
        let is_exact = true;
        Cost { time, is_exact }
    }

    #[test]
    fn a_step_is_as_long_as_a_server_can_spare() {
        for (most, locks, ms, next) in [
            (64, 64, 2, 64),
            (64, 64, 5, 32),
            (64, 64, 500, 32),
            (1, 1, 500, 1),
            (16, 16, 2, 32),
            (16, 16, 3, 16),
            // The last step of a part of the keys has fewer locks.
            (16, 3, 0, 16),
            (16, 3, 5, 1),
        ] {
            assert_eq!(
                after(most, locks, exact(MS * ms)),
                next,
                "{locks} in {ms} ms"
            );
        }
        let pace = InspectPace::default();
        pace.learn(64, exact(MS * 5));
        assert_eq!(pace.locks_at_once(), 32);
        // The network is slow.
        let cost = Cost {
            time: MS * 500,
            is_exact: false,
        };
        pace.learn(32, cost);
        assert_eq!(pace.locks_at_once(), 32);
    }

    async fn step(pace: &InspectPace, cost: Duration) {
        let step = async {
            tokio::time::advance(cost).await;
            ((), exact(cost))
        };
        pace.step(step).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_a_small_part_of_the_servers_time() {
        const ONE_IN: u32 = 25;
        let (pace, began) = (InspectPace::default(), Instant::now());
        let mut spent = Duration::ZERO;
        for at in 0..40_u32 {
            // Short and long steps by turns.
            let cost = MS * (at % 7);
            step(&pace, cost).await;
            spent += cost;
            assert!(
                at < 7 || spent * 20 <= began.elapsed(),
                "{spent:?} of {:?} after {at}",
                began.elapsed()
            );
        }
        // It is not slower than that either; timers are exact to a millisecond.
        let most = (spent + BESIDE * 40) * ONE_IN + MS * 40;
        assert!(began.elapsed() <= most, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_made_up_for_itself_is_not_waited_for_again() {
        let pace = InspectPace::default();
        step(&pace, MS).await;
        tokio::time::advance(MS * 1000).await;
        let began = Instant::now();
        step(&pace, MS).await;
        assert_eq!(began.elapsed(), MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_has_just_begun_reads_without_pauses_at_first() {
        let pace = InspectPace::default();
        pace.begin();
        let mut steps = 0;
        while pace.counts().pauses == 0 {
            step(&pace, MS * 2).await;
            steps += 1;
        }
        // Half a second, and what the time of the steps themselves allows.
        assert!((240..=262).contains(&steps), "{steps}");
        pace.begin();
        step(&pace, MS * 2).await;
        assert_eq!(pace.counts().pauses, 2, "it begins once");
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_the_same_time_share_what_there_is() {
        const ONE_IN: u32 = 25;
        let (pace, began) = (InspectPace::default(), Instant::now());
        let looks = (0..4).map(|_| async {
            for _ in 0..10 {
                pace.step(async { ((), exact(MS)) }).await;
            }
        });
        futures_util::future::join_all(looks).await;
        assert!(began.elapsed() >= MS * 36 * ONE_IN, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pace_nothing_is_waited_for() {
        let (pace, began) = (InspectPace::default(), Instant::now());
        step(&pace, MS).await;
        pace.lift();
        for _ in 0..10 {
            step(&pace, MS).await;
        }
        assert_eq!(began.elapsed(), MS * 11);
    }

    #[test]
    fn it_is_told_how_far_a_walk_has_got() {
        let pace = InspectPace::default();
        assert_eq!(pace.progress(), None);
        let walk = pace.walk();
        assert_eq!(pace.progress(), Some(0.0));
        walk.is_at(0.25);
        assert_eq!(pace.progress(), Some(0.25));
        drop(walk);
        assert_eq!(pace.progress(), None);
    }
}
