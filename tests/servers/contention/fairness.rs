//! Fairness: equal tasks get equal shares.

use crate::contention::{
    history::assert_even,
    load::{Crowds, PROCESSES, TASKS, patient},
};

async fn share(handover: bool, sections: usize) -> usize {
    let mut crowds = Crowds::start(&["order:42"]).await;
    for _ in 0..PROCESSES {
        crowds.add(handover, sections, vec![patient("order:42"); TASKS]);
    }
    let history = crowds.run(async |_| ()).await.history;
    history.assert_exclusive();
    history.assert_nobody_was_forgotten();
    let crowded = history.crowded();
    assert_even(&crowded.by_process(), PROCESSES);
    assert_even(&crowded.by_task(), PROCESSES * TASKS);
    history.sections().len() / history.leases()
}

#[tokio::test]
async fn processes_that_hand_leases_over_share_a_key_evenly() {
    let per_lease = share(true, 4000).await;
    assert!(per_lease >= 2, "leases were handed over: {per_lease}");
}

#[tokio::test]
async fn processes_that_do_not_hand_leases_over_share_a_key_evenly() {
    assert_eq!(share(false, 600).await, 1, "each has a lease of its own");
}
