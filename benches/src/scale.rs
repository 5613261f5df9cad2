//! Very many leases, waiters and keys, each on a server or cluster of their own, and what may become of it.

use std::time::Duration;

use clap::Args;
use dlock_testkit::{Cluster, RedisServer};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::Failure;
use crate::compare::Process;
use crate::many::{Distinct, Held, Report, Waiters};
use crate::outcome::count;
use crate::table::{self, number};

#[derive(Args)]
pub(crate) struct Options {
    /// How many leases are held at once
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..))]
    leases: u32,

    /// How many tasks wait for one key
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..))]
    waiters: u32,

    /// How many keys are taken one after another
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10..))]
    keys: u32,

    /// Over a Redis Cluster of three masters in place of one server
    #[arg(long)]
    cluster: bool,

    /// How long a lease lasts, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=600))]
    ttl: u64,

    /// All of it at the same time, which takes less of it and measures less well
    #[arg(long)]
    side_by_side: bool,
}

/// Much longer than any of it takes.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Two tables of tasks and attempts, and some kilobytes of futures.
const MOST_BYTES_EACH: u64 = 8 * 1024;
/// The memory that buffers and an allocator may keep; nothing that grows with a million keys fits into it.
const MOST_GROWTH: u64 = 4 << 20;
/// One for each slot.
const MOST_FENCES: usize = 16_384;

const FENCES: &str = "dlock:fence:";

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let cases = [
        ("held", options.leases),
        ("waiters", options.waiters),
        ("distinct", options.keys),
    ];
    let at_once = if options.side_by_side { cases.len() } else { 1 };
    let rows: Vec<_> = stream::iter(cases)
        .map(|(what, n)| case(what, n, options))
        .buffered(at_once)
        .try_concat()
        .await?;
    println!("\n{}", shown(&rows));
    let broken: Vec<_> = rows
        .iter()
        .filter(|it| !it.kept())
        .map(|it| it.name.trim())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!("out of bounds: {}", broken.join(", ")).into())
}

/// One of them, on servers of its own.
async fn case(what: &str, n: u32, options: &Options) -> Result<Vec<Row>, Failure> {
    println!("{what}: {n}");
    let servers = Servers::start(options.cluster).await;
    let words = [
        "mode=many".to_owned(),
        format!("what={what}"),
        format!("n={n}"),
        format!("url={}", servers.url()),
        format!("ttl_s={}", options.ttl),
        "seconds=3".to_owned(),
        "drain_s=900".to_owned(),
    ];
    let report = Process::start(&words)?.outcome(PATIENCE).await?;
    let mut rows = judge(&report);
    rows.extend(left_over(&servers.keys().await));
    Ok(rows)
}

/// Where the locks are.
enum Servers {
    One(Box<RedisServer>),
    Cluster(Cluster),
}

impl Servers {
    async fn start(in_cluster: bool) -> Self {
        if in_cluster {
            Self::Cluster(Cluster::start(3, 0).await)
        } else {
            Self::One(Box::new(RedisServer::start().await))
        }
    }

    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// All keys of all servers.
    async fn keys(&self) -> Vec<String> {
        match self {
            Self::One(server) => server.keys("*").await,
            Self::Cluster(cluster) => cluster.keys("*").await,
        }
    }
}

/// Something that was measured, and what it must not exceed.
struct Row {
    name: &'static str,
    value: f64,
    most: Option<f64>,
}

impl Row {
    fn plain(name: &'static str, value: f64) -> Self {
        let most = None;
        Self { name, value, most }
    }

    fn bounded(name: &'static str, value: f64, most: f64) -> Self {
        let most = Some(most);
        Self { name, value, most }
    }

    fn kept(&self) -> bool {
        self.most.is_none_or(|most| self.value <= most)
    }
}

