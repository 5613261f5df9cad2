//! `on_cancel = detach`: a body that has begun ends, whatever becomes of its caller.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use dlock::{LockError, LockManager, distributed_lock, store::memory::MemoryStore, with_manager};
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::common::{LIMIT, Log, assert_idle, begin, soon};

/// What bodies and their arguments did, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<&'static str>>>);

impl Diary {
    fn note(&self, what: &'static str) {
        self.0.lock().expect("no panic while it is held").push(what);
    }

    fn read(&self) -> Vec<&'static str> {
        self.0.lock().expect("no panic while it is held").clone()
    }
}

struct Noted(Diary, LockManager);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.note(if self.1.active_keys() > 0 {
            "argument dropped under the lock"
        } else {
            "argument dropped without the lock"
        });
    }
}

tokio::task_local! {
    static OF_THE_CALLER: ();
}

/// Says whether the task-locals of the caller were there to the end.
#[distributed_lock(key = "order:<id>", on_cancel = detach)]
async fn pay(id: u64, go_on: Arc<Notify>, diary: Diary) -> Result<bool, LockError> {
    diary.note("began");
    go_on.notified().await;
    diary.note("ended");
    Ok(OF_THE_CALLER.try_with(|()| ()).is_ok())
}

/// A payment of order 42 whose caller leaves as soon as it waits for something: what lets its body
/// go on, and what it wrote.
async fn hang_up(manager: &LockManager) -> (Arc<Notify>, Diary) {
    let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
    let paying = pay(42, go_on.clone(), diary.clone());
    let mut caller = Box::pin(with_manager(manager.clone(), paying));
    begin(&mut caller).await;
    (go_on, diary)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_begun_ends_without_its_caller() {
    let manager = LockManager::memory();
    let (go_on, diary) = hang_up(&manager).await;
    assert_eq!(diary.read(), ["began"]);
    let other = manager.lock("order:42").try_acquire().await.unwrap();
    assert!(
        other.is_none(),
        "broken promise: two hold the key: the section goes on"
    );

    go_on.notify_one();
    soon(manager.lock("order:42").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(diary.read(), ["began", "ended"]);
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn with_its_caller_it_runs_in_place() {
    let manager = LockManager::memory();
    let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
    go_on.notify_one();
    let paying = with_manager(manager.clone(), pay(42, go_on, diary));
    let in_place = soon(OF_THE_CALLER.scope((), paying)).await.unwrap();
    assert!(in_place, "task-locals of the caller are seen");
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_before_it_has_begun_leaves_the_queue() {
    let manager = LockManager::memory();
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let (_go_on, diary) = hang_up(&manager).await;
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
    assert!(diary.read().is_empty(), "the body never ran");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_it() {
    let manager = LockManager::memory();
    let (go_on, diary) = hang_up(&manager).await;
    let mut shutdown = Box::pin(manager.shutdown(Duration::from_secs(5)));
    begin(&mut shutdown).await;
    go_on.notify_one();
    let outcome = soon(shutdown).await;
    assert_eq!((outcome.cut_short, outcome.unreleased), (0, 0));
    assert_eq!(diary.read(), ["began", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_it_all_the_same() {
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let (go_on, diary) = hang_up(&manager).await;
    store.forget();
    // Found at the next renewal. The body would wait for ever.
    assert_idle(&[&manager]).await;
    assert_eq!(diary.read(), ["began"]);
    assert_eq!(Arc::strong_count(&go_on), 1, "its arguments are dropped");
}

/// Nobody gets the error of a section whose caller has gone.
#[tokio::test(start_paused = true)]
async fn a_loss_that_the_release_finds_is_logged() {
    let (log, _capturing) = Log::capture();
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let (go_on, diary) = hang_up(&manager).await;
    store.forget();
    go_on.notify_one();
    assert_idle(&[&manager]).await;
    assert_eq!(diary.read(), ["began", "ended"]);
    let log = log.text();
    assert!(log.contains("message=lease lost key=order:42"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_callers() {
    #[distributed_lock(key = "panics", on_cancel = detach)]
    async fn panics(_noted: Noted) -> Result<(), LockError> {
        tokio::task::yield_now().await;
        panic!("on purpose");
    }

    let manager = LockManager::memory();
    let diary = Diary::default();
    let noted = Noted(diary.clone(), manager.clone());
    let section = with_manager(manager.clone(), panics(noted));
    let unwound = soon(AssertUnwindSafe(section).catch_unwind()).await;
    assert!(unwound.is_err());
    assert_eq!(diary.read(), ["argument dropped under the lock"]);
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_manager_that_was_in_scope() {
    #[distributed_lock(key = "outer", on_cancel = detach)]
    async fn outer(go_on: Arc<Notify>, diary: Diary) -> Result<(), LockError> {
        go_on.notified().await;
        inner().await?;
        diary.note("had the inner lock");
        Ok(())
    }

    #[distributed_lock(key = "inner")]
    async fn inner() -> Result<(), LockError> {
        Ok(())
    }

    let manager = LockManager::memory();
    let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
    let section = outer(go_on.clone(), diary.clone());
    let mut caller = Box::pin(with_manager(manager.clone(), section));
    begin(&mut caller).await;
    drop(caller);
    go_on.notify_one();
    assert_idle(&[&manager]).await;
    assert_eq!(diary.read(), ["had the inner lock"]);
}

/// Arguments that the body does not mention, and the lease, belong to the section as well.
#[tokio::test(start_paused = true)]
async fn it_owns_all_of_its_arguments() {
    #[distributed_lock(
        key = "order:<order.0>",
        on_cancel = detach,
        min_hold = "1m",
        lease = lease,
        manager = manager
    )]
    async fn owns(
        order: (u64, String),
        manager: LockManager,
        _noted: Noted,
        go_on: Arc<Notify>,
        diary: Diary,
    ) -> Result<(), LockError> {
        go_on.notified().await;
        lease.ensure_held()?;
        diary.note("ended");
        Ok(())
    }

    let manager = LockManager::memory();
    let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
    let noted = Noted(diary.clone(), manager.clone());
    let order = (42, "book".to_owned());
    let section = owns(order, manager.clone(), noted, go_on.clone(), diary.clone());
    let mut caller = Box::pin(section);
    begin(&mut caller).await;
    drop(caller);
    go_on.notify_one();
    assert_idle(&[&manager]).await;
    assert_eq!(diary.read(), ["ended", "argument dropped under the lock"]);
    let next = manager.lock("order:42").try_acquire().await.unwrap();
    assert!(next.is_none(), "it is kept for its `min_hold`");
}

/// The caller goes, and its thread is blocked at once by what comes next in its task.
#[test]
fn it_goes_on_while_the_thread_of_its_caller_is_blocked() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let manager = LockManager::memory();
        let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
        let paying = pay(42, go_on.clone(), diary.clone());
        let mut caller = Box::pin(with_manager(manager.clone(), paying));
        let blocked = tokio::spawn(async move {
            begin(&mut caller).await;
            go_on.notify_one();
            drop(caller);
            let limit = Instant::now() + LIMIT;
            while diary.read() != ["began", "ended"] && Instant::now() < limit {
                thread::sleep(Duration::from_millis(1));
            }
            diary.read()
        });
        assert_eq!(blocked.await.unwrap(), ["began", "ended"]);
        assert_idle(&[&manager]).await;
    });
}

/// A runtime that ends takes its tasks with it; the lock is given back by another one.
#[test]
fn a_runtime_that_ends_ends_it() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let (home, brief) = (runtime(), runtime());
    let manager = home.block_on(async { LockManager::memory() });
    let diary = Diary::default();
    brief.block_on(async {
        let paying = pay(42, Arc::default(), diary.clone());
        let mut caller = Box::pin(with_manager(manager.clone(), paying));
        begin(&mut caller).await;
    });
    drop(brief);
    home.block_on(assert_idle(&[&manager]));
    assert_eq!(diary.read(), ["began"]);
}

/// Nothing goes on where there is no runtime left to run it.
#[test]
fn a_caller_that_outlives_its_runtime_ends_it() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (home, brief) = (runtime(), runtime());
    let manager = home.block_on(async { LockManager::memory() });
    let diary = Diary::default();
    let paying = pay(42, Arc::default(), diary.clone());
    let mut caller = Box::pin(with_manager(manager.clone(), paying));
    brief.block_on(begin(&mut caller));
    drop(brief);
    let (log, _capturing) = Log::capture();
    drop(caller);
    home.block_on(assert_idle(&[&manager]));
    assert_eq!(diary.read(), ["began"]);
    let log = log.text();
    assert!(!log.contains("the section goes on"), "{log}");
}

/// The number of keys that are locked in `manager` while this holds one of the manager in scope.
#[distributed_lock(key = "counts")]
async fn count(manager: &LockManager) -> Result<usize, LockError> {
    Ok(manager.active_keys())
}

/// As [`pay`], but without a lock unless it is to have one.
#[distributed_lock(key = "order:<id>", on_cancel = detach, enabled = enabled)]
async fn pay_freely(
    enabled: bool,
    id: u64,
    go_on: Arc<Notify>,
    diary: Diary,
    manager: LockManager,
) -> Result<bool, LockError> {
    diary.note("began");
    go_on.notified().await;
    let is_in_scope = count(&manager).await? == usize::from(enabled) + 1;
    diary.note(if is_in_scope {
        "ended"
    } else {
        "lost its manager"
    });
    Ok(OF_THE_CALLER.try_with(|()| ()).is_ok())
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_lock_ends_without_its_caller_too() {
    for enabled in [true, false] {
        let manager = LockManager::memory();
        let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
        let paying = pay_freely(enabled, 42, go_on.clone(), diary.clone(), manager.clone());
        let mut caller = Box::pin(with_manager(manager.clone(), paying));
        begin(&mut caller).await;
        drop(caller);
        assert_eq!(diary.read(), ["began"]);
        let free = manager.lock("order:42").try_acquire().await.unwrap();
        assert_eq!(free.is_none(), enabled);
        if let Some(free) = free {
            free.release().await.unwrap();
        }

        go_on.notify_one();
        soon(async {
            while diary.read().len() < 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(diary.read(), ["began", "ended"]);
        assert_idle(&[&manager]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_lock_runs_in_place_with_its_caller() {
    let manager = LockManager::memory();
    let (go_on, diary) = (Arc::new(Notify::new()), Diary::default());
    go_on.notify_one();
    let paying = pay_freely(false, 42, go_on, diary.clone(), manager.clone());
    let paying = with_manager(manager, paying);
    let in_place = soon(OF_THE_CALLER.scope((), paying)).await.unwrap();
    assert!(in_place, "task-locals of the caller are seen");
    assert_eq!(diary.read(), ["began", "ended"]);
}
