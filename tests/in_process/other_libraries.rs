//! Cases that the tests of other libraries, and what users reported to them, have made known: `DistributedLock`
//! for .NET, Redisson, and Curator. They are told here in our terms; the numbers are those of Redisson's reports.
//!
//! A manager stands for a process. Those of one test share nothing but the store.

use std::time::Duration;

use dlock::{
    LockError, LockManager, LockRequest, Wait,
    store::{memory::MemoryStore, quorum::Quorum},
};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};

use crate::common::{Node, TestClock, assert_idle, soon};

const KEY: &str = "catalog:7";

/// A time for which somebody waits in vain.
const WHILE: Duration = Duration::from_millis(500);

/// As many processes over one store.
fn processes<const COUNT: usize>() -> (MemoryStore, [LockManager; COUNT]) {
    let store = MemoryStore::new();
    let managers = [(); COUNT].map(|()| {
        let builder = LockManager::builder().clock(TestClock::new());
        let builder = builder.wait(Wait::Forever);
        builder.build_with_store(store.clone()).unwrap()
    });
    (store, managers)
}

async fn is_refused(request: LockRequest) -> bool {
    match soon(request.wait(WHILE).acquire()).await {
        Ok(_) => false,
        Err(LockError::Busy { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Lets all tasks run until each of them waits for an event.
async fn settled() {
    for _ in 0..100 {
        yield_now().await;
    }
}

// `DistributedLock`

#[tokio::test(start_paused = true)]
async fn readers_keep_out_a_writer_and_a_writer_keeps_out_both() {
    let (store, [one, two, three]) = processes();
    let first = soon(one.lock(KEY).shared().acquire()).await.unwrap();
    let second = soon(two.lock(KEY).shared().acquire()).await.unwrap();
    assert!(
        is_refused(three.lock(KEY)).await,
        "broken promise: a writer holds the key beside a reader"
    );
    soon(first.release()).await.unwrap();
    assert!(
        is_refused(three.lock(KEY)).await,
        "broken promise: a writer holds the key beside a reader: one reader is left"
    );
    soon(second.release()).await.unwrap();
    let writer = soon(three.lock(KEY).acquire()).await.unwrap();
    assert!(
        is_refused(one.lock(KEY).shared()).await,
        "broken promise: a reader holds the key beside a writer"
    );
    assert!(
        is_refused(two.lock(KEY)).await,
        "broken promise: two hold the key"
    );
    soon(writer.release()).await.unwrap();
    let reader = soon(one.lock(KEY).shared().acquire()).await.unwrap();
    soon(reader.release()).await.unwrap();
    assert_idle(&[&one, &two, &three]).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_does_not_overtake_a_writer_that_waits() {
    let (store, [one, two, three]) = processes();
    let inside = soon(one.lock(KEY).shared().acquire()).await.unwrap();
    let writer = tokio::spawn(two.lock(KEY).acquire());
    settled().await;
    assert!(is_refused(three.lock(KEY).shared()).await);
    // Nor does one of the process that reads already, once its turn is over.
    assert!(
        is_refused(one.lock(KEY).shared()).await,
        "broken promise: a reader holds the key beside a writer"
    );
    assert!(!writer.is_finished());
    soon(inside.release()).await.unwrap();
    let writer = soon(writer).await.unwrap().unwrap();
    assert!(is_refused(three.lock(KEY).shared()).await);
    soon(writer.release()).await.unwrap();
    drop(soon(three.lock(KEY).shared().acquire()).await.unwrap());
    assert_idle(&[&one, &two, &three]).await;
    assert!(store.is_empty());
}

/// A waiter that has given up is nobody whom readers have to wait for.
#[tokio::test(start_paused = true)]
async fn readers_come_in_again_when_a_writer_has_given_up() {
    let (store, [one, two, three]) = processes();
    let inside = soon(one.lock(KEY).shared().acquire()).await.unwrap();
    let reader = async {
        sleep(WHILE / 2).await;
        let since = Instant::now();
        let reader = soon(three.lock(KEY).shared().acquire()).await.unwrap();
        assert_eq!(since.elapsed(), WHILE / 2, "as long as the writer waited");
        soon(reader.release()).await.unwrap();
    };
    let (refused, ()) = tokio::join!(is_refused(two.lock(KEY)), reader);
    assert!(refused);
    soon(inside.release()).await.unwrap();
    assert_idle(&[&one, &two, &three]).await;
    assert!(store.is_empty());
}

// Redisson

/// Report 2140: a majority had the reader, another one the writer, of a call for several keys.
#[tokio::test(start_paused = true)]
async fn a_reader_keeps_out_a_writer_of_several_keys_over_a_quorum() {
    let nodes = [(); 3].map(|()| Node::new());
    let [here, there] = [(); 2].map(|()| {
        let seen = nodes.each_ref().map(Node::seen_by_another);
        let quorum = Quorum::of(seen).unwrap();
        let builder = LockManager::builder().clock(TestClock::new());
        builder.build_with_store(quorum).unwrap()
    });
    let reader = here.lock("shelf:1").shared().also_shared(KEY);
    let reader = soon(reader.acquire()).await.unwrap();
    let both = || there.lock_all([KEY, "shelf:2"]);
    for _ in 0..3 {
        assert!(soon(both().try_acquire()).await.unwrap().is_none());
        assert!(is_refused(both()).await);
    }
    reader.ensure_held().unwrap();
    soon(reader.release()).await.unwrap();
    let writer = soon(both().wait(WHILE).acquire()).await.unwrap();
    let shared = here.lock(KEY).shared();
    assert!(soon(shared.try_acquire()).await.unwrap().is_none());
    soon(writer.release()).await.unwrap();
    assert_idle(&[&here, &there]).await;
}

/// Report 5379, whose answer was that no order is kept: here all are served as they came.
#[tokio::test(start_paused = true)]
async fn readers_and_writers_are_served_in_the_order_of_their_arrival() {
    let (store, managers) = processes::<7>();
    let (tell, mut told) = mpsc::unbounded_channel();
    let before = soon(managers[0].lock(KEY).acquire()).await.unwrap();
    let mut callers: Vec<JoinHandle<()>> = Vec::new();
    // The two readers side by side come in together.
    let modes = [true, false, true, true, false, true];
    for (number, is_shared) in modes.into_iter().enumerate() {
        let lock = managers[number + 1].lock(KEY);
        let lock = if is_shared { lock.shared() } else { lock };
        let tell = tell.clone();
        callers.push(tokio::spawn(async move {
            let section = lock.run(async |_lease| {
                tell.send(number).unwrap();
                sleep(Duration::from_millis(20)).await;
                tell.send(number).unwrap();
            });
            section.await.unwrap();
        }));
        settled().await;
    }
    drop(tell);
    soon(before.release()).await.unwrap();
    let mut order = Vec::new();
    while let Some(number) = soon(told.recv()).await {
        order.push(number);
    }
    order[4..6].sort_unstable();
    order[6..8].sort_unstable();
    assert_eq!(order, [0, 0, 1, 1, 2, 3, 2, 3, 4, 4, 5, 5]);
    for caller in callers {
        soon(caller).await.unwrap();
    }
    assert_idle(&managers.iter().collect::<Vec<_>>()).await;
    assert!(store.is_empty());
}

/// Report 2144: a reader with a short lease shortened that of the others.
#[tokio::test(start_paused = true)]
async fn a_reader_with_a_short_lease_shortens_no_other() {
    let (store, [long, short, third]) = processes();
    let stays = long.lock(KEY).shared().ttl(Duration::from_secs(60));
    let stays = stays.renew(false).acquire().await.unwrap();
    let leaves = short.lock(KEY).shared().ttl(Duration::from_secs(3));
    let leaves = leaves.renew(false).acquire().await.unwrap();
    sleep(Duration::from_secs(4)).await;
    assert!(leaves.ensure_held().is_err());
    stays.ensure_held().unwrap();
    let writer = third.lock(KEY);
    assert!(
        writer.try_acquire().await.unwrap().is_none(),
        "broken promise: a writer holds the key beside a reader"
    );
    drop(leaves);
    soon(stays.release()).await.unwrap();
    drop(soon(third.lock(KEY).acquire()).await.unwrap());
    assert_idle(&[&long, &short, &third]).await;
    assert!(store.is_empty());
}

// Curator

#[tokio::test(start_paused = true)]
async fn who_wants_more_permits_lets_itself_in() {
    let (store, [one, two, three]) = processes();
    let first = soon(one.lock(KEY).permits(1).acquire()).await.unwrap();
    assert!(
        is_refused(two.lock(KEY).permits(1)).await,
        "broken promise: there is one permit more"
    );
    let second = soon(two.lock(KEY).permits(2).acquire()).await.unwrap();
    assert!(
        is_refused(three.lock(KEY).permits(2)).await,
        "broken promise: there is one permit more"
    );
    soon(second.release()).await.unwrap();
    // With one inside, who wants the only permit still waits.
    assert!(
        is_refused(three.lock(KEY).permits(1)).await,
        "broken promise: there is one permit more"
    );
    soon(first.release()).await.unwrap();
    drop(soon(three.lock(KEY).permits(1).acquire()).await.unwrap());
    assert_idle(&[&one, &two, &three]).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_that_gave_up_have_taken_no_permit_along() {
    let (store, [one, two]) = processes();
    let permit = |manager: &LockManager| manager.lock(KEY).permits(2);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(soon(permit(&one).acquire()).await.unwrap());
    }
    for _ in 0..10 {
        assert!(
            is_refused(permit(&two)).await,
            "broken promise: there is one permit more"
        );
    }
    drop(held);
    let first = soon(permit(&two).acquire()).await.unwrap();
    let second = soon(permit(&two).acquire()).await.unwrap();
    assert!(
        is_refused(permit(&one)).await,
        "broken promise: there is one permit more"
    );
    drop((first, second));
    assert_idle(&[&one, &two]).await;
    assert!(store.is_empty());
}

/// Its waiters are told, and those of others get its permits.
#[tokio::test(start_paused = true)]
async fn a_process_that_shuts_down_leaves_its_permits_to_others() {
    let (store, [leaves, stays]) = processes();
    let permit = |manager: &LockManager| manager.lock(KEY).permits(2);
    let holders = [(); 2].map(|()| {
        let body = permit(&leaves);
        tokio::spawn(async move { body.run(async |_| std::future::pending::<()>().await).await })
    });
    settled().await;
    let waits = tokio::spawn(permit(&leaves).acquire());
    let others = [(); 2].map(|()| tokio::spawn(permit(&stays).acquire()));
    settled().await;
    let report = leaves.shutdown(Duration::ZERO).await;
    assert_eq!(report.cut_short, 2, "{report:?}");
    for ended in holders {
        let error = soon(ended).await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Lost { .. }), "{error}");
    }
    let error = soon(waits).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Closed { .. }), "{error}");
    for other in others {
        soon(soon(other).await.unwrap().unwrap().release())
            .await
            .unwrap();
    }
    assert_idle(&[&leaves, &stays]).await;
    assert!(store.is_empty());
}
