//! The measuring loop: tasks that take a lock and give it back, and the clock beside them.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::arguments::{Keys, Mode, Settings};
use crate::clock::{self, nanos, now};
use crate::locker::Locker;
use crate::outcome::{self, Outcome, Record, Section};
use crate::usage::Usage;

/// Between the start of the tasks and that of the measurement, if nothing is said of it.
const HEAD_START: u64 = 20_000_000;

/// Takes one lock, says so, and gives it back after a while.
pub(crate) async fn hold<L: Locker>(settings: &Settings, locker: L) -> Result<(), Failure> {
    let held = locker.acquire(&settings.key).await?;
    {
        let mut out = io::stdout().lock();
        writeln!(out, "HELD")?;
        out.flush()?;
    }
    sleep(settings.seconds).await;
    let releasing = now();
    locker.release(held).await?;
    let line = json!({ "peer": settings.peer.shown, "mode": "hold", "rel_ns": releasing });
    println!("{line}");
    Ok(())
}

/// Lets the tasks run, and prints what came out.
pub(crate) async fn bench<L: Locker>(settings: &Settings, locker: L) -> Result<(), Failure> {
    // The first request also connects and loads scripts, and is not measured.
    let warm_up = format!("{}:{}:warm", settings.key, std::process::id());
    locker.release(locker.acquire(&warm_up).await?).await?;

    let start = match settings.start_ns {
        0 => now() + HEAD_START,
        told => told,
    };
    let end = start + nanos(settings.seconds);
    let plan = Plan {
        start,
        end,
        hold: Duration::from_micros(settings.hold_us),
        think: settings.think_us * 1000,
        once: settings.mode == Mode::Wait,
    };
    let distinct = settings.keys == Keys::Distinct;
    let records: Vec<Arc<Mutex<Record>>> = (0..settings.tasks).map(|_| Arc::default()).collect();
    let mut tasks = JoinSet::new();
    for (index, record) in records.iter().enumerate() {
        let key = if distinct {
            format!("{}:{index}", settings.key)
        } else {
            settings.key.clone()
        };
        let (locker, record) = (locker.clone(), record.clone());
        tasks.spawn(plan.task(locker, key, record));
    }
    clock::until(start).await;
    let before = Usage::now();
    let left = Duration::from_nanos(end.saturating_sub(now()));
    let drained = timeout(left + Duration::from_secs(settings.drain_s), async {
        while let Some(ended) = tasks.join_next().await {
            ended?;
        }
        Ok::<_, Failure>(())
    });
    let drained = drained
        .await
        .map_or(Ok(false), |ended| ended.map(|()| true))?;
    let used = Usage::now().since(&before);

    let records: Vec<_> = records.iter().map(|it| mem::take(&mut *lock(it))).collect();
    let mut outcome = Outcome {
        peer: settings.peer.shown.clone(),
        tasks: records.len(),
        distinct,
        handover: settings.handover.to_string(),
        hold_us: settings.hold_us,
        elapsed_s: settings.seconds.as_secs_f64(),
        drained,
        cpu_user_s: used.user.as_secs_f64(),
        cpu_sys_s: used.system.as_secs_f64(),
        ..Outcome::default()
    };
    outcome.count(&records, end);
    if let Some(path) = &settings.log {
        outcome::log(path, &records).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    outcome.print()
}

/// The loop of every task.
#[derive(Clone, Copy)]
struct Plan {
    start: u64,
    end: u64,
    hold: Duration,
    think: u64,
    /// One section, however long the wait for it is.
    once: bool,
}

impl Plan {
    async fn task<L: Locker>(self, locker: L, key: String, record: Arc<Mutex<Record>>) {
        clock::until(self.start).await;
        loop {
            let waited_from = now();
            if waited_from >= self.end && !self.once {
                return;
            }
            lock(&record).waiting_since = Some(waited_from);
            let Some(held) = self.acquire(&locker, &key, &record).await else {
                return;
            };
            let acquired = now();
            let counts = self.once || acquired < self.end;
            if counts && !self.hold.is_zero() {
                sleep(self.hold).await;
            }
            let releasing = now();
            let released = locker.release(held).await;
            let section = Section {
                waited_from,
                acquired,
                releasing,
                released: now(),
            };
            {
                let mut noted = lock(&record);
                if let Err(failure) = released {
                    note(&mut noted, &failure);
                }
                if !counts {
                    return;
                }
                noted.waiting_since = None;
                noted.sections.push(section);
            }
            if self.once {
                return;
            }
            clock::until(section.released + self.think).await;
        }
    }

    /// Asks until it has the lock; `None` if the time was up and it had only failed.
    async fn acquire<L: Locker>(
        self,
        locker: &L,
        key: &str,
        record: &Mutex<Record>,
    ) -> Option<L::Held> {
        loop {
            match locker.acquire(key).await {
                Ok(held) => return Some(held),
                Err(failure) => note(&mut lock(record), &failure),
            }
            if now() >= self.end && !self.once {
                return None;
            }
            // One that fails at once must not keep the others from running.
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn note(record: &mut Record, failure: &Failure) {
    record.failed += 1;
    record.last_failure = Some(failure.to_string());
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
