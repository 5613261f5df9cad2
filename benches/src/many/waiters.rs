//! Many tasks that wait for one key: what waiting costs, and how fast they get through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::bytes_each;
use crate::Failure;
use crate::arguments::Settings;
use crate::locker::builder;
use crate::usage::Usage;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiters {
    pub(crate) n: u32,
    pub(crate) through_s: f64,
    pub(crate) rss_each: u64,
    /// Tasks without a section when the time was up.
    pub(crate) left: u32,
    pub(crate) active: usize,
}

pub(super) async fn run(settings: &Settings) -> Result<Waiters, Failure> {
    let manager = builder(settings).connect(&settings.url).await?;
    let held = manager.lock(&*settings.key).acquire().await?;
    let n = settings.n;
    let (asked, through) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));

    let empty = Usage::now();
    let mut tasks = JoinSet::new();
    for _ in 0..n {
        let request = manager.lock(&*settings.key);
        let (asked, through) = (asked.clone(), through.clone());
        tasks.spawn(async move {
            asked.fetch_add(1, Ordering::Relaxed);
            let guard = request.acquire().await?;
            guard.release().await?;
            through.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Failure>(())
        });
    }
    while asked.load(Ordering::Relaxed) < n {
        sleep(Duration::from_millis(5)).await;
    }
    // The holder keeps the lock for all that time, so that all of them wait at once.
    sleep(settings.seconds).await;
    let waiting = Usage::now();

    let start = Instant::now();
    held.release().await?;
    let all = timeout(Duration::from_secs(settings.drain_s), async {
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok::<_, Failure>(())
    });
    // The others are counted.
    all.await.unwrap_or(Ok(()))?;
    Ok(Waiters {
        n,
        through_s: start.elapsed().as_secs_f64(),
        rss_each: bytes_each(empty, waiting, n),
        left: n - through.load(Ordering::Relaxed),
        active: manager.active_keys(),
    })
}
