//! The cost of a section for a thread: the attribute on a plain function beside the same calls by hand, and beside a task.
//!
//! All variants take turns in short rounds, so that a slow phase of the machine affects all of them.

use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use dlock::{LockError, LockManager, distributed_lock};
use dlock_testkit::RedisServer;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::Failure;

/// How sections of threads are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each way is measured; medians count
    #[arg(long, default_value_t = 30)]
    rounds: u32,

    /// How many sections a round has
    #[arg(long, default_value_t = 200)]
    sections: u32,
}

#[distributed_lock(key = "bench", manager = locks)]
async fn of_a_task(locks: &LockManager) -> Result<(), LockError> {
    black_box(());
    Ok(())
}

#[distributed_lock(key = "bench", manager = locks, on_lost = finish)]
fn of_a_thread(locks: &LockManager) -> Result<(), LockError> {
    black_box(());
    Ok(())
}

/// A way to have a section.
type Way<'a> = (&'static str, Box<dyn Fn() -> Result<(), LockError> + 'a>);

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let user = own_runtime()?;
    let server = user.block_on(RedisServer::start());
    let in_memory = LockManager::memory();
    let over_redis = LockManager::connect_blocking(server.url())?;
    for (name, locks) in [("in memory", &in_memory), ("over Redis", &over_redis)] {
        println!("\na section {name}, in µs");
        measure(options, &user, locks)?;
    }
    Ok(())
}

fn measure(options: &Options, user: &Runtime, locks: &LockManager) -> Result<(), Failure> {
    let driven = driven_runtime()?;
    let ways: [Way<'_>; 4] = [
        (
            "a task, by the attribute",
            Box::new(|| user.block_on(of_a_task(locks))),
        ),
        (
            "a thread, by the attribute",
            Box::new(|| of_a_thread(locks)),
        ),
        (
            "a thread, `blocking()` by hand",
            Box::new(|| locks.blocking().lock("bench").acquire()?.release()),
        ),
        (
            "a thread, `block_on` by hand",
            Box::new(|| {
                let guard = driven.block_on(locks.lock("bench").acquire())?;
                driven.block_on(guard.release())
            }),
        ),
    ];
    let mut rounds = vec![Vec::new(); ways.len()];
    for _ in 0..options.rounds {
        for ((_, section), rounds) in ways.iter().zip(&mut rounds) {
            let begun = Instant::now();
            for _ in 0..options.sections {
                section()?;
            }
            rounds.push(micros(begun.elapsed() / options.sections));
        }
    }
    for ((name, _), rounds) in ways.iter().zip(&mut rounds) {
        rounds.sort_by(f64::total_cmp);
        let at = |part: usize| rounds[rounds.len() * part / 4];
        println!("{name:<34}{:>8.1}   ({:.1} to {:.1})", at(2), at(1), at(3));
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn own_runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A runtime that another thread drives, as a program would have it that brings its own.
fn driven_runtime() -> Result<Handle, Failure> {
    let (told, handle) = mpsc::channel();
    thread::spawn(move || {
        let runtime = own_runtime().expect("one was made before");
        told.send(runtime.handle().clone())
            .expect("it is waited for");
        runtime.block_on(std::future::pending::<()>());
    });
    Ok(handle.recv()?)
}
