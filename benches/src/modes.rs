//! Shared locks and permits beside exclusive ones, and permits beside another library's.
//!
//! The cycles take turns in short rounds, so that a slow phase of the machine affects all of them. Permits are
//! measured with several processes that write down when they were inside.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use dlock::{LockManager, LockMode, LockRequest, Wait};
use dlock_testkit::RedisServer;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::Failure;
use crate::clock::{self, nanos, now};
use crate::compare::start_server;
use crate::locker::connect_to_each;
use crate::outcome::count;
use crate::pin::{Layout, Processors};
use crate::stats::Stats;

/// How shared locks and permits are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each cycle is measured; medians count
    #[arg(long, default_value_t = 30)]
    rounds: u32,

    /// How many sections a round has
    #[arg(long, default_value_t = 200)]
    sections: u32,

    /// How long crowds are measured, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,

    /// A folder with a `bench.js` and its packages that takes permits by another library
    #[arg(long, value_name = "FOLDER")]
    peer: Option<PathBuf>,

    /// A process of the crowd: URL and start
    #[arg(long, hide = true, num_args = 2)]
    child: Option<Vec<String>>,
}

const READERS: usize = 64;
const PERMITS: u32 = 8;
const PROCESSES: usize = 4;
const TASKS: usize = 16;
const KEY: &str = "bench:permits";

/// What a process of the crowd has done: sections of each task, and when it was inside, in ns since the start.
#[derive(Default, Serialize, Deserialize)]
struct Crowd {
    counts: Vec<u64>,
    log: Vec<[u64; 2]>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    if let Some([url, start]) = options.child.as_deref() {
        let crowd = one_process(url, start.parse()?, options.seconds).await?;
        println!("{}", serde_json::to_string(&crowd)?);
        return Ok(());
    }
    cycles(options).await?;
    let server = RedisServer::start().await;
    readers(options, &server.url()).await?;
    let own = permits(options, &server.url(), None).await?;
    if let Some(folder) = &options.peer {
        let other = permits(options, &server.url(), Some(folder)).await?;
        let name = "dlock / the other library, sections";
        aim(name, own / other.max(f64::MIN_POSITIVE), true, 10.0);
    }
    Ok(())
}

fn aim(name: &str, measured: f64, is_least: bool, bound: f64) {
    let (sign, reached) = if is_least {
        (">=", measured >= bound)
    } else {
        ("<=", measured <= bound)
    };
    let verdict = if reached { "reached" } else { "MISSED" };
    println!("{name:<44}{measured:>10.3}   aim {sign} {bound}: {verdict}");
}

/// Measures the cycles on processors of their own: a scheduler that moves server or client doubles them.
async fn cycles(options: &Options) -> Result<(), Failure> {
    let (rounds, sections) = (options.rounds, options.sections);
    let measured = std::thread::spawn(move || {
        let layout = Layout::of_machine();
        println!("{layout}");
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let server = runtime.block_on(start_server(&layout, 0))?;
        layout
            .clients()
            .into_iter()
            .try_for_each(Processors::enter)?;
        runtime.block_on(cycles_of_each_mode(rounds, sections, &server.url()))
    });
    let measured = tokio::task::spawn_blocking(|| measured.join()).await?;
    measured.map_err(|_| "the measuring thread has panicked")?
}

/// A section alone on its key, in each mode.
async fn cycles_of_each_mode(count: u32, sections: u32, url: &str) -> Result<(), Failure> {
    let manager = LockManager::connect(url).await?;
    let ways: [(&str, LockMode); 3] = [
        ("exclusive", LockMode::Exclusive),
        ("shared", LockMode::Shared),
        ("permits", LockMode::Permits(PERMITS)),
    ];
    let mut rounds = vec![Vec::new(); ways.len()];
    for round in 0..=count {
        for ((name, mode), rounds) in ways.iter().zip(&mut rounds) {
            let begun = Instant::now();
            for _ in 0..sections {
                request(&manager, &format!("bench:{name}"), *mode)
                    .acquire()
                    .await?
                    .release()
                    .await?;
            }
            // The first round loads the scripts.
            if round > 0 {
                rounds.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(sections));
            }
        }
    }
    println!("\na section alone on its key over Redis, in µs");
    let mut medians = Vec::new();
    for ((name, _), rounds) in ways.iter().zip(&mut rounds) {
        rounds.sort_by(f64::total_cmp);
        let at = |part: usize| rounds[rounds.len() * part / 4];
        println!("{name:<12}{:>8.1}   ({:.1} to {:.1})", at(2), at(1), at(3));
        medians.push(at(2));
    }
    aim("shared / exclusive", medians[1] / medians[0], false, 1.3);
    Ok(())
}

fn request(manager: &LockManager, key: &str, mode: LockMode) -> LockRequest {
    let request = manager.lock(key).wait(Wait::Forever);
    match mode {
        LockMode::Permits(most) => request.permits(most),
        LockMode::Shared => request.shared(),
        _ => request,
    }
}

