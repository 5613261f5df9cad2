//! The processes that a run leaves behind when it is killed: none.

use std::{fs, time::Duration};

use dlock_testkit::eventually;

use super::{chaos, directory};

const SOON: Duration = Duration::from_secs(20);

/// The processes that are left when the run is killed: servers, workers, and the child between.
#[tokio::test]
async fn a_run_that_is_killed_leaves_no_process_behind() {
    let directory = directory();
    let worker = chaos(
        directory.path(),
        &["--topology", "single", "--minutes", "5"],
    );
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

fn children(parent: u32) -> Vec<u32> {
    let its = processes().filter(|[_, its, _]| *its == parent);
    its.map(|[id, ..]| id).collect()
}

fn members(group: u32) -> Vec<u32> {
    let its = processes().filter(|[.., its]| *its == group);
    its.map(|[id, ..]| id).collect()
}
