//! A short chaos with each sort of servers, in which every kind of fault is had.
//!
//! `cheats` has crowds that deceive themselves, which are found out. `ensembles` has the stores with consensus.

mod cheats;
mod ensembles;
#[cfg(target_os = "linux")]
mod leftovers;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use dlock_testkit::Worker;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Only a run that hangs takes that long, however loaded the machine is.
const LIMIT: Duration = Duration::from_secs(900);

#[derive(Clone, Deserialize)]
struct Report {
    topology: String,
    sections: u64,
    shared: u64,
    exclusive: u64,
    held_up: u64,
    writes: u64,
    refused: u64,
    posted: u64,
    overlaps: u64,
    violations: u64,
    killed: u64,
    stopped: u64,
    faults: BTreeMap<String, Tally>,
    wrong: Vec<String>,
    /// What was noted goes with the last report, unless its test fails.
    #[serde(skip)]
    directory: Option<Arc<Directory>>,
}

/// A directory that is kept if the test that has it fails.
struct Directory(Option<TempDir>);

impl Directory {
    fn path(&self) -> &Path {
        self.0.as_ref().expect("it is kept at the end").path()
    }

    fn keep(&mut self) {
        if let Some(directory) = self.0.take() {
            println!("what was noted: {}", directory.keep().display());
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if thread::panicking() {
            self.keep();
        }
    }
}

#[derive(Clone, Deserialize)]
struct Tally {
    count: u64,
    forgetful: u64,
}

fn chaos(directory: &Path, words: &[&str]) -> Worker {
    let report = directory.join("report");
    Worker::spawn(
        Command::new(env!("CARGO_BIN_EXE_dlock-chaos"))
            .args(words)
            .arg("--report")
            .arg(report)
            // The directory that is kept after a failure goes with this.
            .env("TMPDIR", directory),
    )
}

/// The reports of a run.
async fn run(words: &[&str]) -> Vec<Report> {
    let directory = Arc::new(directory());
    let worker = chaos(directory.path(), words);
    let status = worker.wait(LIMIT).await;
    // Not by `println!`: the table is shown although the test passes.
    let shown = format!("{}{}\n", worker.stdout(), worker.stderr());
    io::stdout().write_all(shown.as_bytes()).ok();
    let report = fs::read(directory.path().join("report")).expect("there is a report");
    let mut reports: Vec<Report> = serde_json::from_slice(&report).expect("it is JSON");
    let is_well = reports.iter().all(|report| report.wrong.is_empty());
    assert_eq!(status.success(), is_well);
    for report in &mut reports {
        report.directory = Some(directory.clone());
    }
    reports
}

fn directory() -> Directory {
    // Short, as names of sockets have to be.
    let directory = TempDir::with_prefix("chaos-").expect("a directory can be made");
    Directory(Some(directory))
}

async fn of(topology: &str) -> Report {
    let mut reports = all().await.iter();
    let found = reports.find(|report| report.topology == topology);
    found.expect("all are reported").clone()
}

/// All of them side by side, once for all tests. Most of a fault is a wait: two crowds share the kinds out.
async fn all() -> &'static [Report] {
    static RUN: OnceCell<Vec<Report>> = OnceCell::const_new();
    let reports = RUN.get_or_init(async || {
        let mut words = vec!["--minutes", "0", "--crowds", "2", "--processes", "3"];
        words.extend(["--seed", "20260101"]);
        words.extend(TOPOLOGIES.iter().flat_map(|it| ["--topology", it]));
        let mut reports = run(&words).await;
        let is_wrong = reports.iter().any(|report| !report.wrong.is_empty());
        // These reports are never dropped.
        let directories = reports.iter_mut().map(|report| report.directory.take());
        let directory = directories.reduce(|_, last| last).flatten();
        if let Some(mut directory) = directory.and_then(Arc::into_inner)
            && is_wrong
        {
            directory.keep();
        }
        reports
    });
    reports.await
}

/// All but those of PostgreSQL with a standby, which has a test of its own: making the next standby takes seconds.
const TOPOLOGIES: [&str; 7] = [
    "single",
    "sentinel",
    "replicas",
    "cluster",
    "quorum",
    "postgres",
    "postgres-pooled",
];

impl Report {
    fn assert_well_over_redis(&self, kinds: &[&str], forgetful: &[&str]) {
        let kinds: Vec<_> = kinds.iter().chain(&ORDERS).copied().collect();
        let forgetful: Vec<_> = forgetful.iter().chain(&["DataFlushed"]).copied().collect();
        self.assert_well(&kinds, &forgetful);
    }

    /// The path of what was noted is among what is wrong.
    fn assert_no_violation(&self) {
        let counts = (self.overlaps, self.violations);
        assert_eq!(counts, (0, 0), "broken promise: {:?}", self.wrong);
    }

    fn assert_no_overlap(&self) {
        assert_eq!(self.overlaps, 0, "broken promise: {:?}", self.wrong);
    }