/// Readers of one process on one key, and how many requests they cost.
async fn readers(options: &Options, url: &str) -> Result<(), Failure> {
    let manager = LockManager::connect(url).await?;
    let mut watchers = connect_to_each(url).await?;
    request(&manager, "bench:readers", LockMode::Shared)
        .acquire()
        .await?
        .release()
        .await?;
    let before = Stats::of_all(&mut watchers).await?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut tasks = JoinSet::new();
    for _ in 0..READERS {
        let manager = manager.clone();
        tasks.spawn(async move {
            let mut sections = 0;
            while Instant::now() < end {
                let lock = request(&manager, "bench:readers", LockMode::Shared);
                lock.run(async |_lease| tokio::time::sleep(Duration::from_millis(1)).await)
                    .await?;
                sections += 1;
            }
            Ok::<usize, Failure>(sections)
        });
    }
    let mut sections = 0;
    while let Some(task) = tasks.join_next().await {
        sections += task??;
    }
    let after = Stats::of_all(&mut watchers).await?;
    let scripts = after.calls("evalsha") - before.calls("evalsha");
    println!("\n{READERS} readers of one process, sections of 1 ms: {sections} sections");
    let requests = count(usize::try_from(scripts)?) / count(sections);
    aim("requests a section", requests, false, 0.1);
    Ok(())
}

/// The tasks of one process, which take a permit and give it back.
async fn one_process(url: &str, start: u64, seconds: u64) -> Result<Crowd, Failure> {
    let manager = LockManager::connect(url).await?;
    let end = start + nanos(Duration::from_secs(seconds));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let manager = manager.clone();
        tasks.spawn(async move {
            clock::until(start).await;
            let mut log = Vec::new();
            while now() < end {
                let lock = request(&manager, KEY, LockMode::Permits(PERMITS));
                let inside = lock.run(async |_lease| {
                    let entered = now();
                    tokio::task::yield_now().await;
                    [entered, now()]
                });
                let [entered, left] = inside.await?;
                if left < end {
                    log.push([entered - start, left - start]);
                }
            }
            Ok::<_, Failure>(log)
        });
    }
    let mut crowd = Crowd::default();
    while let Some(task) = tasks.join_next().await {
        let log = task??;
        crowd.counts.push(u64::try_from(log.len())?);
        crowd.log.extend(log);
    }
    Ok(crowd)
}

/// Several processes that share permits. Returns the sections a second.
async fn permits(options: &Options, url: &str, peer: Option<&PathBuf>) -> Result<f64, Failure> {
    // Processes of the other library take a second to start.
    let start = now() + nanos(Duration::from_secs(2));
    let end = start + nanos(Duration::from_secs(options.seconds));
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let mut command = if let Some(folder) = peer {
            let mut command = Command::new("node");
            let words = [
                PERMITS.to_string(),
                TASKS.to_string(),
                start.to_string(),
                end.to_string(),
            ];
            command
                .current_dir(folder)
                .arg("bench.js")
                .args([url, KEY])
                .args(words);
            command
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["modes", "--seconds", &options.seconds.to_string()]);
            command.args(["--child", url, &start.to_string()]);
            command
        };
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        processes.push(command.spawn()?);
    }
    let mut all = Crowd::default();
    for process in processes {
        let ended = process.wait_with_output().await?;
        if !ended.status.success() {
            return Err(format!("a process of the crowd ended with {}", ended.status).into());
        }
        let crowd: Crowd = serde_json::from_slice(&ended.stdout)?;
        all.counts.extend(crowd.counts);
        all.log.extend(crowd.log);
    }
    let name = if peer.is_some() {
        "the other library"
    } else {
        "dlock"
    };
    println!(
        "\n{PROCESSES} processes of {TASKS} tasks, {PERMITS} permits, {name}: {} sections",
        all.log.len()
    );
    let most = most_inside(&all.log);
    let (least, greatest) = (all.counts.iter().min(), all.counts.iter().max());
    let fairness = match (least, greatest) {
        (Some(least), Some(greatest)) if *greatest > 0 => {
            count(usize::try_from(*least)?) / count(usize::try_from(*greatest)?)
        }
        _ => 0.0,
    };
    if peer.is_none() {
        aim(
            "most inside at once",
            count(most),
            false,
            f64::from(PERMITS),
        );
        aim("min/max of a task", fairness, true, 0.9);
    } else {
        println!("most inside at once {most}, min/max of a task {fairness:.3}");
    }
    let seconds = Duration::from_secs(options.seconds).as_secs_f64();
    Ok(count(all.log.len()) / seconds)
}

/// The greatest number of sections that overlap.
fn most_inside(log: &[[u64; 2]]) -> usize {
    let enter = log.iter().map(|[entered, _]| (*entered, true));
    let leave = log.iter().map(|[_, left]| (*left, false));
    let mut changes: Vec<_> = enter.chain(leave).collect();
    // Who leaves at a moment makes room for who comes at it.
    changes.sort_unstable();
    let (mut inside, mut most) = (0, 0);
    for (_, enters) in changes {
        if enters {
            inside += 1;
            most = most.max(inside);
        } else {
            inside -= 1;
        }
    }
    most
}

/// A runtime as services have it.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_that_overlap_are_counted() {
        assert_eq!(most_inside(&[]), 0);
        assert_eq!(most_inside(&[[0, 5], [5, 9]]), 1);
        assert_eq!(most_inside(&[[0, 5], [4, 9], [1, 3], [2, 6]]), 3);
    }
}
