//! A free key is acquired and released beside an open page, and without one.

use std::time::{Duration, Instant};

use dlock::LockManager;
use tokio::time::sleep;

use super::Options;
use super::program::Program;
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Rounds;

const KEY: &str = "free";

/// The page goes on reading for five seconds after its last browser has left.
const LINGER: Duration = Duration::from_secs(6);

pub(super) async fn measure(
    options: &Options,
    url: &str,
    manager: &LockManager,
    report: &mut Report,
) -> Result<(), Failure> {
    let program = Program::start(&options.program, url).await?;
    let span = Duration::from_secs(options.seconds.into());
    let [mut alone, mut beside]: [Rounds; 2] = Default::default();
    // The first round fills caches.
    for round in 0..=options.rounds {
        let without = cycles(manager, span).await?;
        let mut browser = program.open().await?;
        browser.picture().await?;
        // Its events are read as they come.
        let reading = tokio::spawn(async move {
            loop {
                if let Err(error) = browser.picture().await {
                    return error.to_string();
                }
            }
        });
        let with = cycles(manager, span).await?;
        if reading.is_finished() {
            return Err(reading.await?.into());
        }
        reading.abort();
        sleep(LINGER).await;
        if round > 0 {
            alone.add(without);
            beside.add(with);
        }
    }
    report.time("cycle without a page", &alone);
    report.time("cycle beside an open page", &beside);
    report.ratio(
        "cycle beside an open page / without",
        beside.ratio(&alone),
        Some(1.03),
    );
    Ok(())
}

/// The times of cycles, in µs.
async fn cycles(manager: &LockManager, span: Duration) -> Result<Vec<f64>, Failure> {
    let (mut times, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < span {
        let begun = Instant::now();
        manager.lock(KEY).acquire().await?.release().await?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}