    fn assert_well(&self, kinds: &[&str], forgetful: &[&str]) {
        assert_eq!(self.wrong, [""; 0]);
        self.assert_no_violation();
        let mut expected: Vec<_> = PROCESSES.iter().chain(kinds).copied().collect();
        let mut had: Vec<_> = self.faults.keys().map(String::as_str).collect();
        expected.sort_unstable();
        had.sort_unstable();
        assert_eq!(had, expected);
        assert!(self.faults.values().all(|it| it.count >= 1));
        for kind in forgetful {
            assert!(self.faults[*kind].forgetful >= 1, "{kind}");
        }
        // Each fault ends with a section of each key.
        assert!(self.sections >= 3 * self.faults.len() as u64);
        assert!(self.shared >= self.sections / 10 && self.shared <= self.sections * 9 / 10);
        assert!(self.writes >= self.sections);
        assert!(self.exclusive >= self.sections / 10 && self.exclusive <= self.sections);
        assert!(self.held_up <= self.stopped);
        assert!(self.killed >= 2 && self.stopped >= 3);
    }
}

const PROCESSES: [&str; 5] = [
    "HolderKilled",
    "WaiterKilled",
    "HolderStopped",
    "HolderStoppedBriefly",
    "WaiterStopped",
];

const ORDERS: [&str; 6] = [
    "ScriptsFlushed",
    "ClientsKilled",
    "ClientsPaused",
    "MemoryFull",
    "WritesRefused",
    "DataFlushed",
];

const NETWORK: [&str; 6] = [
    "ConnectionsCut",
    "ConnectionsRefused",
    "NetworkSilent",
    "RepliesLate",
    "ReplyLost",
    "RequestLost",
];

const INDEPENDENT: [&str; 4] = ["ReadOnly", "ScriptHangs", "ServerStopped", "ServerEmptied"];

const POSTGRES: [&str; 5] = [
    "ServerStopped",
    "ServerKilled",
    "BackendsTerminated",
    "StatementsCancelled",
    "TablesLocked",
];

const SENTINELS: [&str; 6] = [
    "ReplicaKilled",
    "FailOverAsked",
    "MasterKilled",
    "MasterStopped",
    "SentinelKilled",
    "SentinelStopped",
];

#[tokio::test]
async fn one_server_keeps_its_promises_whatever_is_broken() {
    let kinds: Vec<_> = INDEPENDENT.into_iter().chain(NETWORK).collect();
    of("Single")
        .await
        .assert_well_over_redis(&kinds, &["ServerEmptied"]);
}

#[tokio::test]
async fn sentinels_keep_their_promises_whatever_is_broken() {
    let forgetful = ["FailOverAsked", "MasterKilled", "MasterStopped"];
    of("Sentinel")
        .await
        .assert_well_over_redis(&SENTINELS, &forgetful);
}

/// No failover loses a lease that both replicas have confirmed.
#[tokio::test]
async fn confirmed_leases_exclude_each_other_through_fail_overs() {
    let report = of("Replicas").await;
    report.assert_well_over_redis(&SENTINELS, &[]);
    for kind in SENTINELS {
        assert_eq!(report.faults[kind].forgetful, 0, "{kind}");
    }
}

#[tokio::test]
async fn a_cluster_keeps_its_promises_whatever_is_broken() {
    let kinds = [
        "ReplicaKilled",
        "FailOverAsked",
        "MasterKilled",
        "MasterStopped",
        "SlotMoved",
    ];
    let report = of("Cluster").await;
    report.assert_well_over_redis(&kinds, &["MasterKilled", "MasterStopped"]);
    assert_eq!(report.faults["FailOverAsked"].forgetful, 0);
    assert_eq!(report.faults["SlotMoved"].forgetful, 0);
}

#[tokio::test]
async fn a_quorum_keeps_its_promises_whatever_is_broken() {
    let kinds = INDEPENDENT.into_iter().chain(NETWORK).chain(["ServersOut"]);
    let kinds: Vec<_> = kinds.collect();
    let report = of("Quorum").await;
    report.assert_well_over_redis(&kinds, &["ServerEmptied"]);
    assert_eq!(report.faults["ServersOut"].forgetful, 0);
}

/// No fault here makes the server forget a lease: nothing is excused, and the books balance.
fn assert_postgres(report: &Report, more: &[&str]) {
    let kinds = POSTGRES.iter().chain(&NETWORK).chain(more).copied();
    report.assert_well(&kinds.collect::<Vec<_>>(), &[]);
    assert!(report.faults.values().all(|it| it.forgetful == 0));
    assert_eq!(report.exclusive, report.sections);
    assert!(report.posted >= report.sections / 4, "{}", report.posted);
}

#[tokio::test]
async fn postgresql_keeps_its_promises_whatever_is_broken() {
    assert_postgres(&of("Postgres").await, &[]);
}

#[tokio::test]
async fn postgresql_behind_a_pooler_keeps_its_promises_whatever_is_broken() {
    assert_postgres(&of("PostgresPooled").await, &["PoolerKilled"]);
}

/// The hardest of the faults that only a standby has. All of them take longer than a test may.
#[tokio::test]
async fn a_synchronous_standby_takes_over_with_every_lease() {
    let words = [
        "--minutes",
        "0",
        "--topology",
        "postgres-standby",
        "--kind",
        "primary-replaced",
    ];
    let report = run(&words).await.remove(0);
    assert_eq!(report.wrong, [""; 0]);
    report.assert_no_violation();
    let tally = &report.faults["PrimaryReplaced"];
    assert!(tally.count >= 1 && tally.forgetful == 0);
    assert_eq!(report.exclusive, report.sections);
    assert!(report.posted > 0);
}

#[tokio::test]
async fn who_is_late_tries_to_write_and_is_refused() {
    let refused: u64 = all().await.iter().map(|report| report.refused).sum();
    assert!(refused > 0);
}
