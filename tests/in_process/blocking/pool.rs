//! A blocking pool whose threads all wait for one lock.

use std::time::Duration;

use dlock::{LockError, Wait};
use tokio::runtime::{Builder, Runtime};

use super::{memory, until};
use crate::common::Log;

const WARNING: &str = "no thread is left in the blocking pool of the holder's runtime";

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(1).max_blocking_threads(2);
    builder.enable_all().build().unwrap()
}

#[test]
fn a_body_that_needs_a_thread_of_the_pool_that_waits_for_it_is_warned_of() {
    let (_store, locks) = memory();
    let (log, _capturing) = Log::capture();
    let waits = |key: &'static str, log: &Log, wait: Wait| {
        let (lock, log) = (locks.lock(key).wait(wait), log.clone());
        move || {
            let _capturing = tracing::subscriber::set_default(log);
            lock.acquire()?.release()
        }
    };
    // The pool of another runtime than that of the holder is as full, and hinders no holder.
    let (others_log, other) = (Log::default(), runtime());
    let (runtime, manager) = (runtime(), locks.manager());
    let [held, elsewhere] = ["held", "elsewhere"].map(|key| {
        let guard = runtime.block_on(manager.lock(key).acquire());
        guard.unwrap()
    });
    let nine = Wait::For(Duration::from_secs(9));
    let others = [(); 2].map(|()| other.spawn_blocking(waits("elsewhere", &others_log, nine)));
    let waiters = [(); 2].map(|()| runtime.spawn_blocking(waits("held", &log, Wait::Forever)));
    let work = runtime.spawn_blocking(|| ());
    until(|| log.text().contains(WARNING));
    assert!(!work.is_finished());
    runtime.block_on(async {
        held.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap().unwrap();
        }
        work.await.unwrap();
    });
    for refused in others {
        let refused = other.block_on(refused).unwrap();
        assert!(
            matches!(refused, Err(LockError::Busy { .. })),
            "{refused:?}"
        );
    }
    assert!(
        !others_log.text().contains(WARNING),
        "{}",
        others_log.text()
    );
    runtime.block_on(elsewhere.release()).unwrap();
}
