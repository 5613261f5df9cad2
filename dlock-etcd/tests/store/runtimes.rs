//! Runtimes of callers that end, are blocked, are not polled, or are several: requests go on, and leases are kept.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use dlock::LockManager;
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdServer, Proxy, eventually};
use tokio::runtime::{Builder, Runtime};

/// Longer than anything takes here, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A connection that is not served is noticed only after this time.
const NEVER: Duration = Duration::from_secs(600);

/// The machine may be busy for seconds.
const TTL: Duration = Duration::from_secs(12);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn manager(port: u16) -> LockManager {
    let builder = LockManager::builder().scheme("etcd", Etcd);
    let builder = builder.response_timeout(NEVER).connect_timeout(LONG);
    let url = format!("etcd://127.0.0.1:{port}");
    builder.connect(&url).await.unwrap()
}

/// A manager with both of its connections.
fn made_in(runtime: &Runtime) -> (EtcdServer, Proxy, LockManager) {
    runtime.block_on(async {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        let manager = manager(proxy.port()).await;
        use_once(&manager, "order:1").await;
        eventually(LONG, "there are two connections", async || {
            use_once(&manager, "order:1").await;
            proxy.open_connections() == 2
        })
        .await;
        (server, proxy, manager)
    })
}

async fn use_once(manager: &LockManager, key: &str) {
    let called = manager.lock(key).run(async |_| ());
    let called = tokio::time::timeout(LONG, called).await;
    called.expect("the request is answered").unwrap();
}

fn use_in(runtime: &Runtime, manager: &LockManager) {
    runtime.block_on(async {
        for number in 0..3 {
            use_once(manager, &format!("order:{number}")).await;
        }
    });
}

#[test]
fn leases_outlive_the_runtime_of_the_callers() {
    let first = one_thread();
    let (server, proxy, manager) = made_in(&first);
    let held = first.block_on(manager.lock("order:42").ttl(TTL).acquire());
    let held = held.unwrap();
    drop(first);
    let second = one_thread();
    use_in(&second, &manager);
    second.block_on(async {
        let since = Instant::now();
        eventually(LONG, "its TTL has passed", async || {
            use_once(&manager, "order:1").await;
            held.ensure_held().unwrap();
            since.elapsed() > TTL
        })
        .await;
        assert_eq!(server.keys("dlock/order:42/").await.len(), 1);
        eventually(LONG, "the next runtime has a connection", async || {
            use_once(&manager, "order:1").await;
            proxy.open_connections() == 2
        })
        .await;
        held.release().await.unwrap();
        assert_eq!(server.keys("dlock/order:42/").await, [""; 0]);
    });
}

#[test]
fn requests_of_other_runtimes_do_not_wait_for_that_of_the_first_caller() {
    let first = one_thread();
    let (_server, _proxy, manager) = made_in(&first);
    let second = one_thread();
    use_in(&second, &manager);
    use_in(&first, &manager);
    use_in(&second, &manager);
    let guard = manager.blocking().lock("order:42").acquire().unwrap();
    guard.release().unwrap();
}

#[test]
fn a_lease_that_is_dropped_after_its_runtime_is_released() {
    let first = one_thread();
    let (server, _proxy, manager) = made_in(&first);
    let guard = first.block_on(manager.lock("order:42").ttl(NEVER).acquire());
    drop(first);
    drop(guard.unwrap());
    one_thread().block_on(async {
        eventually(LONG, "its key is gone", async || {
            server.keys("dlock/order:42/").await.is_empty()
        })
        .await;
    });
}

/// A runtime for each call, as a tool may have.
#[test]
fn runtimes_that_end_soon_have_no_connection_each() {
    let first = one_thread();
    let (_server, proxy, manager) = made_in(&first);
    drop(first);
    for _ in 0..100 {
        use_in(&one_thread(), &manager);
    }
    // The first two, and those after pauses that double.
    let count = proxy.accepted_connections();
    assert!(count < 10, "{count} connections");
}

#[test]
fn a_body_that_blocks_its_worker_keeps_the_leases_of_its_store() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    keeps_leases_while_blocked_in(builder);
}

#[test]
fn a_body_that_blocks_its_thread_keeps_the_leases_of_its_store() {
    keeps_leases_while_blocked_in(Builder::new_current_thread());
}

/// Renewals are sent by the thread of the store: no timer and no task of the blocked runtime goes on.
fn keeps_leases_while_blocked_in(mut builder: Builder) {
    let around = one_thread();
    let user = builder.enable_all().build().unwrap();
    let (server, _proxy, manager) = made_in(&user);
    let other = around.block_on(manager_of(&server));
    // Of another body of the same store, on a runtime that goes on.
    let beside = around.block_on(manager.lock("order:7").ttl(TTL).acquire());
    let beside = beside.unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (end, is_to_end) = mpsc::channel::<()>();
    let is_to_end = Mutex::new(is_to_end);
    let call = manager.clone();
    let blocked = thread::spawn(move || {
        let run = async move {
            let lock = call.lock("order:42").ttl(TTL);
            lock.run(async |lease| {
                begun.send(Instant::now()).unwrap();
                is_to_end.lock().unwrap().recv().unwrap();
                lease.ensure_held()
            })
            .await
        };
        user.block_on(async { tokio::spawn(run).await.unwrap() })
    });
    let since = has_begun.recv_timeout(LONG).unwrap();
    around.block_on(eventually(LONG, "its TTL has passed", async || {
        for key in ["order:42", "order:7"] {
            let busy = other.lock(key).try_acquire().await;
            assert!(busy.unwrap().is_none(), "broken promise: two hold `{key}`");
        }
        use_once(&manager, "order:1").await;
        since.elapsed() > TTL + TTL / 12
    }));
    end.send(()).unwrap();
    assert_eq!(blocked.join().unwrap(), Ok(Ok(())));
    around.block_on(beside.release()).unwrap();
}

async fn manager_of(server: &EtcdServer) -> LockManager {
    manager(server.port()).await
}

#[test]
fn a_runtime_without_sockets_has_no_connection() {
    let around = one_thread();
    let server = around.block_on(EtcdServer::start());
    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    bare.block_on(async {
        let manager = manager_of(&server).await;
        for _ in 0..3 {
            use_once(&manager, "order:42").await;
        }
    });
}
