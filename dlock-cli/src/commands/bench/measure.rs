//! The measurements. Each one runs for some time and records the duration of every operation.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use dlock::LockManager;
use dlock_admin::{Inspect, ServerReport};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::exit::{Exit, Failure};

/// Long enough that no lease is renewed, and short enough to expire soon if this process is killed.
const TTL: Duration = Duration::from_secs(10);

/// Longer than any wait in a measurement.
const WAIT: Duration = Duration::from_secs(30);

/// The limits of reports, each of which contains some PINGs and much else.
const QUESTIONS: usize = 20;
const QUESTIONED: Duration = Duration::from_secs(3);

/// One measurement.
pub(super) struct Measured {
    /// The name in JSON.
    pub(super) id: &'static str,
    pub(super) what: String,
    /// In nanoseconds.
    pub(super) times: Histogram<u64>,
    /// The number of operations per second, if it was measured.
    pub(super) per_second: Option<f64>,
}

/// Measures the round trips of PINGs. For a quorum they are those of the server that completes the majority.
pub(super) async fn pings(
    inspector: &dyn Inspect,
    is_quorum: bool,
    time: Duration,
) -> Result<Measured, Failure> {
    let end = Instant::now() + time.min(QUESTIONED);
    let mut servers: Vec<Histogram<u64>> = Vec::new();
    for _ in 0..QUESTIONS {
        let reports = inspector.servers().await;
        for (index, report) in reports.iter().filter(|it| takes_locks(it)).enumerate() {
            if servers.len() == index {
                servers.push(histogram());
            }
            for &round_trip in &report.round_trips {
                record(&mut servers[index], round_trip);
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    servers.retain(|it| !it.is_empty());
    servers.sort_by_key(|it| it.value_at_quantile(0.5));
    let deciding = if is_quorum {
        servers.get(servers.len() / 2).cloned()
    } else {
        servers.into_iter().reduce(joined)
    };
    let times = deciding.ok_or_else(|| {
        Failure::new(
            Exit::Unavailable,
            "no server answered a PING. Run `dlock doctor` for details",
        )
    })?;
    Ok(Measured {
        id: "ping",
        what: "PING".to_owned(),
        times,
        per_second: None,
    })
}

fn takes_locks(server: &ServerReport) -> bool {
    let told = |name: &str| server.info.get(name).map(String::as_str);
    told("role") != Some("slave") && told("redis_mode") != Some("sentinel")
}

/// Measures acquire and release of an uncontended lock in each task.
pub(super) async fn apart(
    manager: &LockManager,
    key: &str,
    tasks: u32,
    time: Duration,
) -> Result<Measured, Failure> {
    let keys: Vec<_> = (0..tasks).map(|task| format!("{key}:{task}")).collect();
    let (id, what) = match tasks {
        1 => ("one_task", "acquire and release, 1 task".to_owned()),
        _ => ("tasks_apart", format!("{tasks} tasks, one lock each")),
    };
    loops(id, what, manager, keys, time).await
}

/// Measures acquire and release of one lock that all tasks compete for.
pub(super) async fn together(
    manager: &LockManager,
    key: &str,
    tasks: u32,
    time: Duration,
) -> Result<Measured, Failure> {
    let keys = (0..tasks).map(|_| key.to_owned()).collect();
    let what = format!("{tasks} tasks, the same lock");
    loops("tasks_together", what, manager, keys, time).await
}

async fn loops(
    id: &'static str,
    what: String,
    manager: &LockManager,
    keys: Vec<String>,
    time: Duration,
) -> Result<Measured, Failure> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for key in keys {
        let manager = manager.clone();
        tasks.spawn(async move {
            let mut times = histogram();
            // Once at least, also on a machine that does not let this task begin in time.
            loop {
                let before = Instant::now();
                let guard = manager
                    .lock(key.as_str())
                    .ttl(TTL)
                    .wait(WAIT)
                    .acquire()
                    .await?;
                guard.release().await?;
                record(&mut times, before.elapsed());
                if start.elapsed() >= time {
                    return Ok(times);
                }
            }
        });
    }
    let times = all(tasks).await?;
    Ok(Measured {
        id,
        what,
        per_second: Some(rate(times.len(), start.elapsed())),
        times,
    })
}

/// Measures the time from the release in one process until a waiter in another process holds the lock.
pub(super) async fn hand_over(
    one: &LockManager,
    other: &LockManager,
    key: &str,
    time: Duration,
) -> Result<Measured, Failure> {
    let start = Instant::now();
    // The task that released last, and when.
    let left: Arc<Mutex<Option<(usize, Instant)>>> = Arc::default();
    let mut tasks = JoinSet::new();
    for (process, manager) in [one, other].into_iter().enumerate() {
        let (manager, left, key) = (manager.clone(), Arc::clone(&left), key.to_owned());
        tasks.spawn(async move {
            let mut times = histogram();
            // Once at least: the later one of the two measures a grant.
            loop {
                let guard = manager
                    .lock(key.as_str())
                    .ttl(TTL)
                    .wait(WAIT)
                    .acquire()
                    .await?;
                let now = Instant::now();
                let last = *left.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, at)) = last.filter(|&(before, _)| before != process) {
                    record(&mut times, now.duration_since(at));
                }
                let leaving = Some((process, Instant::now()));
                *left.lock().unwrap_or_else(PoisonError::into_inner) = leaving;
                guard.release().await?;
                if start.elapsed() >= time {
                    return Ok(times);
                }
            }
        });
    }
    let times = all(tasks).await?;
    Ok(Measured {
        id: "hand_over",
        what: "grant to another process".to_owned(),
        per_second: Some(rate(times.len(), start.elapsed())),
        times,
    })
}

/// Merges the measurements of all tasks. If one task fails, the others are aborted.
async fn all(
    mut tasks: JoinSet<Result<Histogram<u64>, Failure>>,
) -> Result<Histogram<u64>, Failure> {
    let mut times = histogram();
    while let Some(ended) = tasks.join_next().await {
        let of_task = ended.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        times = joined(times, of_task?);
    }
    Ok(times)
}

fn histogram() -> Histogram<u64> {
    /// One hour, in nanoseconds.
    const LONGEST: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order")
}

fn record(times: &mut Histogram<u64>, time: Duration) {
    times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

fn joined(mut one: Histogram<u64>, other: Histogram<u64>) -> Histogram<u64> {
    one.add(other).expect("all have the same bounds");
    one
}

#[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
