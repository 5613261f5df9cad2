//! Limits an inspection to a small part of a server's time, by that server's own clock.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use crate::store::{
    StoreError,
    redis::{
        net::{connection::Handle, node::Node},
        protocol::command::Command,
    },
};

/// An inspection uses one part in this many of a server's time, which is 4 %. The documented limit is 5 %; the
/// difference is for the last step, which no pause follows.
const ONE_IN: u32 = 25;

/// The cost of a request for a server outside of the time that its own clock shows: it waits for the request,
/// reads it, and writes the answer.
const BESIDE: Duration = Duration::from_micros(50);

/// The pace of all inspections of one store.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Ledger>);

impl Pace {
    /// Runs one step of an inspection after the pause for the previous steps. The step returns its cost.
    pub(super) async fn step<T>(&self, step: impl Future<Output = (T, Duration)>) -> T {
        let due = self.ledger().due;
        if let Some(due) = due {
            sleep_until(due).await;
        }
        let began = Instant::now();
        let (outcome, cost) = step.await;
        self.ledger().book(began, cost);
        outcome
    }

    /// From now on, there are no pauses.
    pub(crate) fn lift(&self) {
        *self.ledger() = Ledger {
            is_lifted: true,
            ..Ledger::default()
        };
    }

    /// Returns the progress of the current walk, from 0 to 1.
    pub(crate) fn progress(&self) -> Option<f64> {
        self.ledger().progress
    }

    /// Begins a walk, which ends when the value is dropped.
    pub(super) fn walk(&self) -> Walk<'_> {
        self.ledger().progress = Some(0.0);
        Walk(self)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A walk through all keys.
pub(super) struct Walk<'a>(&'a Pace);

impl Walk<'_> {
    pub(super) fn is_at(&self, progress: f64) {
        self.0.ledger().progress = Some(progress);
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.ledger().progress = None;
    }
}

#[derive(Debug, Default)]
struct Ledger {
    is_lifted: bool,
    /// The time at which the server has had enough time for other clients since the last step.
    due: Option<Instant>,
    progress: Option<f64>,
}

impl Ledger {
    /// Records the cost of a step that began at `began`. Simultaneous steps of several inspections add up.
    fn book(&mut self, began: Instant, cost: Duration) {
        if !self.is_lifted {
            let from = self.due.map_or(began, |due| due.max(began));
            self.due = Some(from + (cost + BESIDE) * ONE_IN);
        }
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
) -> (Vec<Result<Value, StoreError>>, Duration) {
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
        Err(error) => (vec![Err(error); commands.len()], Duration::ZERO),
    }
}

async fn run_between(
    handle: Handle,
    all: &[&Command],
    clock: &Cmd,
) -> (Vec<Result<Value, StoreError>>, Duration) {
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
fn cost([before, after]: [Option<Duration>; 2], took: Duration) -> Duration {
    let told = before.zip(after);
    told.and_then(|(before, after)| after.checked_sub(before))
        .map_or(took, |told| told.min(took))
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
        for (times, took, charged) in [
            ([at(1000), at(1003)], 5, 3),
            // The clock was set forward, and back.
            ([at(1000), at(9_999_999)], 5, 5),
            ([at(1000), at(900)], 5, 5),
            // The time is unknown.
            ([None, None], 5, 5),
            ([at(1000), None], 5, 5),
        ] {
            assert_eq!(cost(times, MS * took), MS * charged, "{times:?}");
        }
    }

    async fn step(pace: &Pace, cost: Duration) {
        let step = async {
            tokio::time::advance(cost).await;
            ((), cost)
        };
        pace.step(step).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_a_small_part_of_the_servers_time() {
        let (pace, began) = (Pace::default(), Instant::now());
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
        let pace = Pace::default();
        step(&pace, MS).await;
        tokio::time::advance(MS * 1000).await;
        let began = Instant::now();
        step(&pace, MS).await;
        assert_eq!(began.elapsed(), MS);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_the_same_time_share_what_there_is() {
        let (pace, began) = (Pace::default(), Instant::now());
        let looks = (0..4).map(|_| async {
            for _ in 0..10 {
                pace.step(async { ((), MS) }).await;
            }
        });
        futures_util::future::join_all(looks).await;
        assert!(began.elapsed() >= MS * 36 * ONE_IN, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pace_nothing_is_waited_for() {
        let (pace, began) = (Pace::default(), Instant::now());
        step(&pace, MS).await;
        pace.lift();
        for _ in 0..10 {
            step(&pace, MS).await;
        }
        assert_eq!(began.elapsed(), MS * 11);
    }

    #[test]
    fn it_is_told_how_far_a_walk_has_got() {
        let pace = Pace::default();
        assert_eq!(pace.progress(), None);
        let walk = pace.walk();
        assert_eq!(pace.progress(), Some(0.0));
        walk.is_at(0.25);
        assert_eq!(pace.progress(), Some(0.25));
        drop(walk);
        assert_eq!(pace.progress(), None);
    }
}
