//! Bodies of `try_run` and `run_detached`: whose error comes out, and what outlives the caller.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{Lease, LockError, LockManager, OnLost, distributed_lock, store::memory::MemoryStore};
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::common::{assert_idle, begin, soon};

#[derive(Debug)]
enum PayError {
    NoMoney,
    Lock(LockError),
}

impl From<LockError> for PayError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_can_fail_has_one_error() {
    let manager = LockManager::memory();
    let pay = |cents: u32| {
        manager.lock("order:42").try_run(async move |lease| {
            lease.ensure_held()?;
            if cents > 500 {
                return Err(PayError::NoMoney);
            }
            Ok(500 - cents)
        })
    };
    assert_eq!(pay(100).await.unwrap(), 400);
    assert!(matches!(pay(900).await, Err(PayError::NoMoney)));
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_had_is_the_error_of_the_body() {
    let manager = LockManager::memory();
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let lock = manager.lock("order:42").wait(Duration::from_millis(5));
    let paid = lock.try_run(async |_lease| Err::<(), _>(PayError::NoMoney));
    let error = paid.await.unwrap_err();
    assert!(
        matches!(&error, PayError::Lock(LockError::Busy { .. })),
        "{error:?}"
    );
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_counts_before_the_failure_of_the_body() {
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let paid = manager.lock("order:42").try_run(async |_lease| {
        store.forget();
        Err::<(), _>(PayError::NoMoney)
    });
    let error = paid.await.unwrap_err();
    assert!(
        matches!(&error, PayError::Lock(LockError::Lost { .. })),
        "{error:?}"
    );
    let finished = manager
        .lock("order:42")
        .on_lost(OnLost::Finish)
        .try_run(async |_lease| {
            store.forget();
            Err::<(), _>(PayError::NoMoney)
        });
    assert!(matches!(finished.await, Err(PayError::NoMoney)));
    assert_idle(&[&manager]).await;
}

/// What a body did, and what lets it go on.
#[derive(Clone, Default)]
struct Scene {
    went_on: Arc<Notify>,
    diary: Arc<Mutex<Vec<&'static str>>>,
}

impl Scene {
    fn note(&self, what: &'static str) {
        self.diary.lock().unwrap().push(what);
    }

    fn read(&self) -> Vec<&'static str> {
        self.diary.lock().unwrap().clone()
    }

    /// A body that waits in the middle.
    fn body<'a>(
        self,
        lease: &'a Lease,
    ) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + 'a>> {
        Box::pin(async move {
            self.note("began");
            self.went_on.notified().await;
            lease.ensure_held()?;
            self.note("ended");
            Ok(())
        })
    }

    /// A body of order 42 whose caller leaves as soon as it waits for something.
    async fn hang_up(&self, manager: &LockManager) {
        let scene = self.clone();
        let running = manager
            .lock("order:42")
            .run_detached(move |lease| scene.body(lease));
        begin(&mut Box::pin(running)).await;
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test(start_paused = true)]
async fn one_that_is_detached_ends_without_its_caller() {
    let (manager, scene) = (LockManager::memory(), Scene::default());
    scene.hang_up(&manager).await;
    assert_eq!(scene.read(), ["began"]);
    let other = manager.lock("order:42").try_acquire().await.unwrap();
    assert!(
        other.is_none(),
        "broken promise: two hold the key: the body goes on"
    );

    scene.went_on.notify_one();
    soon(manager.lock("order:42").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(scene.read(), ["began", "ended"]);
    assert_idle(&[&manager]).await;
}

tokio::task_local! {
    static OF_THE_CALLER: ();
}

#[tokio::test(start_paused = true)]
async fn with_its_caller_it_runs_in_place() {
    let manager = LockManager::memory();
    let in_place = is_send(manager.lock("order:42").run_detached(|_lease| {
        Box::pin(async {
            tokio::task::yield_now().await;
            OF_THE_CALLER.try_with(|()| ()).is_ok()
        })
    }));
    let in_place = soon(OF_THE_CALLER.scope((), in_place)).await.unwrap();
    assert!(in_place, "task-locals of the caller are seen");

    let panics = manager.lock("order:42").run_detached(|_lease| {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        })
    });
    let unwound: Result<Result<(), _>, _> = soon(AssertUnwindSafe(panics).catch_unwind()).await;
    assert!(unwound.is_err(), "a panic is the caller's");
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_before_it_has_begun_leaves_the_queue() {
    let (manager, scene) = (LockManager::memory(), Scene::default());
    let guard = manager.lock("order:42").acquire().await.unwrap();
    scene.hang_up(&manager).await;
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
    assert!(scene.read().is_empty(), "the body never ran");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_it_all_the_same() {
    let (store, scene) = (MemoryStore::new(), Scene::default());
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    scene.hang_up(&manager).await;
    store.forget();
    // Found at the next renewal. The body would wait for ever.
    assert_idle(&[&manager]).await;
    assert_eq!(scene.read(), ["began"]);
    assert_eq!(Arc::strong_count(&scene.went_on), 1, "the body is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_it() {
    let (manager, scene) = (LockManager::memory(), Scene::default());
    scene.hang_up(&manager).await;
    let mut shutdown = Box::pin(manager.shutdown(Duration::from_secs(5)));
    begin(&mut shutdown).await;
    scene.went_on.notify_one();
    let report = soon(shutdown).await;
    assert_eq!((report.cut_short, report.unreleased), (0, 0));
    assert_eq!(scene.read(), ["began", "ended"]);
}

/// The closure itself is a part of the section: it does not run without a lease.
#[tokio::test(start_paused = true)]
async fn what_the_closure_does_by_itself_is_under_the_lock() {
    #[distributed_lock(key = "order:42", manager = manager)]
    async fn locked(manager: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    let manager = LockManager::memory();
    let is_seen = Arc::new(AtomicBool::new(false));
    let (inside, seen) = (manager.clone(), is_seen.clone());
    let ran = manager.lock("order:42").run_detached(move |_lease| {
        // The deadlock check knows what the running code holds.
        let refused = locked(&inside).now_or_never();
        let is_refused = matches!(refused, Some(Err(LockError::WouldDeadlock { .. })));
        seen.store(is_refused, Ordering::Relaxed);
        Box::pin(async {})
    });
    soon(ran).await.unwrap();
    assert!(is_seen.load(Ordering::Relaxed));
    assert_idle(&[&manager]).await;
}

/// What the body owns is dropped before the lock is given back.
#[tokio::test(start_paused = true)]
async fn what_it_owns_is_dropped_under_the_lock() {
    struct Noted(Scene, LockManager);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.note(if self.1.active_keys() > 0 {
                "dropped under the lock"
            } else {
                "dropped without the lock"
            });
        }
    }

    let (manager, scene) = (LockManager::memory(), Scene::default());
    let noted = Noted(scene.clone(), manager.clone());
    let ran = manager.lock("order:42").run_detached(move |_lease| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            noted.0.note("ended");
        })
    });
    soon(ran).await.unwrap();
    assert_eq!(scene.read(), ["ended", "dropped under the lock"]);
    assert_idle(&[&manager]).await;
}
