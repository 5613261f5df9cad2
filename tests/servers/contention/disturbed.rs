//! A crowd that is disturbed while it runs: connections break, processes stand still, one is killed.

use std::time::Duration;

use dlock_testkit::{Proxy, eventually};
use tokio::time::sleep;

use crate::common::{Env, LIMIT};
use crate::contention::{
    load::{Crowds, patient},
    worker::Member,
};

const PROCESSES: usize = 4;

/// Takes part to its end; the last one is killed before.
const SURVIVORS: usize = PROCESSES - 1;

#[tokio::test]
async fn a_disturbed_crowd_is_never_two_at_once() {
    let mut crowds = Crowds::start(&["order:42"]).await;
    let port = crowds.env.server.port();
    let proxies: Vec<_> = (0..PROCESSES).map(|_| Proxy::start(port)).collect();
    let member = Member {
        // What the killed one leaves is to end soon.
        ttl: Duration::from_secs(2),
        ..patient("order:42")
    };
    for (process, proxy) in proxies.iter().enumerate() {
        let sections = if process < SURVIVORS {
            2500
        } else {
            usize::MAX
        };
        crowds.add_frail(proxy.url(), sections, vec![member.clone(); 8]);
    }
    crowds.gather().await;
    crowds.begin().await;
    for round in 0..12 {
        // The time between two faults, and how long a process stands still.
        let some = Duration::from_millis(20 + round * 11 % 60);
        sleep(some).await;
        let process = usize::try_from(round).unwrap() % SURVIVORS;
        match round % 4 {
            0 => proxies[process].cut(),
            1 => proxies[process].cut_before_reply_to("order:42"),
            2 => proxies[process].cut_before_request("order:42"),
            // The first time for longer than a lease.
            _ => {
                let worker = crowds.worker(SURVIVORS);
                worker.pause();
                sleep(some * if round == 3 { 60 } else { 1 }).await;
                worker.resume();
            }
        }
    }
    eventually(LIMIT, "the last process has had a turn", async || {
        crowds.history().by_process().contains_key(&SURVIVORS)
    })
    .await;
    crowds.worker(SURVIVORS).kill();
    let until_then = crowds.history().sections().len();
    crowds.join(0..SURVIVORS).await;
    let history = crowds.history();
    history.assert_exclusive();
    println!("{until_then} of {} sections", history.sections().len());
    let by_process = history.by_process();
    assert_eq!(by_process.len(), PROCESSES, "{by_process:?}");
    eventually(LIMIT, "what the killed process had is gone", async || {
        crowds.env.locks().await.is_empty()
    })
    .await;
}
