//! A free key is acquired and released: dlock beside two statements by hand.

use std::time::Instant;

use dlock::LockManager;
use uuid::Uuid;

use super::by_hand::Sent;
use super::{Options, connect, manager};
use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::report::Report;
use crate::apart::rounds::Rounds;

const KEY: &str = "order:42";

pub(super) async fn measure(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let manager = manager(url).await?;
    let client = connect(url).await?;
    let by_hand = [Sent::Whole, Sent::prepared(&client).await?];
    let mut rounds: [Rounds; 3] = Default::default();
    // The first round fills caches.
    for round in 0..=options.rounds {
        let mut all = [of_dlock(&manager, options.sections).await?, vec![], vec![]];
        for (sent, times) in by_hand.iter().zip(&mut all[1..]) {
            let owner = Uuid::new_v4().simple();
            for number in 0..options.sections {
                let owner = format!("{owner}.{number}");
                let begun = Instant::now();
                sent.cycle(&client, KEY, &owner).await?;
                times.push(micros(begun));
            }
        }
        if round > 0 {
            for (rounds, times) in rounds.iter_mut().zip(all) {
                rounds.add(times);
            }
        }
    }
    manager.shutdown(super::PATIENCE).await;
    let [dlock, whole, prepared] = rounds;
    report.time(format!("cycle by dlock, {disk}"), &dlock);
    report.time(format!("cycle by hand, {disk}"), &whole);
    report.time(format!("cycle by hand, prepared, {disk}"), &prepared);
    report.ratio(
        format!("cycle / by hand, {disk}"),
        dlock.ratio(&whole),
        Some(1.15),
    );
    report.ratio(
        format!("cycle / by hand, prepared, {disk}"),
        dlock.ratio(&prepared),
        Some(1.15),
    );
    Ok(())
}

async fn of_dlock(manager: &LockManager, sections: u32) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::new();
    for _ in 0..sections {
        let begun = Instant::now();
        manager.lock(KEY).acquire().await?.release().await?;
        times.push(micros(begun));
    }
    Ok(times)
}

pub(super) fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
