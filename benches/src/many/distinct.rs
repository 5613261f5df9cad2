//! Many keys, one after another: whether anything is kept of those that are over.

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Failure;
use crate::arguments::Settings;
use crate::locker::builder;
use crate::usage::Usage;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Distinct {
    pub(crate) n: u32,
    pub(crate) took_s: f64,
    /// From when a tenth was done until the end.
    pub(crate) rss_growth: u64,
    pub(crate) active: usize,
}

pub(super) async fn run(settings: &Settings) -> Result<Distinct, Failure> {
    let manager = builder(settings).connect(&settings.url).await?;
    let (n, key) = (settings.n, &settings.key);
    let (start, mut early) = (Instant::now(), Usage::now());
    for number in 0..n {
        let guard = manager.lock(format!("{key}:{number}")).acquire().await?;
        guard.release().await?;
        if number == n / 10 {
            early = Usage::now();
        }
    }
    let late = Usage::now();
    Ok(Distinct {
        n,
        took_s: start.elapsed().as_secs_f64(),
        rss_growth: late.resident.saturating_sub(early.resident),
        active: manager.active_keys(),
    })
}
