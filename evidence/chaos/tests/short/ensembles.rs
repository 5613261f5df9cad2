//! A short chaos with etcd and with ZooKeeper. It has a crowd of two processes and the faults that only an ensemble has,
//! of which the others take longer than a test may.

use super::{Report, directory, run};

async fn of(topology: &str, words: &[&str]) -> Report {
    let common = ["--minutes", "0", "--processes", "2", "--topology", topology];
    let words = common.iter().chain(words).copied();
    run(&directory(), &words.collect::<Vec<_>>())
        .await
        .remove(0)
}

/// No fault of an ensemble makes it forget a lease: nothing is excused, and the books balance.
async fn is_well(topology: &str, kinds: &[&str]) {
    let words: Vec<_> = kinds.iter().flat_map(|kind| ["--kind", kind]).collect();
    let report = of(topology, &words).await;
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!((report.overlaps, report.violations), (0, 0));
    assert_eq!(report.exclusive, report.sections);
    assert_eq!(report.faults.len(), kinds.len());
    let is_felt = |tally: &super::Tally| tally.count >= 1 && tally.forgetful == 0;
    assert!(report.faults.values().all(is_felt));
    assert!(report.posted > 0);
}

/// The locks are real, but transactions do not check their leases. A stopped process may have been outside of one.
async fn is_guilty(topology: &str) {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let words = ["--kind", "holder-stopped", "--cheat", "no-fence"];
        let report = of(topology, &words).await;
        assert_eq!(report.overlaps, 0);
        assert_eq!(report.violations == 0, report.wrong.is_empty());
        let is_found = |it: &String| it.contains("transaction") || it.contains("the books");
        if report.wrong.iter().any(is_found) {
            return;
        }
        assert_eq!(report.wrong, [""; 0]);
    }
    panic!("nothing was found in {TRIES} runs");
}

#[tokio::test]
async fn etcd_keeps_its_promises_when_its_leader_is_killed_or_separated() {
    is_well("etcd", &["leader-killed", "leader-isolated"]).await;
}

#[tokio::test]
async fn zookeeper_keeps_its_promises_when_its_leader_is_killed() {
    // Separated servers take longer to choose another one.
    is_well("zookeeper", &["leader-killed"]).await;
}

#[tokio::test]
#[ignore = "it may need several runs of ten seconds"]
async fn transactions_of_etcd_that_do_not_compare_are_found_out() {
    is_guilty("etcd").await;
}

#[tokio::test]
#[ignore = "it may need several runs of ten seconds"]
async fn transactions_of_zookeeper_that_do_not_check_are_found_out() {
    is_guilty("zookeeper").await;
}
