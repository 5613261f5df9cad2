//! Waiters are notified that the lock is free, and get their turn.

use super::*;

/// A client that does not wait is faster than the notified waiter, and releases while the waiter's request is
/// refused.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_asked_in_vain_hears_of_the_next_release() {
    let stores = stores();
    let here = Quorum::of(views(&stores)).unwrap();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.there = ms(1));
    }
    let waiting = LockManager::builder()
        .build_with_store(Quorum::of(seen).unwrap())
        .unwrap();
    let [holder, passer_by] = [owner(), owner()];
    granted(ask(&here, holder).await);
    let lock = waiting.lock("order:42").wait(TTL);
    let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
    sleep(ms(300)).await;
    LockStore::release(&here, ReleaseRequest::new(&key(), holder))
        .await
        .unwrap();
    granted(ask(&here, passer_by).await);
    sleep(ms(3)).await;
    LockStore::release(&here, ReleaseRequest::new(&key(), passer_by))
        .await
        .unwrap();
    let begin = Instant::now();
    task.await.unwrap().release().await.unwrap();
    let took = begin.elapsed();
    assert!(took < ms(50), "{took:?} after the release");
}

/// Otherwise the tasks of a process would send their next request before any other process receives the notice.
#[tokio::test(start_paused = true)]
async fn a_process_whose_tasks_always_wait_lets_the_others_have_their_turn() {
    let stores = stores();
    let manager = || {
        let seen = views(&stores);
        for view in &seen {
            view.set(|way| (way.there, way.back) = (ms(1), ms(1)));
        }
        LockManager::builder()
            .build_with_store(Quorum::of(seen).unwrap())
            .unwrap()
    };
    let (crowded, other) = (manager(), manager());
    let sections = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (crowded, sections) = (crowded.clone(), sections.clone());
        tasks.spawn(async move {
            loop {
                let lock = crowded.lock("order:42").wait(Wait::Forever);
                lock.run(async |_| sleep(ms(2)).await).await.unwrap();
                sections.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for round in 0..20 {
        sleep(ms(100) + ms(1) * round).await;
        let (begin, before) = (Instant::now(), sections.load(Ordering::Relaxed));
        let lock = other.lock("order:42").wait(Duration::from_secs(60));
        let guard = lock.acquire().await.unwrap();
        let (took, others) = (begin.elapsed(), sections.load(Ordering::Relaxed) - before);
        guard.release().await.unwrap();
        // A turn has about six sections.
        assert!(others <= 20, "after {others} sections and {took:?}");
    }
    let before = sections.load(Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let alone = sections.load(Ordering::Relaxed) - before;
    assert!(alone > 150, "only {alone} sections in a second");
}
