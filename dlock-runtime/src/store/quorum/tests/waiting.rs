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

/// A manager of its own, a millisecond away from the stores.
fn distant(stores: &[MemoryStore; 5]) -> LockManager {
    let seen = views(stores);
    for view in &seen {
        view.set(|way| (way.there, way.back) = (ms(1), ms(1)));
    }
    let quorum = Quorum::of(seen).unwrap();
    LockManager::builder().build_with_store(quorum).unwrap()
}

/// A reader that was notified keeps its place until its request is there: no writer behind it keeps it out.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waited_first_comes_before_a_writer() {
    let stores = stores();
    let [holder, reader, writer] = [(); 3].map(|()| distant(&stores));
    let held = holder.lock("order:42").acquire().await.unwrap();
    let begin = Instant::now();
    let read = tokio::spawn(async move {
        let lock = reader.lock("order:42").shared().wait(TTL);
        let guard = lock.acquire().await.unwrap();
        let came = begin.elapsed();
        guard.release().await.unwrap();
        came
    });
    sleep(ms(20)).await;
    let written = tokio::spawn(async move {
        let guard = writer.lock("order:42").wait(TTL).acquire().await.unwrap();
        let came = begin.elapsed();
        guard.release().await.unwrap();
        came
    });
    sleep(ms(80)).await;
    held.release().await.unwrap();
    let (read, written) = (read.await.unwrap(), written.await.unwrap());
    assert!(read < written && written < ms(150), "{read:?} {written:?}");
}

/// A writer that was notified keeps new readers out until its request is there.
#[tokio::test(start_paused = true)]
async fn readers_that_come_all_the_time_do_not_starve_a_writer() {
    let stores = stores();
    let writer = distant(&stores);
    let mut readers = JoinSet::new();
    for number in 0..10 {
        let reader = distant(&stores);
        readers.spawn(async move {
            sleep(ms(3) * number).await;
            loop {
                let lock = reader.lock("order:42").shared();
                if let Ok(Some(guard)) = lock.try_acquire().await {
                    sleep(ms(20)).await;
                    guard.release().await.unwrap();
                }
                sleep(ms(3)).await;
            }
        });
    }
    for round in 0..20 {
        sleep(ms(50) + ms(1) * round).await;
        let begin = Instant::now();
        let guard = writer.lock("order:42").wait(TTL).acquire().await.unwrap();
        let took = begin.elapsed();
        guard.release().await.unwrap();
        assert!(took < ms(100), "{took:?}");
    }
}

/// Readers and writers that always come back all get their turns.
#[tokio::test(start_paused = true)]
async fn neither_readers_nor_writers_starve() {
    let stores = stores();
    let sections: Arc<[AtomicUsize; 6]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let (manager, sections) = (distant(&stores), sections.clone());
        let away = ms(10) + ms(1) * u32::try_from(task).unwrap();
        tasks.spawn(async move {
            loop {
                let lock = manager.lock("order:42").wait(TTL);
                let lock = if task % 2 == 0 { lock.shared() } else { lock };
                lock.run(async |_| sleep(ms(5)).await).await.unwrap();
                sections[task].fetch_add(1, Ordering::Relaxed);
                sleep(away).await;
            }
        });
    }
    sleep(Duration::from_secs(10)).await;
    let counts: Vec<_> = sections
        .iter()
        .map(|it| it.load(Ordering::Relaxed))
        .collect();
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    assert!(tasks.try_join_next().is_none(), "a call has failed");
}
