//! Many sessions wait behind one holder: the requests that they send meanwhile.
//!
//! Each second is counted by itself. A waiter asks again when the lease of the holder would have ended as far as it knows, and all
//! of them read that lease at about the same time. So most seconds have no request, and the mean has those of the others.

use std::time::Duration;

use dlock::Wait;
use dlock_testkit::{CountedRequests, ZooKeepers};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{Options, PATIENCE, SESSION, manager};
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Quartiles;

const KEY: &str = "crowd";

/// The steady state: no waiter has sent a request for so long.
const STILL: Duration = Duration::from_secs(3);

pub(super) async fn measure(
    options: &Options,
    servers: &ZooKeepers,
    report: &mut Report,
) -> Result<(), Failure> {
    let holding = manager(&servers.url(SESSION)).await?;
    let held = holding.lock(KEY).acquire().await?;
    let mut counted = Vec::new();
    for server in 0..3 {
        counted.push(CountedRequests::start(servers.port(server)).await);
    }
    let hosts = counted.iter().map(|it| format!("127.0.0.1:{}", it.port()));
    let url = ZooKeepers::url_of(&hosts.collect::<Vec<_>>().join(","), SESSION);
    let mut waiting = JoinSet::new();
    for _ in 0..options.waiters {
        let manager = manager(&url).await?;
        let waiter = manager.lock(KEY).wait(Wait::Forever).acquire();
        waiting.spawn(async move {
            let guard = waiter.await;
            drop(manager);
            guard.map(drop)
        });
    }
    let requests = || -> usize { counted.iter().map(CountedRequests::requests).sum() };
    until_still(requests).await?;
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    second.tick().await;
    let (began, before) = (Instant::now(), requests());
    let (mut last, mut seconds) = (before, Vec::new());
    for _ in 0..options.waits {
        second.tick().await;
        let now = requests();
        seconds.push(as_number(now - last)?);
        last = now;
    }
    let mean = as_number(last - before)? / began.elapsed().as_secs_f64();
    if let Some(ended) = waiting.try_join_next() {
        return Err(format!("a waiter has ended: {ended:?}").into());
    }
    let who = format!("requests a second of {} waiters", options.waiters);
    report.ratio(&who, Quartiles::of(seconds), Some(0.0));
    report.ratio(format!("{who}, mean"), Quartiles::of(vec![mean]), None);
    waiting.shutdown().await;
    held.release().await?;
    holding.shutdown(PATIENCE).await;
    Ok(())
}

async fn until_still(requests: impl Fn() -> usize) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    let (mut last, mut since) = (requests(), Instant::now());
    while since.elapsed() < STILL {
        sleep(STILL / 30).await;
        let now = requests();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if Instant::now() > end {
            return Err("the waiters do not stop sending requests".into());
        }
    }
    Ok(())
}

fn as_number(count: usize) -> Result<f64, Failure> {
    Ok(f64::from(u32::try_from(count)?))
}
