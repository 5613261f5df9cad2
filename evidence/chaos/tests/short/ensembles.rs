//! A short chaos with etcd and with ZooKeeper. It has a crowd of two processes and the faults that only an ensemble has,
//! of which the others take longer than a test may.

use super::{Report, run};

async fn of(topology: &str, words: &[&str]) -> Report {
    let common = ["--minutes", "0", "--processes", "2", "--topology", topology];
    let words = common.iter().chain(words).copied();
    run(&words.collect::<Vec<_>>()).await.remove(0)
}

/// No fault of an ensemble makes it forget a lease: nothing is excused, and the books balance.
async fn is_well(topology: &str, kinds: &[&str]) {
    let words: Vec<_> = kinds.iter().flat_map(|kind| ["--kind", kind]).collect();
    let report = of(topology, &words).await;
    assert_eq!(report.wrong, [""; 0]);
    report.assert_no_violation();
    assert_eq!(report.exclusive, report.sections);
    assert_eq!(report.faults.len(), kinds.len());
    let is_felt = |tally: &super::Tally| tally.count >= 1 && tally.forgetful == 0;
    assert!(report.faults.values().all(is_felt));
    assert!(report.posted > 0);
}

/// The locks are real, but transactions do not check their leases. A process is stopped between the reads and the writes of
/// one, until another process has written to the same account, and then writes: the fault counts only if it has. So there is
/// something to be found in every run.
async fn is_guilty(topology: &str) {
    let words = ["--kind", "holder-stopped", "--cheat", "no-fence"];
    let report = of(topology, &words).await;
    report.assert_no_overlap();
    assert!(report.faults["HolderStopped"].count >= 1);
    let is_found = |it: &String| it.starts_with("two transactions at once");
    assert!(report.wrong.iter().any(is_found), "{:?}", report.wrong);
}

#[tokio::test]
async fn etcd_keeps_its_promises_when_its_leader_is_killed_or_separated() {
    is_well("etcd", &["leader-killed", "leader-isolated"]).await;
}

#[tokio::test]
async fn zookeeper_keeps_its_promises_when_its_leader_is_killed() {
    // Separated servers may choose the one that they cannot reach, for minutes.
    is_well("zookeeper", &["leader-killed"]).await;
}

#[tokio::test]
async fn transactions_of_etcd_that_do_not_compare_are_found_out() {
    is_guilty("etcd").await;
}

#[tokio::test]
async fn transactions_of_zookeeper_that_do_not_check_are_found_out() {
    is_guilty("zookeeper").await;
}
