//! Claims behind the children of other processes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockKey, LockMode};
use dlock_runtime::store::{
    AcquireOutcome, AcquireRequest, LockStore, OwnerId, Queue, ReleaseRequest, Released,
    RenewRequest, Renewal,
};
use dlock_testkit::{eventually, within};

use crate::{
    scripted::{
        BASE, CHECK, CHILD, CREATE, DELETE, EXISTS, GET_DATA, LIST, MULTI, NO_NODE, Reply,
        SET_DATA, SINCE, Scripted, UNIMPLEMENTED, with_base,
    },
    world::{LIMIT, key, listen, owner, store, wait},
};

const TTL: Duration = Duration::from_secs(20);

/// The requests that a server has got.
#[derive(Default)]
struct Asked {
    /// The children of the key.
    queue: AtomicUsize,
    /// A watch of the child in front.
    watches: AtomicUsize,
    /// The texts that were written to the own child.
    texts: AtomicUsize,
}

/// A server with a child of another process in front of the one that is created, which refuses to watch it. With
/// [`NO_NODE`], that child is gone from then on.
async fn behind(key: &LockKey, refusal: i32) -> (Scripted, Arc<Asked>) {
    let directory = format!("/dlock/lock:{key}");
    let other = format!("{}-exclusive-0000000001", owner());
    let (asked, own) = (Arc::new(Asked::default()), Mutex::new(String::new()));
    let counted = asked.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            let name = request.operations[1].1.rsplit('/').next().unwrap();
            let mut own = own.lock().unwrap();
            *own = format!("{name}0000000002");
            Some(Reply::carried_out(request, CHILD, &own))
        }
        (LIST, _) if request.path == directory => {
            counted.queue.fetch_add(1, Ordering::SeqCst);
            let is_gone = refusal == NO_NODE && counted.watches.load(Ordering::SeqCst) > 0;
            let own = own.lock().unwrap();
            let names = [&*other, &*own];
            Some(Reply::names(if is_gone { &names[1..] } else { &names }))
        }
        (LIST, _) if request.path.ends_with(&other) => {
            counted.watches.fetch_add(1, Ordering::SeqCst);
            Some(Reply::Refused(refusal))
        }
        (GET_DATA, _) if request.path.ends_with(&other) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::fresh(&text, SINCE + 1))
        }
        (SET_DATA, _) if request.path.ends_with(&**own.lock().unwrap()) => {
            counted.texts.fetch_add(1, Ordering::SeqCst);
            Some(Reply::stat(CHILD))
        }
        (DELETE, _) => Some(Reply::Done(Vec::new())),
        _ => with_base(request, BASE),
    })
    .await;
    (server, asked)
}

#[tokio::test]
async fn a_waiter_whose_watch_is_refused_is_told_to_ask_and_watches_again() {
    let key = key("refused-watch");
    let (server, asked) = behind(&key, UNIMPLEMENTED).await;
    let store = store(&server.url()).await;
    let (client, mut heard) = listen(&store);
    let waiter = OwnerId::new(client, 1);
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    let hint = within(LIMIT, heard.recv()).await.flatten();
    assert_eq!(
        hint,
        Some((waiter, 0)),
        "broken promise: a lease behind another one"
    );
    let queues = asked.queue.load(Ordering::SeqCst);
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    assert!(
        asked.queue.load(Ordering::SeqCst) > queues,
        "an answer from memory would be old"
    );
    eventually(LIMIT, "it watches again", async || {
        asked.watches.load(Ordering::SeqCst) > 1
    })
    .await;
    assert_eq!(
        asked.texts.load(Ordering::SeqCst),
        1,
        "its text says once that it waits"
    );
}

#[tokio::test]
async fn a_waiter_whose_predecessor_is_gone_before_it_is_watched_holds_the_key() {
    let key = key("gone-before");
    let (server, _asked) = behind(&key, NO_NODE).await;
    let store = store(&server.url()).await;
    let (client, mut heard) = listen(&store);
    let waiter = OwnerId::new(client, 1);
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    let hint = within(LIMIT, heard.recv()).await.flatten();
    let fence = BASE + u64::try_from(CHILD - SINCE).unwrap();
    assert_eq!(hint, Some((waiter, fence)));
    let renewal = RenewRequest::new(&key, waiter, TTL);
    let release = ReleaseRequest::new(&key, waiter);
    let renewed = store.renew_one(renewal).await;
    // On a slow machine, the time of the grant is over.
    if renewed != Ok(Renewal::NotOwner) {
        assert_eq!(renewed, Ok(Renewal::Renewed));
        assert_eq!(store.release(release).await, Ok(Released::WasHeld));
    }
}

