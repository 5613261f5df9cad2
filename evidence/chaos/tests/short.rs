//! A short chaos with each sort of servers, in which every kind of fault is had, and crowds that deceive
//! themselves, which are found out.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    process::Command,
    time::Duration,
};

use dlock_testkit::{Worker, eventually};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Only a run that hangs takes that long, however loaded the machine is.
const LIMIT: Duration = Duration::from_secs(400);

/// Some mistakes show only if somebody else is inside at the right moment.
const TRIES: usize = 10;

const SOON: Duration = Duration::from_secs(20);

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
}

#[derive(Clone, Deserialize)]
struct Tally {
    count: u64,
    forgetful: u64,
}

fn chaos(directory: &TempDir, words: &[&str]) -> Worker {
    let report = directory.path().join("report");
    Worker::spawn(
        Command::new(env!("CARGO_BIN_EXE_dlock-chaos"))
            .args(words)
            .arg("--report")
            .arg(report)
            // The directory that is kept after a failure goes with this.
            .env("TMPDIR", directory.path()),
    )
}

/// The reports of a run.
async fn run(directory: &TempDir, words: &[&str]) -> Vec<Report> {
    let worker = chaos(directory, words);
    let status = worker.wait(LIMIT).await;
    // Not by `println!`: the table is shown although the test passes.
    let shown = format!("{}{}\n", worker.stdout(), worker.stderr());
    io::stdout().write_all(shown.as_bytes()).ok();
    let report = fs::read(directory.path().join("report")).expect("there is a report");
    let reports: Vec<Report> = serde_json::from_slice(&report).expect("it is JSON");
    let is_well = reports.iter().all(|report| report.wrong.is_empty());
    assert_eq!(status.success(), is_well);
    reports
}

fn directory() -> TempDir {
    // Short, as names of sockets have to be.
    TempDir::with_prefix("chaos-").expect("a directory can be made")
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
        let directory = directory();
        let words = ["--minutes", "0", "--crowds", "2", "--seed", "20260101"];
        let reports = run(&directory, &words).await;
        if reports.iter().any(|report| !report.wrong.is_empty()) {
            println!("kept: {}", directory.keep().display());
        }
        reports
    });
    reports.await
}

impl Report {
    fn assert_well_over_redis(&self, kinds: &[&str], forgetful: &[&str]) {
        let kinds: Vec<_> = kinds.iter().chain(&ORDERS).copied().collect();
        let forgetful: Vec<_> = forgetful.iter().chain(&["DataFlushed"]).copied().collect();
        self.assert_well(&kinds, &forgetful);
    }

