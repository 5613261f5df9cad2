//! Many sections while connections break and a leader is killed.

use std::{sync::Arc, time::Duration};

use dlock_runtime::Lease;
use dlock_testkit::{Ensemble, Proxy, hosts, within};
use tokio::{sync::watch, task::JoinSet};

use crate::{Process, Resource, Together};

const TASKS: usize = 8;
const SECTIONS: usize = 6;
const ROUNDS: usize = 6;
const KEYS: [&str; 2] = ["order:1", "order:2"];

/// All sections have run by then.
const ALL: Duration = Duration::from_secs(180);

/// The protected resources, and the number of sections that have begun.
#[derive(Default)]
struct Seen {
    resources: [Resource; KEYS.len()],
    begun: watch::Sender<usize>,
}

/// Runs sections of one process until enough have succeeded.
async fn work([process, other]: [Process; 2], seen: Arc<Seen>, number: usize) {
    let mut done = 0;
    while done < SECTIONS {
        let index = (number + done) % KEYS.len();
        let key = KEYS[index];
        let lock = process.lock(key).wait(Duration::from_secs(10));
        let body = async |lease: &Lease| {
            let _inside = seen.resources[index].enter(number % 2, lease.fencing_token());
            seen.begun.send_modify(|count| *count += 1);
            // The section lasts for a question of the other process, if that is answered.
            if let Ok(found) = other.lock(key).try_acquire().await {
                assert!(
                    found.is_none() || lease.ensure_held().is_err(),
                    "broken promise: two hold `{key}`"
                );
            }
        };
        match lock.run(body).await {
            Ok(()) => done += 1,
            Err(error) => assert!(!error.is_lost(), "{error}"),
        }
    }
}

/// Tasks of two processes want two keys while connections are cut and the leader is killed.
pub async fn sections_never_overlap<W: Together>(world: &W) {
    let servers = world.servers();
    let proxies = world.proxies();
    let hosts = hosts(proxies.iter().map(Proxy::port));
    let connect = async || world.connect(&hosts, W::TTL).await;
    let processes = [connect().await, connect().await];
    let seen = Arc::new(Seen::default());
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let both = [0, 1].map(|it: usize| processes[(number + it) % 2].clone());
        tasks.spawn(work(both, seen.clone(), number));
    }
    let leader = servers.leader().await;
    let mut progress = seen.begun.subscribe();
    for round in 0..ROUNDS {
        // Faults come while sections run.
        let begun = progress.wait_for(|count| *count >= (round + 1) * TASKS / 2);
        let go_on = within(W::DEADLINE, begun).await.is_some();
        assert!(go_on, "sections go on");
        proxies.iter().for_each(Proxy::cut);
        if round == 2 {
            servers.kill(leader);
        }
    }
    servers.restart(leader).await;
    let all = within(ALL, tasks.join_all()).await;
    assert!(all.is_some(), "not all sections ran");
    for process in processes {
        process.shutdown(Duration::from_secs(30)).await;
    }
    // Long before their TTL.
    for key in KEYS {
        world.nothing_is_left(key).await;
    }
}
