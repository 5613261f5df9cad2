//! Real servers and processes, broken: are the locks held by one at a time all the same?
//!
//! Several processes run annotated functions against servers of their own, and write under each lock to
//! a log that looks at fencing tokens. Meanwhile processes, connections and servers are broken, one
//! after the other, as a seed says. At the end a judge reads what all have noted.

mod books;
mod crowd;
mod ensemble;
mod etcd;
mod fault;
mod fenced;
mod follow;
mod nemesis;
mod notes;
mod postgres;
mod random;
mod report;
mod round;
mod together;
mod unseen;
mod worker;
mod world;
mod zookeeper;

use std::{
    fs::File,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant, SystemTime},
};

use clap::{Parser, Subcommand};
use tempfile::TempDir;

use fault::{Kind, Topology};
use random::Random;
use report::Report;
use round::Round;
use worker::Cheat;

/// A round is judged when it has ended, so that what it noted does not grow without bounds.
const ROUND: Duration = Duration::from_secs(180);

#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,

    /// For how long; each kind of fault is had once in any case
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,

    /// The seed of the faults, though not of the time at which all else happens [default: a new one]
    #[arg(long)]
    seed: Option<u64>,

    /// Only with servers that belong together like this [default: all, side by side]
    #[arg(long, value_enum)]
    topology: Vec<Topology>,

    /// Only faults of these kinds [default: all that the servers know]
    #[arg(long, value_enum)]
    kind: Vec<Kind>,

    /// So many crowds side by side with each topology, on servers of their own: they share the kinds out
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    crowds: u8,

    /// So many processes have a crowd
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    processes: u8,

    /// Lets something be wrong with the crowd, which must be found out
    #[arg(long, value_enum)]
    cheat: Option<Cheat>,

    /// Keeps what was noted, even if all was well
    #[arg(long)]
    keep: bool,

    /// Writes the report there, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Role {
    /// One process of the crowd
    #[command(hide = true)]
    Worker { settings: String },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Role::Worker { settings }) = &arguments.role {
        let settings = serde_json::from_str(settings).expect("they come from this program");
        worker::run(settings);
        return ExitCode::SUCCESS;
    }
    if together::is_inner() {
        return arguments.run();
    }
    match together::run(arguments.keep) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: it cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn run(&self) -> ExitCode {
        let seed = self.seed.unwrap_or_else(new_seed);
        println!("seed {seed}");
        let all = [
            Topology::Single,
            Topology::Sentinel,
            Topology::Replicas,
            Topology::Cluster,
            Topology::Quorum,
            Topology::Postgres,
            Topology::PostgresPooled,
            Topology::PostgresStandby,
            Topology::PostgresStandbyPooled,
            Topology::Etcd,
            Topology::ZooKeeper,
        ];
        let chosen = if self.topology.is_empty() {
            &all[..]
        } else {
            &self.topology
        };
        for topology in chosen {
            if self.kinds(*topology).is_empty() {
                eprintln!("error: {topology}: there are no such faults");
                return ExitCode::FAILURE;
            }
            if !topology.is_redis() && self.cheat.is_some_and(Cheat::is_in_redis) {
                eprintln!(
                    "error: {topology}: this cheat is about Redis; choose another one or another topology"
                );
                return ExitCode::FAILURE;
            }
            if self.cheat == Some(Cheat::AsynchronousStandby) && !topology.has_standby() {
                eprintln!(
                    "error: {topology}: this cheat is about a standby of PostgreSQL; choose such a topology"
                );
                return ExitCode::FAILURE;
            }
        }
        let reports: Vec<_> = thread::scope(|scope| {
            let start = |topology: &Topology| {
                let topology = *topology;
                let crowds = 0..usize::from(self.crowds);
                let shares = crowds.map(|crowd| self.share(topology, crowd));
                let shares = shares.filter(|kinds| !kinds.is_empty());
                let start = |(crowd, kinds): (u64, Vec<Kind>)| {
                    let seed = seed ^ ((topology as u64) << 32) ^ (crowd << 40);
                    scope.spawn(move || self.repeat(topology, &kinds, seed))
                };
                (0..).zip(shares).map(start).collect::<Vec<_>>()
            };
            let running: Vec<_> = chosen.iter().map(start).collect();
            let ended = running.into_iter().zip(chosen);
            ended.map(|(it, topology)| of_all(*topology, it)).collect()
        });
        for report in &reports {
            print!("{report}");
        }
        println!(
            "\n* a lease may have been forgotten by it, and only the tokens are promised; longest without: \
             a section of any one key"
        );
        if let Some(path) = &self.report {
            let file = File::create(path).expect("the report can be written");
            serde_json::to_writer_pretty(file, &reports).expect("the report can be written");
        }
        if reports.iter().all(|report| report.wrong.is_empty()) {
            return ExitCode::SUCCESS;
        }
        println!("something is wrong; seed {seed}");
        ExitCode::FAILURE
    }

    /// Rounds until the time is over, or something is wrong.
    fn repeat(&self, topology: Topology, kinds: &[Kind], seed: u64) -> Report {
        let mut random = Random::new(seed);
        let end = Instant::now() + Duration::from_secs_f64(60.0 * self.minutes.max(0.0));
        let mut report = Report::new(topology);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let round = self.round(topology, kinds, random.next(), left.min(ROUND));
            report.add(round);
            println!(
                "{topology}: {} s, {} sections, {} violations so far",
                report.seconds, report.sections, report.violations
            );
            if Instant::now() >= end || !report.wrong.is_empty() {
                return report;
            }
        }
    }

    fn kinds(&self, topology: Topology) -> Vec<Kind> {
        let mut kinds = Kind::of(topology);
        kinds.retain(|kind| self.kind.is_empty() || self.kind.contains(kind));
        kinds
    }

    /// Those of the kinds that fall to one of the crowds.
    fn share(&self, topology: Topology, crowd: usize) -> Vec<Kind> {
        let kinds = self.kinds(topology).into_iter().skip(crowd);
        kinds.step_by(usize::from(self.crowds)).collect()
    }

    fn round(&self, topology: Topology, kinds: &[Kind], seed: u64, time: Duration) -> Report {
        let directory = TempDir::with_prefix("round-").expect("a directory can be made");
        let doing = Arc::new(Mutex::new("starting it".to_owned()));
        let round = Round {
            topology,
            kinds: kinds.to_vec(),
            seed,
            time,
            cheat: self.cheat,
            processes: self.processes.into(),
            directory: directory.path().to_owned(),
            doing: doing.clone(),
        };
        // On a thread of its own: what testkit cannot do is a panic.
        let ended = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build();
            let runtime = runtime.expect("a runtime can be built");
            runtime.block_on(round.run())
        });
        let mut report = ended.join().unwrap_or_else(|_| {
            let doing = doing.lock().unwrap_or_else(PoisonError::into_inner);
            Report::broken(topology, format!("it panicked, at this: {doing}"))
        });
        if self.keep || !report.wrong.is_empty() {
            let kept = directory.keep();
            if !report.wrong.is_empty() {
                let kept = kept.display();
                let which = format!("in the round with the seed {seed}, noted in {kept}");
                report.wrong.push(which);
            }
        }
        report
    }
}

/// One report of all crowds with the same sort of servers.
fn of_all(topology: Topology, crowds: Vec<ScopedJoinHandle<'_, Report>>) -> Report {
    let mut all = Report::new(topology);
    for crowd in crowds {
        all.add(crowd.join().expect("rounds panic by themselves"));
    }
    all
}

fn new_seed() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = time.map_or(0, |it| it.as_nanos());
    // The lower half changes most.
    u64::try_from(nanos & u128::from(u64::MAX)).expect("it was cut off")
}
