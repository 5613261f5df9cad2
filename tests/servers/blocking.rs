//! Threads without a runtime, over a real server.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use dlock::{LockError, LockManager, distributed_lock};
use dlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use crate::common::builder;

/// Much longer than anything here takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The server, and the runtime of its tests. The code under test has none.
fn server() -> (Runtime, RedisServer) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(RedisServer::start());
    (runtime, server)
}

fn manager(server: &RedisServer) -> LockManager {
    // Long enough for a machine that stands still for a second.
    let builder = builder().ttl(Duration::from_secs(5));
    builder.connect_blocking(server.url()).unwrap()
}

#[distributed_lock(key = "stock:<id>", manager = locks, wait = LIMIT, on_lost = finish)]
fn sell(locks: &LockManager, id: u32, stock: &Cell<u32>) -> Result<u32, LockError> {
    stock.set(stock.get() - 1);
    Ok(stock.get())
}

#[test]
fn managers_of_several_programs_exclude_each_other() {
    let (runtime, server) = server();
    let [one, other] = [manager(&server), manager(&server)];
    let held = one.blocking().lock("stock:42").acquire().unwrap();
    assert!(
        other
            .blocking()
            .lock("stock:42")
            .try_acquire()
            .unwrap()
            .is_none(),
        "broken promise: two hold the key"
    );
    let sold = thread::scope(|scope| {
        let waits = scope.spawn(|| sell(&other, 42, &Cell::new(10)));
        let begun = Instant::now();
        while other.active_keys() == 0 {
            assert!(begun.elapsed() < LIMIT);
            thread::yield_now();
        }
        held.release().unwrap();
        waits.join().unwrap()
    });
    assert_eq!(sold.unwrap(), 9);
    drop(one.blocking().lock("stock:42").acquire().unwrap());
    let left = runtime.block_on(server.keys("dlock:{*"));
    assert!(
        left.is_empty(),
        "a dropped guard has given its lock back: {left:?}"
    );
}

#[test]
fn a_thread_that_blocks_is_renewed() {
    let (_runtime, server) = server();
    let kept = manager(&server).blocking().lock("order:42").run(|lease| {
        // Seen twice, so that more than a TTL has passed since the first request.
        let (begun, mut renewals, mut last) = (Instant::now(), 0, lease.remaining());
        while renewals < 4 {
            assert!(begun.elapsed() < LIMIT, "{renewals} renewals");
            let remaining = lease.remaining();
            renewals += u32::from(remaining > last);
            last = remaining;
            thread::sleep(Duration::from_millis(5));
        }
        lease.ensure_held()
    });
    kept.unwrap().unwrap();
}

#[test]
fn without_the_server_a_call_ends_within_its_wait() {
    let (_runtime, server) = server();
    let locks = manager(&server).blocking();
    server.kill();
    let lock = locks.lock("order:42").wait(Duration::from_millis(200));
    let error = lock.acquire().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let refused = LockManager::builder()
        .connect_timeout(Duration::from_millis(200))
        .connect_blocking(server.url());
    assert!(refused.is_err());
}

#[test]
fn a_lease_that_another_client_deletes_is_lost_behind_the_body() {
    let (runtime, server) = server();
    let lost = manager(&server).blocking().lock("order:42").run(|_| {
        runtime.block_on(server.flush());
    });
    assert!(lost.is_err_and(|error| error.is_lost()));
}
