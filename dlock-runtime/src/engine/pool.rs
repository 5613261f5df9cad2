//! Finds a body whose runtime has no thread left for blocking work, because these threads wait for the body's lock.
//!
//! `tokio::fs` and `spawn_blocking` need a thread of that pool. If each of its threads waits for a lock that an async body of the
//! same runtime holds, a body that needs one as well goes on when their waits end. tokio does not tell how many threads are
//! busy. A thread that waits therefore gives an empty job to its own pool, and looks later whether it has begun.

use std::{
    mem,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle};

use crate::clock::Moment;

/// The time after which a thread that waits looks at its pool, and after which a pool that has begun no job is full.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// The job that shows whether the pool of a body's runtime has a thread left. Each body has one at a time.
#[derive(Default)]
pub(crate) struct PoolProbe(Mutex<Option<Sent>>);

struct Sent {
    job: JoinHandle<()>,
    at: Moment,
    is_told: bool,
}

impl PoolProbe {
    /// Returns for how long `pool` has begun no job, once for each time when it is full.
    pub(super) fn look(&self, pool: &Handle, now: Moment) -> Option<Duration> {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = sent.as_mut().filter(|sent| !sent.job.is_finished()) {
            let since = sent.at.elapsed(now);
            let is_full = since >= LONG && !mem::replace(&mut sent.is_told, true);
            return is_full.then_some(since);
        }
        *sent = Some(Sent {
            job: pool.spawn_blocking(|| ()),
            at: now,
            is_told: false,
        });
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use dlock_testkit::eventually;
    use tokio::runtime::Builder;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_pool_is_full_when_it_has_begun_no_job_for_long_and_is_told_of_once() {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).max_blocking_threads(1);
        let runtime = builder.enable_all().build().unwrap();
        let (pool, probe) = (runtime.handle(), PoolProbe::default());
        let begin = SystemClock.now();
        let mut seconds = 0;
        let mut look = || {
            seconds += 1;
            probe.look(pool, begin.plus(LONG * seconds))
        };
        let is_answered = || {
            let sent = probe.0.lock().unwrap();
            sent.as_ref().is_some_and(|sent| sent.job.is_finished())
        };
        for _ in 0..2 {
            let (end, ends) = mpsc::channel::<()>();
            let busy = pool.spawn_blocking(move || ends.recv().is_err());
            assert_eq!(look(), None, "the job was given to it just now");
            assert_eq!(look(), Some(LONG));
            assert_eq!([look(), look()], [None; 2]);
            drop(end);
            assert!(runtime.block_on(busy).unwrap());
            // It has a thread: however late the next look, it is not full.
            for _ in 0..2 {
                runtime.block_on(eventually(LIMIT, "the job begins", async || is_answered()));
                assert_eq!(look(), None);
            }
            runtime.block_on(eventually(LIMIT, "the job begins", async || is_answered()));
        }
    }
}
