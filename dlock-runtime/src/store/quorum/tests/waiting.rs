//! Who waits hears that the lock is free, and gets its turn.

use super::*;

/// A passer-by is quicker than the waiter that was told, and releases while that one asks in vain.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_asked_in_vain_hears_of_the_next_release() {
    let stores = stores();
    let here = Quorum::of(views(&stores)).unwrap();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.there = ms(1));
    }
    let waiting = LockManager::builder()
        .store(Quorum::of(seen).unwrap())
        .unwrap();
    let [holder, passer_by] = [owner(), owner()];
    granted(ask(&here, holder).await);
    let lock = waiting.lock("order:42").wait(TTL);
    let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
    sleep(ms(300)).await;
    LockStore::release(&here, &key(), holder).await.unwrap();
    granted(ask(&here, passer_by).await);
    sleep(ms(3)).await;
    LockStore::release(&here, &key(), passer_by).await.unwrap();
    let begin = Instant::now();
    task.await.unwrap().release().await.unwrap();
    let took = begin.elapsed();
    assert!(took < ms(50), "{took:?} after the release");
}
