//! The time from the start of the program until a browser has all locks.

use std::time::Instant;

use super::program::Program;
use super::{Options, Quartiles};
use crate::Failure;
use crate::apart::report::Report;

/// A program begins once, so each of them is another process.
const STARTS: u32 = 9;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let (mut times, mut readings) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let program = Program::start(&options.program, url).await?;
        let picture = program.open().await?.picture().await?;
        times.push(begun.elapsed().as_secs_f64());
        if picture.locks != u64::from(options.some) {
            return Err(format!("the first picture has {} locks", picture.locks).into());
        }
        readings.push(f64::from(u32::try_from(picture.took_ms)?) / 1000.0);
    }
    let what = format!("seconds until the first picture of {} locks", options.some);
    report.ratio(&what, Quartiles::of(times), Some(1.0));
    report.ratio("seconds of its reading", Quartiles::of(readings), None);
    Ok(())
}
