//! Many waiters of one process behind one holder: the requests that they send meanwhile.
//!
//! All places of a process have one lease of etcd. It is kept alive, and the queues are read, every 1.5 s, however many wait.

use std::time::Duration;

use dlock::{LockManager, Wait};
use dlock_testkit::EtcdServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Options, PATIENCE, manager};
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Quartiles;

/// The keys that are waited for.
const KEYS: u32 = 10;

/// Longer than the measurement, so that the holder sends nothing for it.
const TTL: Duration = Duration::from_secs(3600);

/// After so long, each waiter has its place, and has asked for the lease of the holder.
const STILL: Duration = Duration::from_secs(3);

/// A request more or less in the time that is counted.
const ONE_MORE: f64 = 0.1;

pub(super) async fn measure(
    options: &Options,
    server: &EtcdServer,
    report: &mut Report,
) -> Result<(), Failure> {
    let holding = manager(&server.url()).await?;
    let mut held = Vec::new();
    for number in 0..KEYS {
        held.push(holding.lock(key(number)).ttl(TTL).acquire().await?);
    }
    let idle = requests_a_second(options, server).await?;
    let manager = manager(&server.url()).await?;
    let mut waiting = JoinSet::new();
    let mut means = Vec::new();
    for count in [KEYS, options.waiters.max(KEYS)] {
        for number in waiting.len()..usize::try_from(count)? {
            wait(&mut waiting, &manager, u32::try_from(number)? % KEYS);
        }
        sleep(STILL).await;
        let mean = requests_a_second(options, server).await? - idle;
        if let Some(ended) = waiting.try_join_next() {
            return Err(format!("a waiter has ended: {ended:?}").into());
        }
        let who = format!("requests a second of {count} waiters in one process");
        report.ratio(who, Quartiles::of(vec![mean]), None);
        means.push(mean);
    }
    let added = (means[1] - means[0]).max(0.0);
    let who = "requests a second that waiters add behind the first of each key";
    report.ratio(who, Quartiles::of(vec![added]), Some(ONE_MORE));
    waiting.shutdown().await;
    for guard in held {
        guard.release().await?;
    }
    manager.shutdown(PATIENCE).await;
    holding.shutdown(PATIENCE).await;
    Ok(())
}

fn key(number: u32) -> String {
    format!("crowd:{number}")
}

fn wait(waiting: &mut JoinSet<Result<(), dlock::LockError>>, manager: &LockManager, number: u32) {
    let waiter = manager.lock(key(number)).wait(Wait::Forever).acquire();
    waiting.spawn(async move { waiter.await.map(drop) });
}

async fn requests_a_second(options: &Options, server: &EtcdServer) -> Result<f64, Failure> {
    let requests = async || server.messages().await.values().sum::<u64>();
    let (began, before) = (Instant::now(), requests().await);
    sleep(Duration::from_secs(options.waits.into())).await;
    let count = u32::try_from(requests().await - before)?;
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}