    fn assert_well(&self, kinds: &[&str], forgetful: &[&str]) {
        assert_eq!(self.wrong, [""; 0]);
        assert_eq!((self.overlaps, self.violations), (0, 0));
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

#[tokio::test]
async fn who_is_late_tries_to_write_and_is_refused() {
    let refused: u64 = all().await.iter().map(|report| report.refused).sum();
    assert!(refused > 0);
}

/// One fault, during which others come in, so that there is something to be found.
async fn of_cheats(cheat: &str) -> Report {
    of_cheats_over("single", cheat).await
}

async fn of_cheats_over(topology: &str, cheat: &str) -> Report {
    let words = [
        "--minutes",
        "0",
        "--topology",
        topology,
        "--kind",
        "holder-stopped",
        "--cheat",
        cheat,
    ];
    let report = run(&directory(), &words).await.remove(0);
    assert_eq!(report.violations == 0, report.wrong.is_empty());
    report
}

#[tokio::test]
async fn a_crowd_without_locks_is_found_out() {
    let report = of_cheats("no-lock").await;
    assert!(report.overlaps > 0);
    assert!(
        report.wrong[0].starts_with("two at once"),
        "{}",
        report.wrong[0]
    );
}

/// Nobody may have been inside when a lock was deleted.
#[tokio::test]
async fn a_lock_that_anybody_deletes_is_found_out() {
    for _ in 0..TRIES {
        if of_cheats("blind-delete").await.overlaps > 0 {
            return;
        }
    }
    panic!("nothing was found in {TRIES} runs");
}

/// The mistake that was found above is the deletion and nothing else.
#[tokio::test]
async fn the_same_lock_that_only_its_owner_deletes_is_well() {
    let report = of_cheats("own-delete").await;
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!((report.overlaps, report.violations), (0, 0));
    assert!(report.sections >= 3 && report.exclusive == report.sections);
}

#[tokio::test]
async fn readers_without_a_lock_are_found_out() {
    assert!(of_cheats("readers-without-lock").await.overlaps > 0);
}

#[tokio::test]
async fn one_permit_too_many_is_found_out() {
    let report = of_cheats("one-permit-more").await;
    let first = report.wrong.first().map_or("nothing", String::as_str);
    assert!(first.starts_with("too many at once"), "{first}");
    assert_eq!((report.overlaps, report.shared), (0, report.sections));
}

/// A stopped process may have had nothing more to write.
#[tokio::test]
async fn a_resource_that_does_not_look_at_tokens_is_found_out() {
    for _ in 0..TRIES {
        let report = of_cheats("no-fence").await;
        assert_eq!((report.overlaps, report.refused), (0, 0));
        if let Some(first) = report.wrong.first() {
            assert!(first.starts_with("the resource went back"), "{first}");
            return;
        }
    }
    panic!("nothing was found in {TRIES} runs");
}

/// A stopped process may have been outside of a transaction.
#[tokio::test]
async fn transactions_that_do_not_check_their_lease_are_found_out() {
    for _ in 0..TRIES {
        let report = of_cheats_over("postgres", "no-fence").await;
        assert_eq!(report.overlaps, 0);
        let found = report.wrong.iter().find(|it| {
            let what = [
                "two transactions at once",
                "a transaction after one with a greater token",
                "the books do not balance",
            ];
            what.iter().any(|what| it.starts_with(what))
        });
        if found.is_some() {
            return;
        }
        assert_eq!(report.wrong, [""; 0]);
    }
    panic!("nothing was found in {TRIES} runs");
}

#[tokio::test]
async fn transactions_without_a_lock_are_found_out() {
    let report = of_cheats_over("postgres", "no-lock").await;
    assert!(report.overlaps > 0);
    let first = report.wrong.iter().find(|it| it.contains("transaction"));
    assert!(first.is_some(), "{:?}", report.wrong);
}

/// A dead process is inside nothing: it must not be taken for one that waits, and be killed once more.
///
/// Processes that are killed before they come to abort make room for others that do: the run goes on until
/// one of them has.
#[tokio::test]
async fn processes_that_end_by_themselves_are_found_out() {
    let words = [
        "--minutes",
        "5",
        "--topology",
        "single",
        "--kind",
        "waiter-killed",
        "--cheat",
        "panic",
    ];
    let report = run(&directory(), &words).await.remove(0);
    let found = report
        .wrong
        .iter()
        .find(|it| it.contains(" by itself with "));
    let found = found.unwrap_or_else(|| panic!("{:?}", report.wrong));
    assert!(
        found.contains("SIGABRT") && found.contains("nobody looks"),
        "{found}"
    );
    let counts = (report.overlaps, report.violations);
    assert_eq!(counts, (0, 0), "{:?}", report.wrong);
}

/// The processes that are left when the run is killed: servers, workers, and the child between.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_run_that_is_killed_leaves_no_process_behind() {
    let directory = directory();
    let worker = chaos(&directory, &["--topology", "single", "--minutes", "5"]);
    let child = || children(worker.id()).first().copied();
    let mut inner = None;
    eventually(SOON, "servers and workers run", async || {
        inner = child();
        inner.is_some_and(|inner| children(inner).len() >= 5)
    })
    .await;
    let group = inner.expect("it was waited for");
    assert!(members(group).len() >= 6);
    worker.kill();
    eventually(SOON, "none of the group is left", async || {
        members(group).is_empty()
    })
    .await;
}

/// The processes with their parents and groups, but those that have ended.
#[cfg(target_os = "linux")]
fn processes() -> impl Iterator<Item = [u32; 3]> {
    let folders = fs::read_dir("/proc").expect("it can be read").flatten();
    let ids = folders.filter_map(|it| it.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        // One may end while it is looked at. The name in brackets may hold anything.
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        let words: Vec<_> = rest.split(' ').collect();
        let number = |index: usize| words[index].parse().ok();
        (words[0] != "Z").then_some([id, number(1)?, number(2)?])
    })
}

#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<u32> {
    let its = processes().filter(|[_, its, _]| *its == parent);
    its.map(|[id, ..]| id).collect()
}

#[cfg(target_os = "linux")]
fn members(group: u32) -> Vec<u32> {
    let its = processes().filter(|[.., its]| *its == group);
    its.map(|[id, ..]| id).collect()
}
