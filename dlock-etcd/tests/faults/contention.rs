//! Many sections while connections break and a leader is killed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{FencingToken, LockManager};
use dlock_testkit::{EtcdEnsemble, Proxy, eventually, within};
use tokio::{sync::watch, task::JoinSet};

use crate::world::{DEADLINE, TTL, connect};

const TASKS: usize = 8;
const SECTIONS: usize = 6;
const KEYS: [&str; 2] = ["order:1", "order:2"];

/// The last token of each key, and whether a section runs.
type Seen = Arc<Mutex<HashMap<&'static str, (Option<FencingToken>, bool)>>>;

/// Runs sections until enough have succeeded. `begun` counts those of all tasks.
async fn work(
    (manager, other): (LockManager, LockManager),
    seen: Seen,
    begun: Arc<watch::Sender<usize>>,
    number: usize,
) {
    let mut done = 0;
    while done < SECTIONS {
        let key = KEYS[(number + done) % KEYS.len()];
        let lock = manager.lock(key).ttl(TTL).wait(Duration::from_secs(10));
        let body = async |lease: &dlock::Lease| {
            let token = lease.fencing_token();
            {
                let mut seen = seen.lock().unwrap();
                let (last, is_running) = seen.entry(key).or_default();
                assert!(
                    !*is_running,
                    "broken promise: two sections of `{key}` at once"
                );
                assert!(
                    last.is_none_or(|last| last < token),
                    "broken promise: the token did not grow: {last:?} before {token:?}"
                );
                (*last, *is_running) = (Some(token), true);
            }
            begun.send_modify(|count| *count += 1);
            // The section lasts for a question of the other process, if that is answered.
            if let Ok(found) = other.lock(key).try_acquire().await {
                assert!(
                    found.is_none() || lease.ensure_held().is_err(),
                    "broken promise: two hold `{key}`"
                );
            }
            seen.lock().unwrap().get_mut(key).unwrap().1 = false;
        };
        match lock.run(body).await {
            Ok(()) => done += 1,
            Err(error) => assert!(!error.is_lost(), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_never_overlap_while_connections_break_and_a_leader_is_killed() {
    let ensemble = EtcdEnsemble::start().await;
    let proxies: Vec<_> = ensemble
        .members()
        .iter()
        .map(|it| Proxy::start(it.port()))
        .collect();
    let hosts: Vec<_> = proxies
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let url = format!("etcd://{}", hosts.join(","));
    let (seen, begun) = (Seen::default(), Arc::new(watch::Sender::new(0)));
    let mut tasks = JoinSet::new();
    let managers = [connect(&url).await, connect(&url).await];
    for number in 0..TASKS {
        let both = [0, 1].map(|index: usize| managers[(number + index) % 2].clone());
        tasks.spawn(work(both.into(), seen.clone(), begun.clone(), number));
    }
    let leader = ensemble.leader().await;
    let mut progress = begun.subscribe();
    for round in 0..6 {
        // Faults come while sections run.
        let begun = progress.wait_for(|count| *count >= (round + 1) * TASKS / 2);
        assert!(within(DEADLINE, begun).await.is_some(), "sections go on");
        proxies.iter().for_each(Proxy::cut);
        if round == 2 {
            ensemble.members()[leader].kill();
        }
    }
    ensemble.members()[leader].restart().await;
    let all = within(Duration::from_secs(180), async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    assert!(all.await.is_some(), "not all sections ran");
    for manager in managers {
        manager.shutdown(Duration::from_secs(30)).await;
    }
    // Long before their TTL.
    eventually(DEADLINE, "no claim is left", async || {
        let left = ensemble.members()[leader].keys("dlock/order:").await;
        left.is_empty()
    })
    .await;
}
