//! Many leases held at once: what keeping them alive costs.

use std::time::Duration;

use dlock::LockGuard;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::bytes_each;
use crate::Failure;
use crate::arguments::Settings;
use crate::locker::{builder, connect_to_each};
use crate::outcome::count;
use crate::stats::Stats;
use crate::usage::Usage;

/// So many requests are under way at once.
const AT_ONCE: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) n: u32,
    pub(crate) acquire_s: f64,
    pub(crate) kept_s: f64,
    /// The share of one processor that this process used meanwhile.
    pub(crate) cpu_share: f64,
    pub(crate) commands_per_s: f64,
    pub(crate) release_s: f64,
    pub(crate) rss_each: u64,
    pub(crate) lost: usize,
    pub(crate) active: usize,
}

pub(super) async fn run(settings: &Settings) -> Result<Held, Failure> {
    let ttl = Duration::from_secs(settings.ttl_s);
    let manager = builder(settings).ttl(ttl).connect(&settings.url).await?;
    let mut watchers = connect_to_each(&settings.url).await?;
    let (n, key) = (settings.n, &settings.key);

    let (start, empty) = (Instant::now(), Usage::now());
    let guards: Vec<_> = stream::iter(0..n)
        .map(|number| manager.lock(format!("{key}:{number}")).acquire())
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let acquire_s = start.elapsed().as_secs_f64();

    let (held, before) = (Usage::now(), Stats::of_all(&mut watchers).await?);
    let start = Instant::now();
    // A lease is renewed when a third of its TTL has passed: three rounds.
    sleep(ttl).await;
    let kept_s = start.elapsed().as_secs_f64();
    let (later, after) = (Usage::now(), Stats::of_all(&mut watchers).await?);
    let commands = after.since(&before, &["getex", "pexpire"]);
    let processor = later.since(&held).processor();

    let start = Instant::now();
    let kept = stream::iter(guards)
        .map(LockGuard::release)
        .buffer_unordered(AT_ONCE)
        .filter(|released| std::future::ready(released.is_ok()))
        .count()
        .await;
    Ok(Held {
        n,
        acquire_s,
        kept_s,
        cpu_share: processor.as_secs_f64() / kept_s,
        commands_per_s: count(usize::try_from(commands)?) / kept_s,
        release_s: start.elapsed().as_secs_f64(),
        rss_each: bytes_each(empty, later, n),
        lost: usize::try_from(n)? - kept,
        active: manager.active_keys(),
    })
}
