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

/// A request more or less at the begin and at the end of the time that is counted.
const ONE_MORE: f64 = 0.2;

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
    let manager = manager(&server.url()).await?;
    let mut waiting = JoinSet::new();
    let mut beats = Vec::new();
    for count in [KEYS, options.waiters.max(KEYS)] {
        for number in waiting.len()..usize::try_from(count)? {
            wait(&mut waiting, &manager, u32::try_from(number)? % KEYS);
        }
        sleep(STILL).await;
        let (a_second, a_beat) = requests(options, server).await?;
        if let Some(ended) = waiting.try_join_next() {
            return Err(format!("a waiter has ended: {ended:?}").into());
        }
        let who = format!("of {count} waiters in one process");
        let mut show = |what: &str, mean| {
            report.ratio(format!("{what} {who}"), Quartiles::of(vec![mean]), None);
        };
        show("requests a second", a_second);
        show("requests a beat", a_beat);
        beats.push(a_beat);
    }
    let added = (beats[1] - beats[0]).max(0.0);
    let who = "requests a beat that waiters add behind the first of each key";
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

/// The requests in a second, and for each keep-alive of the places.
async fn requests(options: &Options, server: &EtcdServer) -> Result<(f64, f64), Failure> {
    let counts = async || {
        let all = server.messages().await;
        let beats = all.get("LeaseKeepAlive").copied().unwrap_or(0);
        (all.values().sum::<u64>(), beats)
    };
    let (began, before) = (Instant::now(), counts().await);
    sleep(Duration::from_secs(options.waits.into())).await;
    let after = counts().await;
    let requests = f64::from(u32::try_from(after.0 - before.0)?);
    let beats = u32::try_from(after.1 - before.1)?;
    if beats == 0 {
        return Err("no lease of the waiters was kept alive; let them wait for longer".into());
    }
    let a_second = requests / began.elapsed().as_secs_f64();
    Ok((a_second, requests / f64::from(beats)))
}
