//! Measures dlock beside others that lock over Redis: one run of one peer, or all of them in turn.

mod apart;
mod arguments;
mod blocking;
mod clock;
mod compare;
mod etcd;
mod locker;
mod many;
mod measure;
mod modes;
mod outcome;
mod pin;
mod postgres;
mod publish;
mod scale;
mod serve;
mod stats;
mod table;
mod usage;
mod zookeeper;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Builder;

use arguments::{Mode, Peer, Settings};

/// Why something could not be measured.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Measures locks: one peer by its words, or the peers in turn
#[derive(Parser)]
#[command(name = "dlock-bench", args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,

    /// The words of a measurement; one JSON line has its result
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every workload with every peer on a server of its own, and compares with the aims
    Compare(compare::Options),
    /// Sections of threads beside those of tasks, in memory and on a server of its own
    Blocking(blocking::Options),
    /// Shared locks and permits beside exclusive ones on a server of its own, and beside another library
    Modes(modes::Options),
    /// Locks in PostgreSQL beside the same by hand, on servers of its own
    Postgres(postgres::Options),
    /// Locks in etcd beside the same by hand and beside etcd's own lock, on servers of its own
    Etcd(etcd::Options),
    /// Locks in ZooKeeper beside the same by hand and beside its usual recipe, on servers of its own
    #[command(name = "zookeeper")]
    ZooKeeper(zookeeper::Options),
    /// The page of `dlock serve`: its first picture, its memory, and locks beside it, on a server of its own
    Serve(serve::Options),
    /// Holds, waits for and takes very many locks on a server of its own
    Many(scale::Options),
}

fn main() -> ExitCode {
    let help = CommandLine::command().after_help(arguments::help());
    let line = CommandLine::from_arg_matches(&help.get_matches()).unwrap_or_else(|it| it.exit());
    let done = match line.command {
        None => one(&Settings::read(&line.words).unwrap_or_else(|error| error.exit())),
        Some(Command::Compare(options)) => watch(compare::run(&options)),
        Some(Command::Blocking(options)) => blocking::run(&options),
        Some(Command::Modes(options)) => modes::runtime().and_then(|runtime| {
            let measured = runtime.block_on(modes::run(&options));
            runtime.shutdown_background();
            measured
        }),
        Some(Command::Postgres(options)) => postgres::run(&options),
        Some(Command::Etcd(options)) => etcd::run(&options),
        Some(Command::ZooKeeper(options)) => zookeeper::run(&options),
        Some(Command::Serve(options)) => serve::run(&options),
        Some(Command::Many(options)) => watch(scale::run(&options)),
    };
    done.map_or_else(
        |reason| {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Measures in this process.
fn one(settings: &Settings) -> Result<(), Failure> {
    // Before the runtime, whose threads are then on the same processors.
    settings.cpus.iter().try_for_each(pin::Processors::enter)?;
    let runtime = settings.rt.build()?;
    let done = runtime.block_on(async {
        match settings.mode {
            Mode::Many => many::run(settings).await,
            Mode::Bench if settings.peer.is(Peer::Publish) => publish::run(settings).await,
            Mode::Bench | Mode::Hold | Mode::Wait => locker::run(settings).await,
        }
    });
    // Tasks that still wait for a lock would be waited for where they block.
    runtime.shutdown_background();
    done
}

/// Runs what only starts processes and looks at what they say.
fn watch(comparison: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(comparison)
}
