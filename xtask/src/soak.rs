//! `cargo xtask soak`: test executables again and again beside busy loops, which take half of the processors.
//!
//! A test that fails by chance does so on a machine that is busy, and seldom.

use std::collections::BTreeMap;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::executables::Executable;
use crate::gate::{self, Manner};
use crate::lanes;
use crate::linted::Lints;
use crate::steps::Step;
use crate::timed::seconds;

/// The executables that only compute or compile, and do the same each time.
const SAME: [&str; 8] = [
    "dlock_macros",
    "dlock_mutants",
    "dlock_sim",
    "historical",
    "macro_shapes",
    "protocols",
    "ui",
    "xtask",
];

#[derive(clap::Args)]
pub(crate) struct Soak {
    /// How often each test executable is run
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many busy loops run beside them [default: the number of processors]
    #[arg(long)]
    busy: Option<usize>,

    /// The last round begins before so many minutes are over
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,

    /// Also the tests that `cargo xtask test` leaves out without this option
    #[arg(long)]
    all: bool,

    /// The names of executables or of their packages [default: all that start servers or threads]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Soak {
    pub(crate) fn run(&self) -> Result<(), String> {
        if !gate::run(&[Step::Server, Step::ZooKeeper], Manner::default()) {
            return Err("the servers of the tests are missing".to_owned());
        }
        let lints = Lints::of_whole_run(false);
        // Tests start examples as programs.
        for call in Step::Test.calls(self.all) {
            if !call.run_under(lints.variables()) {
                return Err(format!("this failed: {}", call.line()));
            }
        }
        let mut executables = lanes::built(&Step::tests(self.all), &lints)?;
        executables.retain(|it| self.chooses(&it.name(), &it.package()));
        if executables.is_empty() {
            let names = self.names.join(", ");
            return Err(format!(
                "no test executable or package has one of these names: {names}"
            ));
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let busy = self.busy.unwrap_or(processors);
        beside(busy, || self.rounds(&executables))
    }

    fn chooses(&self, name: &str, package: &str) -> bool {
        if self.names.is_empty() {
            return !SAME.contains(&name);
        }
        self.names.iter().any(|it| it == name || it == package)
    }

    fn rounds(&self, executables: &[Executable]) -> Result<(), String> {
        let begun = Instant::now();
        let is_over = || {
            let limit = self.minutes.map(|it| Duration::from_secs(60 * it));
            limit.is_some_and(|limit| begun.elapsed() >= limit)
        };
        let mut failures = BTreeMap::<_, u32>::new();
        let mut done = 0;
        while done < self.rounds && !is_over() {
            let start = Instant::now();
            done += 1;
            for failed in lanes::quietly(executables.to_vec()) {
                let (call, failure) = failed.told();
                println!("\nround {done}: {call}: {failure}");
                *failures.entry(call).or_default() += 1;
            }
            println!("round {done}: {}", seconds(start.elapsed()));
        }
        let number = executables.len();
        println!("{number} test executables, {done} times each");
        if failures.is_empty() {
            return Ok(());
        }
        let failures = failures.into_iter();
        let lines = failures.map(|(call, times)| format!("{call}: failed {times} of {done} times"));
        Err(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Does something while so many threads keep processors busy.
fn beside<T>(busy: usize, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let _end = Over(&is_over);
        work()
    })
}

/// Ends the loops, also if the work panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn soak(rounds: u32) -> Soak {
        Soak {
            rounds,
            busy: None,
            minutes: None,
            all: false,
            names: Vec::new(),
        }
    }

    #[test]
    fn a_failure_in_one_round_is_counted_and_ends_no_other_round() {
        let count = std::env::temp_dir().join(format!("dlock-soak-{}", std::process::id()));
        let script = format!(
            "[ \"$1\" = --list ] && exit; echo >> {0}; [ $(wc -l < {0}) != 2 ]",
            count.display()
        );
        let executables = [
            Executable::of_shell(&script, "seldom"),
            Executable::of_shell("true", "never"),
        ];
        let outcome = beside(1, || soak(3).rounds(&executables));
        assert_eq!(outcome, Err("seldom: failed 1 of 3 times".to_owned()));
        assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 3);
        fs::remove_file(count).unwrap();
    }

    #[test]
    fn no_round_begins_after_the_limit() {
        let executables = [Executable::of_shell("exit 1", "fails")];
        let late = Soak {
            minutes: Some(0),
            ..soak(3)
        };
        assert_eq!(late.rounds(&executables), Ok(()));
    }

    #[test]
    fn executables_that_only_compute_are_run_by_name() {
        let all = soak(1);
        assert!(all.chooses("servers", "tests") && !all.chooses("protocols", "model"));
        let one = Soak {
            names: vec!["protocols".to_owned()],
            ..soak(1)
        };
        assert!(one.chooses("protocols", "model") && !one.chooses("servers", "tests"));
        let package = Soak {
            names: vec!["tests".to_owned()],
            ..soak(1)
        };
        assert!(package.chooses("servers", "tests") && !package.chooses("protocols", "model"));
    }
}