/// A crowd of holders would make many requests of one.
#[tokio::test]
async fn of_many_holders_some_are_read_and_the_last_one_has_the_greatest_fence() {
    const HOLDERS: i64 = 12;

    let (key, own) = (key("crowd"), owner());
    let directory = format!("/dlock/lock:{key}");
    let names: Vec<_> = (1..=HOLDERS)
        .map(|place| format!("{}-shared-{place:010}", owner()))
        .collect();
    let reads = Arc::new(AtomicUsize::new(0));
    let count = reads.clone();
    let server = Scripted::start(move |request| match request.code {
        LIST if request.path == directory => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            Some(Reply::names(&names))
        }
        GET_DATA if request.path.starts_with(&directory) => {
            count.fetch_add(1, Ordering::SeqCst);
            let place = request.path.rsplit('-').next().unwrap();
            let fence = BASE + 1;
            // They share the fence of the first one.
            let text = format!("1 {BASE} {SINCE} 30000 {fence} 1 shop@host/1 - -");
            Some(Reply::fresh(&text, SINCE + place.parse::<i64>().unwrap()))
        }
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let answer = store.acquire(AcquireRequest::new(&key, own, TTL)).await;
    let Ok(AcquireOutcome::Busy(seen)) = answer else {
        panic!("{answer:?}");
    };
    let last = u64::try_from(HOLDERS).unwrap();
    assert_eq!((seen.fence, seen.last_fence), (BASE + 1, BASE + last));
    assert_eq!((seen.others, seen.position), (last - 1, None));
    assert_eq!(seen.label.as_deref(), Some("shop@host/1"));
    assert!(reads.load(Ordering::SeqCst) <= 8, "{reads:?} reads");
}

#[tokio::test]
async fn a_fence_that_an_old_server_does_not_tell_is_read_from_the_child() {
    let (key, own) = (key("old-server"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-shared-0000000001");
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        // It does not say when the child was created.
        (MULTI, [CHECK, CREATE]) => Some(Reply::carried_out(request, -1, &child)),
        (LIST, _) if request.path == directory => Some(Reply::names(&[&child])),
        (SET_DATA | EXISTS, _) if request.path.ends_with(&child) => Some(Reply::stat(CHILD)),
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).mode(LockMode::Shared);
    let answer = store.acquire(ask.queue(Queue::ForLease)).await;
    let Ok(AcquireOutcome::Granted { fence, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(fence, BASE + u64::try_from(CHILD - SINCE).unwrap());
}

/// The server that it is connected to has not heard of that.
#[tokio::test]
async fn a_reader_whose_child_is_gone_when_it_takes_the_fence_of_others_gets_another_child() {
    let (key, own) = (key("gone-reader"), owner());
    let directory = format!("/dlock/lock:{key}");
    let other = format!("{}-shared-0000000001", owner());
    let [lost, next] = [2, 3].map(|place| format!("{own}-shared-000000000{place}"));
    let (creations, writes) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let count = creations.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE]) => {
            let before = count.fetch_add(1, Ordering::SeqCst);
            let name = if before == 0 { &lost } else { &next };
            Some(Reply::carried_out(request, CHILD, name))
        }
        (MULTI, [CHECK, SET_DATA]) => Some(match writes.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::refused_at(request, 1),
            _ => Reply::carried_out(request, CHILD, ""),
        }),
        (LIST, _) if request.path == directory => {
            let is_first = count.load(Ordering::SeqCst) < 2;
            let own = if is_first { &lost } else { &next };
            Some(Reply::names(&[&other, own]))
        }
        (GET_DATA, _) if request.path.ends_with(&other) => {
            let fence = BASE + 1;
            let text = format!("1 {BASE} {SINCE} 30000 {fence} 1 - - -");
            Some(Reply::fresh(&text, SINCE + 1))
        }
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).mode(LockMode::Shared);
    let answer = store.acquire(ask.queue(Queue::ForLease)).await;
    let Ok(AcquireOutcome::Granted { fence, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(fence, BASE + 1, "all that hold together have one");
    assert_eq!(creations.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_holder_that_has_just_gone_keeps_no_request_from_its_grant() {
    for queue in [Queue::No, Queue::ForLease] {
        let (key, own) = (key("just-gone"), owner());
        let directory = format!("/dlock/lock:{key}");
        let other = format!("{}-exclusive-0000000001", owner());
        let child = format!("{own}-exclusive-0000000002");
        let (reads, is_created) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        let count = reads.clone();
        let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
            (MULTI, [CHECK, CREATE, SET_DATA]) => {
                is_created.store(true, Ordering::SeqCst);
                let among = if count.load(Ordering::SeqCst) == 0 {
                    2
                } else {
                    1
                };
                Some(Reply::carried_out_among(request, CHILD, &child, among))
            }
            (LIST, _) if request.path == directory => {
                let is_there = count.load(Ordering::SeqCst) == 0;
                let other = is_there.then_some(&*other);
                let child = is_created.load(Ordering::SeqCst).then_some(&*child);
                let names: Vec<_> = other.into_iter().chain(child).collect();
                Some(Reply::names(&names))
            }
            // It leaves between both answers.
            (GET_DATA, _) if request.path.ends_with(&other) => {
                count.fetch_add(1, Ordering::SeqCst);
                Some(Reply::Refused(NO_NODE))
            }
            (SET_DATA, _) if request.path.ends_with(&child) => Some(Reply::stat(CHILD)),
            _ => with_base(request, BASE),
        })
        .await;
        let store = store(&server.url()).await;
        let ask = AcquireRequest::new(&key, own, TTL).queue(queue);
        let answer = store.acquire(ask).await;
        assert!(
            matches!(answer, Ok(AcquireOutcome::Granted { .. })),
            "{answer:?}"
        );
        assert_eq!(reads.load(Ordering::SeqCst), 1);
    }
}
