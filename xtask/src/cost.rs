//! The cost of the attribute for compile times, against the same written by hand.
//!
//! Nothing is asserted: times depend on the machine and on what else it does. The programs are
//! built in turn, so that a busy minute meets all of them, and the median counts.

mod program;
mod table;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use crate::cargo;
use program::{FUNCTIONS, Program};
use table::Row;

/// A way to build: what it is called, and what cargo is told.
type Build = (&'static str, &'static [&'static str]);

const CHECK: Build = ("cargo check", &["check"]);
const DEBUG: Build = ("debug build", &["build"]);
const RELEASE: Build = ("release build", &["build", "--release"]);
/// Other arguments than above for the last package only: the dependencies are not built again.
const STRIPPED: Build = ("stripped", &["rustc", "--release", "--", "-Cstrip=symbols"]);

/// One build: by the clock, and by what all its processes used of the processors.
#[derive(Clone, Copy)]
struct Sample {
    clock: Duration,
    processor: Option<Duration>,
}

/// Measures every build `runs` times and prints a table.
pub(crate) fn run(runs: usize) -> Result<(), String> {
    let folder = cargo::root().join("target/cost");
    program::write(&folder, &cargo::root())?;

    let mut rows = Vec::new();
    for build in [CHECK, DEBUG, RELEASE] {
        println!("{}, {runs} times with {FUNCTIONS} functions", build.0);
        rows.extend(times(&folder, build, runs)?);
    }
    rows.push(sizes("program, debug", &folder, "debug")?);
    rows.push(sizes("program, release", &folder, "release")?);
    for program in Program::ALL {
        measure(&folder, STRIPPED, program)?;
    }
    rows.push(sizes("  stripped", &folder, "release")?);
    print!("\n{}", table::shown(&rows));
    Ok(())
}

fn times(folder: &Path, build: Build, runs: usize) -> Result<Vec<Row>, String> {
    let mut samples = Program::ALL.map(|_| Vec::new());
    // The first time also builds the dependencies.
    for program in Program::ALL {
        measure(folder, build, program)?;
    }
    for run in 0..runs {
        // Each comes first, second and last in turn: the one before may still be written to disk.
        for turn in 0..Program::ALL.len() {
            let index = (run + turn) % Program::ALL.len();
            let (program, samples) = (Program::ALL[index], &mut samples[index]);
            let main = folder.join(program.name()).join("src/main.rs");
            touch(&main).map_err(|error| format!("{}: {error}", main.display()))?;
            samples.push(measure(folder, build, program)?);
        }
    }
    let clock = samples
        .each_ref()
        .map(|samples| median(samples.iter().map(|sample| sample.clock)));
    let mut rows = vec![Row::seconds(build.0, clock)];
    let processor: Vec<_> = samples
        .iter()
        .filter_map(|samples| samples.iter().map(|sample| sample.processor).collect())
        .map(|samples: Vec<Duration>| median(samples.into_iter()))
        .collect();
    if let Ok(processor) = processor.try_into() {
        rows.push(Row::seconds("  of processors", processor));
    }
    // Part of every time above, and none of the attribute's.
    let idle = measure(folder, build, Program::Attribute)?;
    rows.push(Row::seconds("  nothing to build", [idle.clock; 3]));
    Ok(rows)
}

fn measure(folder: &Path, (_, arguments): Build, program: Program) -> Result<Sample, String> {
    let (command, rest) = arguments.split_first().expect("every build has a command");
    let mut cargo = cargo::command(folder);
    cargo
        .args([command, "--quiet", "--package", program.name()])
        .args(["--target-dir", "target"])
        .args(rest)
        // The rest of the last build would be used by chance.
        .env("CARGO_INCREMENTAL", "0")
        .stdout(Stdio::null());
    let (used, start) = (processor_time(), Instant::now());
    let status = cargo
        .status()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    let clock = start.elapsed();
    let processor = processor_time()
        .zip(used)
        .map(|(after, before)| after.saturating_sub(before));
    if !status.success() {
        return Err(format!("`{}` does not compile", program.name()));
    }
    Ok(Sample { clock, processor })
}

fn touch(file: &Path) -> io::Result<()> {
    File::options()
        .append(true)
        .open(file)?
        .set_modified(SystemTime::now())
}

fn sizes(shown: &'static str, folder: &Path, profile: &str) -> Result<Row, String> {
    let size = |program: Program| {
        let path: PathBuf = folder.join("target").join(profile).join(program.name());
        fs::metadata(&path)
            .map(|data| data.len())
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let [attribute, by_hand, unlocked] = Program::ALL.map(size);
    Ok(Row::bytes(shown, [attribute?, by_hand?, unlocked?]))
}

/// The processor time that the children of this process have used, where the system has a file for
/// it.
fn processor_time() -> Option<Duration> {
    // `cutime` and `cstime`, in units that Linux has kept at 10 ms for all programs. The name of
    // the program stands before them and may contain anything.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = times
        .map(|ticks| ticks.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 10))
}

fn median(samples: impl Iterator<Item = Duration>) -> Duration {
    let mut samples: Vec<_> = samples.collect();
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_sorted_samples() {
        let samples =
            |millis: &[u64]| median(millis.iter().copied().map(Duration::from_millis)).as_millis();
        assert_eq!(samples(&[900, 2, 1]), 2);
        assert_eq!(samples(&[7]), 7);
        assert_eq!(samples(&[]), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn processor_time_is_that_of_children() {
        let before = processor_time().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(crate::machine::succeeds("sh", &["-c", busy]));
        assert!(processor_time().unwrap() > before);
    }
}