/// Of few things each has a large share in what is there anyway.
fn memory_each(bytes: u64, number: u32) -> Row {
    let most = kib(MOST_BYTES_EACH) + kib(MOST_GROWTH) / f64::from(number);
    Row::bounded("  KiB of memory each", kib(bytes), most)
}

fn kib(bytes: u64) -> f64 {
    count(usize::try_from(bytes).unwrap_or(usize::MAX)) / 1024.0
}

fn judge(report: &Report) -> Vec<Row> {
    let active = |active| Row::bounded("  keys still known to the manager", count(active), 0.0);
    match report {
        Report::Held(Held {
            n,
            acquire_s,
            kept_s,
            cpu_share,
            commands_per_s,
            release_s,
            rss_each,
            lost,
            active: left,
        }) => vec![
            Row::plain("leases held at once", f64::from(*n)),
            Row::plain("  s to acquire them", *acquire_s),
            Row::plain("  s held", *kept_s),
            Row::plain("  processors used meanwhile", *cpu_share),
            Row::plain("  commands a second meanwhile", *commands_per_s),
            Row::plain("  s to release them", *release_s),
            memory_each(*rss_each, *n),
            Row::bounded("  lost", count(*lost), 0.0),
            active(*left),
        ],
        Report::Waiters(Waiters {
            n,
            through_s,
            rss_each,
            left,
            active: active_after,
        }) => vec![
            Row::plain("tasks waiting for one key", f64::from(*n)),
            Row::plain("  s until all were through", *through_s),
            memory_each(*rss_each, *n),
            Row::bounded("  without a section", f64::from(*left), 0.0),
            active(*active_after),
        ],
        Report::Distinct(Distinct {
            n,
            took_s,
            rss_growth,
            active: left,
        }) => vec![
            Row::plain("keys one after another", f64::from(*n)),
            Row::plain("  s", *took_s),
            Row::bounded(
                "  KiB of memory grown since a tenth",
                kib(*rss_growth),
                kib(MOST_GROWTH),
            ),
            active(*left),
        ],
    }
}

/// The keys that are left in the server at the end.
fn left_over(keys: &[String]) -> [Row; 2] {
    let fences = keys.iter().filter(|key| key.starts_with(FENCES)).count();
    [
        Row::bounded("  fences in the server", count(fences), count(MOST_FENCES)),
        Row::bounded(
            "  other keys in the server",
            count(keys.len() - fences),
            0.0,
        ),
    ]
}

fn shown(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let bound = row
                .most
                .map_or_else(String::new, |most| format!("<= {}", number(most)));
            let verdict = if row.kept() { "" } else { "EXCEEDED" };
            vec![
                row.name.to_owned(),
                number(row.value),
                bound,
                verdict.to_owned(),
            ]
        })
        .collect();
    table::shown(1, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_lease_is_out_of_bounds() {
        let held = |lost| {
            Report::Held(Held {
                n: 10,
                acquire_s: 1.0,
                kept_s: 10.0,
                cpu_share: 0.5,
                commands_per_s: 3.0,
                release_s: 1.0,
                rss_each: 2048,
                lost,
                active: 0,
            })
        };
        assert!(judge(&held(0)).iter().all(Row::kept));
        let rows = judge(&held(1));
        assert!(!rows.iter().all(Row::kept));
        assert!(shown(&rows).contains("EXCEEDED"), "{}", shown(&rows));
    }

    #[test]
    fn memory_is_bounded_however_many_there_are() {
        assert!(memory_each(14 << 10, 100).kept());
        assert!(memory_each(8 << 10, 100_000).kept());
        assert!(!memory_each(9 << 10, 100_000).kept());
    }

    #[test]
    fn only_fences_may_stay() {
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        assert!(left_over(&keys(&["dlock:fence:{1}"])).iter().all(Row::kept));
        let left = keys(&["dlock:fence:{1}", "dlock:{bench:1}"]);
        assert!(!left_over(&left).iter().all(Row::kept));
    }
}
