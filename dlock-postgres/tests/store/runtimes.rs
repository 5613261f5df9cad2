//! Runtimes of callers that end, are not polled, or are several: requests go on.

use std::time::Duration;

use dlock_postgres::Postgres;
use dlock_runtime::LockManager;
use tokio::runtime::{Builder, Runtime};

use crate::database::{DEADLINE, Database};

/// A connection that is not served is noticed only after this time.
pub(crate) const LONG: Duration = Duration::from_secs(600);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn made_in(runtime: &Runtime) -> (Database, LockManager) {
    runtime.block_on(async {
        let database = Database::new().await;
        let builder = LockManager::builder().scheme("postgres", Postgres);
        let builder = builder.response_timeout(LONG).connect_timeout(DEADLINE);
        let manager = builder.connect(database.url()).await.unwrap();
        manager.lock("order:1").run(async |_| ()).await.unwrap();
        (database, manager)
    })
}

fn use_in(runtime: &Runtime, manager: &LockManager) {
    runtime.block_on(async {
        for number in 0..3 {
            let called = manager.lock(format!("order:{number}")).run(async |_| ());
            let called = tokio::time::timeout(DEADLINE, called).await;
            called.expect("the request is answered").unwrap();
        }
    });
}

#[test]
fn requests_go_on_when_the_runtime_of_the_store_has_ended() {
    let first = one_thread();
    let (_database, manager) = made_in(&first);
    drop(first);
    use_in(&one_thread(), &manager);
}

#[test]
fn requests_go_on_while_the_runtime_of_the_store_is_not_polled() {
    let first = one_thread();
    let (_database, manager) = made_in(&first);
    let second = one_thread();
    use_in(&second, &manager);
    use_in(&first, &manager);
    use_in(&second, &manager);
}

#[test]
fn code_that_blocks_waits_for_no_runtime_that_is_not_polled() {
    let first = one_thread();
    let (_database, manager) = made_in(&first);
    let guard = manager.blocking().lock("order:42").acquire().unwrap();
    guard.release().unwrap();
}

#[test]
fn a_lease_that_is_dropped_after_its_runtime_is_released() {
    let first = one_thread();
    let (database, manager) = made_in(&first);
    let guard = first.block_on(manager.lock("order:42").ttl(LONG).acquire());
    drop(first);
    drop(guard.unwrap());
    one_thread().block_on(async {
        let other = database.manager().await;
        let guard = other.lock("order:42").wait(DEADLINE).acquire().await;
        guard.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_runtime_without_sockets_has_no_connection() {
    let first = one_thread();
    let (database, _manager) = made_in(&first);
    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    bare.block_on(async {
        let manager = database.manager().await;
        manager.lock("order:42").run(async |_| ()).await.unwrap();
    });
}
