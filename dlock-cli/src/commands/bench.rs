//! `dlock bench`: measures the latency and the throughput of locks from this machine.

mod measure;
mod report;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use clap::Args;
use dlock::LockManager;
use dlock_admin::{Inspect, ServerReport};

use self::{measure::Measured, report::Report};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    interrupt::interrupted,
    output,
};

/// A server with more commands per second than this gets a warning.
const BUSY: u64 = 1000;

/// The limit for the release of locks that are still held.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Measures the latency and the throughput of locks
///
/// The benchmark puts real load on the server, with locks of its own. The last column is the
/// median divided by the median of a PING.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// The duration of each of the five measurements
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    /// The number of tasks in the measurements with several tasks
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    tasks: u32,
}

pub(crate) async fn run(global: &Global, args: &BenchArgs) -> Result<Exit, Failure> {
    let inspector = global.inspector().await?;
    let servers = inspector.servers().await;
    let prefix = format!(
        "dlock-bench:{:016x}",
        RandomState::new().build_hasher().finish()
    );
    announce(global, args, &prefix, &servers);

    // Two managers behave like two processes: a grant between them goes through the server.
    let managers = [global.manager().await?, global.manager().await?];
    let measured = tokio::select! {
        measured = measure_all(args, &*inspector, &managers, &prefix) => measured,
        code = interrupted() => Err(Failure::new(Exit::Command(code), "interrupted")),
    };
    // Release all locks, also after a failure.
    for manager in &managers {
        manager.shutdown(SHUTDOWN).await;
    }
    let report = Report {
        servers: servers.into_iter().map(|it| it.server).collect(),
        measured: measured?,
    };
    if global.json {
        output::document(&report.json())?;
    } else {
        output::text(&report.text())?;
    }
    Ok(Exit::Success)
}

async fn measure_all(
    args: &BenchArgs,
    inspector: &dyn Inspect,
    [one, other]: &[LockManager; 2],
    prefix: &str,
) -> Result<Vec<Measured>, Failure> {
    let is_quorum = inspector.judge().layout() == Some("quorum");
    let key = |name: &str| format!("{prefix}:{name}");
    Ok(vec![
        measure::pings(inspector, is_quorum, args.seconds).await?,
        measure::apart(one, &key("one"), 1, args.seconds).await?,
        measure::apart(one, &key("apart"), args.tasks, args.seconds).await?,
        measure::together(one, &key("together"), args.tasks, args.seconds).await?,
        measure::hand_over(one, other, &key("hand-over"), args.seconds).await?,
    ])
}

/// Prints what the benchmark is going to do.
fn announce(global: &Global, args: &BenchArgs, prefix: &str, servers: &[ServerReport]) {
    let names: Vec<_> = servers.iter().map(|it| it.server.as_str()).collect();
    let plan = format!(
        "5 measurements of {:?} each, with up to {} tasks, on {}; the keys are `{prefix}:*`",
        args.seconds,
        args.tasks,
        names.join(", "),
    );
    note(global.json, &plan);
    for server in servers {
        if let Some(rate) = commands_per_second(server).filter(|&rate| rate > BUSY) {
            let warning = format!(
                "{} serves {rate} commands per second for other clients: both will be slower during the benchmark",
                server.server,
            );
            note(global.json, &warning);
        }
    }
}

fn commands_per_second(server: &ServerReport) -> Option<u64> {
    server.info.get("instantaneous_ops_per_sec")?.parse().ok()
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be from 0.1 to 600".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "601", "NaN", "inf", "x", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
