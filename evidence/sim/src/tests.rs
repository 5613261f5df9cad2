//! The short form of the simulation, and whether it would find anything.

use std::thread;

use super::*;

/// How many runs there are each time.
const RUNS: u64 = 2_000;

#[test]
fn thousands_of_worlds_keep_their_promises() {
    let (counts, reports) = run_many(0..RUNS, Flaw::None, 10);
    println!("{counts}");
    let found = reports.iter().flat_map(|report| {
        let finding = |it| format!("seed {}: {it}\n", report.seed);
        report.findings.iter().map(finding)
    });
    let found: String = found.collect();
    assert!(
        found.is_empty(),
        "{found}again by `cargo xtask sim --seed SEED`"
    );
    // What did not happen was not judged.
    assert!(counts.exclusive * 3 > counts.runs * 2, "{counts}");
    assert!(counts.sections > 10 * RUNS, "{counts}");
    for event in [
        "amnesia",
        "answer lost",
        "answer swallowed",
        "blocked",
        "body panicked",
        "call busy",
        "call done",
        "call dropped",
        "call lost",
        "clock set",
        "cut off",
        "doubled",
        "hint",
        "hint doubled",
        "hint lost",
        "kill",
        "lost",
        "poll late",
        "reconnection",
        "refused",
        "refused but done",
        "restart",
        "shutdown",
        "sleep",
        "standstill",
        "swallowed",
    ] {
        let count = counts.events.get(event).copied().unwrap_or(0);
        assert!(count > 20, "{event}: {count}");
    }
}

#[test]
fn a_seed_is_a_run_whatever_thread_it_has() {
    for seed in 0..40 {
        let first = run(seed, Flaw::None, true);
        let again = thread::spawn(move || run(seed, Flaw::None, true));
        let again = again.join().expect("a run does not panic");
        assert!(first.log.lines().count() > 100, "{}", first.log);
        let mut lines = first.log.lines().zip(again.log.lines());
        let other = lines.find(|(first, again)| first != again);
        assert_eq!(other, None, "seed {seed}");
        assert_eq!(first.log.len(), again.log.len(), "seed {seed}");
    }
}
