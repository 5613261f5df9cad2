//! Many sections while connections break and a leader is killed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{FencingToken, LockManager};
use dlock_testkit::{Proxy, ZooKeepers, within};
use tokio::{task::JoinSet, time::sleep};

use crate::world::{LIMIT, SESSION, TTL, manager};

const TASKS: usize = 8;
const SECTIONS: usize = 6;
const KEYS: [&str; 2] = ["order:1", "order:2"];

/// The last token of each key, and whether a section runs.
type Seen = Arc<Mutex<HashMap<&'static str, (Option<FencingToken>, bool)>>>;

/// Runs sections until enough have succeeded.
async fn work(manager: LockManager, seen: Seen, number: usize) {
    let mut done = 0;
    while done < SECTIONS {
        let key = KEYS[(number + done) % KEYS.len()];
        let lock = manager.lock(key).wait(Duration::from_secs(10));
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
            sleep(Duration::from_millis(2)).await;
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
    let servers = ZooKeepers::lent().await;
    let proxies = [0, 1, 2].map(|server| Proxy::start(servers.port(server)));
    let hosts: Vec<_> = proxies
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let hosts = format!("{}/contended", hosts.join(","));
    let url = ZooKeepers::url_of(&hosts, SESSION);
    let seen = Seen::default();
    let mut tasks = JoinSet::new();
    let managers = [manager(&url, TTL).await, manager(&url, TTL).await];
    for number in 0..TASKS {
        let manager = managers[number % managers.len()].clone();
        tasks.spawn(work(manager, seen.clone(), number));
    }
    let leader = servers.leader().await;
    // The pace of the faults. They end before the work does, or after it.
    for round in 0..6 {
        sleep(Duration::from_millis(300)).await;
        proxies.iter().for_each(Proxy::cut);
        if round == 2 {
            servers.kill(leader);
        }
    }
    servers.restart(leader).await;
    let all = within(LIMIT, async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    assert!(all.await.is_some(), "not all sections ran");
    for manager in managers {
        manager.shutdown(Duration::from_secs(30)).await;
    }
}
