//! `dlock bench`: what locks cost from here, on this server.

mod measure;
mod report;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use clap::Args;
use dlock::{
    LockManager,
    admin::{Inspector, ServerReport},
};

use self::{measure::Measured, report::Report};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    interrupt::interrupted,
    output,
};

/// With more commands per second than this a server has work that the load may disturb.
const BUSY: u64 = 1000;

/// The longest wait for the release of locks that are still held.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Measures what locks cost from here
///
/// It is real load, with locks that nobody else wants. The last column says how many times
/// the median of a PING each takes.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// How long each of the five measurements takes
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    /// How many tasks take locks at once, where several do
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    tasks: u32,
}

pub(crate) async fn run(global: &Global, args: &BenchArgs) -> Result<Exit, Failure> {
    let inspector = Inspector::connect(global.config()).await?;
    let servers = inspector.servers().await;
    let prefix = format!(
        "dlock-bench:{:016x}",
        RandomState::new().build_hasher().finish()
    );
    announce(global, args, &prefix, &servers);

    // Two managers, since a lock goes from process to process in another way than within one.
    let managers = [global.manager().await?, global.manager().await?];
    let measured = tokio::select! {
        measured = measure_all(global, args, &inspector, &managers, &prefix) => measured,
        code = interrupted() => Err(Failure::new(Exit::Command(code), "interrupted")),
    };
    // In any case, nothing is left behind.
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
    global: &Global,
    args: &BenchArgs,
    inspector: &Inspector,
    [one, other]: &[LockManager; 2],
    prefix: &str,
) -> Result<Vec<Measured>, Failure> {
    let is_quorum = global.url.starts_with("redlock");
    let key = |name: &str| format!("{prefix}:{name}");
    Ok(vec![
        measure::pings(inspector, is_quorum, args.seconds).await?,
        measure::apart(one, &key("one"), 1, args.seconds).await?,
        measure::apart(one, &key("apart"), args.tasks, args.seconds).await?,
        measure::together(one, &key("together"), args.tasks, args.seconds).await?,
        measure::hand_over(one, other, &key("hand-over"), args.seconds).await?,
    ])
}

/// Says what is about to happen, before it does.
fn announce(global: &Global, args: &BenchArgs, prefix: &str, servers: &[ServerReport]) {
    let names: Vec<_> = servers.iter().map(|it| it.server.as_str()).collect();
    let plan = format!(
        "five measurements of {:?} each, with up to {} tasks, at {}; the locks are called {prefix}:*",
        args.seconds,
        args.tasks,
        names.join(", "),
    );
    note(global.json, &plan);
    for server in servers {
        if let Some(rate) = commands_per_second(server).filter(|&rate| rate > BUSY) {
            let warning = format!(
                "{} has other work, {rate} commands per second: both will be slower meanwhile",
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
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.1..=600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it must be 0.1 to 600".to_owned())
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
