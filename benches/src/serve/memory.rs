//! The memory of the program with many locks and many browsers.
//!
//! It is greatest while a picture is read and the one before is still shown, so several have to be read. With 100,000 locks
//! each takes about a minute, as the page leaves 95 % of its time to the server.

use tokio::task::JoinSet;

use super::program::Program;
use super::{Options, Quartiles, one};
use crate::Failure;
use crate::apart::report::Report;

/// The pictures that each browser gets.
const PICTURES: usize = 3;

/// The greatest memory that reaches the aim, in MiB.
const MOST: f64 = 50.0;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    locks: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let program = Program::start(&options.program, url).await?;
    let [begun, _] = program.memory()?;
    let mut browsers = JoinSet::new();
    for _ in 0..options.browsers {
        let mut browser = program.open().await?;
        browsers.spawn(async move {
            let (mut last, mut readings) = (String::new(), Vec::new());
            for _ in 0..PICTURES {
                let picture = browser.after(&last).await?;
                if usize::try_from(picture.locks)? != locks {
                    return Err(format!("a picture has {} locks", picture.locks).into());
                }
                last = picture.taken;
                readings.push(f64::from(u32::try_from(picture.took_ms)?) / 1000.0);
            }
            // The connection stays open.
            Ok::<_, Failure>((readings, browser))
        });
    }
    let (mut readings, mut open) = (Vec::new(), Vec::new());
    while let Some(read) = browsers.join_next().await {
        let (times, browser) = read??;
        readings.extend(times);
        open.push(browser);
    }
    let [now, most] = program.memory()?;
    let what = format!("{locks} locks and {} browsers", open.len());
    report.ratio(format!("MiB at most with {what}"), one(most), Some(MOST));
    report.ratio("MiB after the last picture", one(now), None);
    report.ratio("MiB before the first request", one(begun), None);
    report.ratio("seconds of a reading", Quartiles::of(readings), None);
    Ok(())
}
