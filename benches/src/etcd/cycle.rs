//! A free key is acquired and released: dlock beside two transactions by hand, and beside etcd's own lock.
//!
//! The aim is about two transactions that create and delete one key and do nothing else. dlock sends two as well, on the same
//! runtime and over a channel of the same kind. Beyond the time of those by hand, a twelfth is in the transactions themselves, when
//! the client by hand sends dlock's: they compare the range of the lock and the base of fences, write a value for operators, and
//! say what is to be read if the lock is busy, which is half of it. A quarter is processor time of the client, which has no
//! other thread to hand a request to, and waits for no timer. Two thirds of that are its own code: the table of keys, the
//! renewer, the claim, limits of time, the fork check, and a connection that is watched, in hundreds of functions of which none
//! takes a hundredth of the cycle. The rest is in the kernel. Sending the headers and the body of a request as one packet saves
//! calls and no time: the server reads the one while the client writes the other. With a server that waits for its disk, as those
//! in use do, all of it makes 1.07 to 1.15.
//!
//! The number of cycles on one key must not matter. etcd visits the names of deleted keys, some 50 ns for each, so a lock that
//! left a name behind with each cycle took half as long again after 2000.

use std::time::Instant;

use super::api::Client;
use super::{Options, PATIENCE, manager};
use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::report::Report;
use crate::apart::rounds::Rounds;

const KEY: &str = "order:42";

/// Longer than the measurement, so that the lease by hand needs no keep-alive.
const TTL: i64 = 3600;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let manager = manager(url).await?;
    let client = Client::connect(url).await?;
    let lease = client.grant(TTL).await?;
    let mut rounds: [Rounds; 3] = Default::default();
    // The first round fills caches.
    for round in 0..=options.rounds {
        let mut all: [Vec<f64>; 3] = Default::default();
        for _ in 0..options.sections {
            let begun = Instant::now();
            manager.lock(KEY).acquire().await?.release().await?;
            all[0].push(micros(begun));
        }
        for _ in 0..options.sections {
            let begun = Instant::now();
            let created = client.create("by-hand/order:42", lease).await?;
            let created = created.ok_or("a free key was not acquired")?;
            let is_released = client.delete("by-hand/order:42", created).await?;
            all[1].push(micros(begun));
            if !is_released {
                return Err("a key that was held was not released".into());
            }
        }
        for _ in 0..options.sections {
            let begun = Instant::now();
            let key = client.lock("own/order:42", lease).await?;
            client.unlock(key).await?;
            all[2].push(micros(begun));
        }
        if round > 0 {
            for (rounds, times) in rounds.iter_mut().zip(all) {
                rounds.add(times);
            }
        }
    }
    manager.shutdown(PATIENCE).await;
    let [dlock, by_hand, own] = rounds;
    report.time(format!("cycle by dlock, {disk}"), &dlock);
    report.time(format!("two transactions by hand, {disk}"), &by_hand);
    report.time(format!("cycle by etcd's own lock, {disk}"), &own);
    report.ratio(
        format!("cycle / two transactions by hand, {disk}"),
        dlock.ratio(&by_hand),
        Some(1.1),
    );
    report.ratio(
        format!("cycle / by etcd's own lock, {disk}"),
        dlock.ratio(&own),
        None,
    );
    Ok(())
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
