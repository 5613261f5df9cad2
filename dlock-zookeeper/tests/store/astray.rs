//! Servers that have lost step with the others, or that answer for a leader that was deposed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockKey, LockMode};
use dlock_runtime::store::{
    AcquireOutcome, AcquireRequest, LockStore, OwnerId, Queue, ReleaseRequest,
};
use dlock_testkit::{Proxy, eventually, within};
use tokio::time::sleep;

use crate::{
    scripted::{
        BASE, CHECK, CHILD, CREATE, DELETE, EXISTS, FENCE, GET_DATA, LIST, MULTI, Reply, SET_DATA,
        SINCE, SYNC, Scripted, with_base,
    },
    world::{LIMIT, key, owner, store},
};

const TTL: Duration = Duration::from_secs(20);

/// Beyond a few at once, and then some in each second.
const MOST_REQUESTS: usize = 200;

/// Asks for a key that gets no answer that fits. Returns the text of the error.
async fn is_refused(server: &Scripted, key: &LockKey, owner: OwnerId, mode: LockMode) -> String {
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(key, owner, TTL).mode(mode);
    let answer = within(LIMIT, store.acquire(ask)).await;
    answer.expect("it ends").unwrap_err().to_string()
}

#[tokio::test]
async fn a_server_without_the_base_of_the_leader_is_not_asked_without_end() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let server = Scripted::start(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        match request.code {
            // The leader has another one.
            MULTI => Some(Reply::refused_at(request, 0)),
            _ => with_base(request, BASE),
        }
    })
    .await;
    let error = is_refused(&server, &key("astray"), owner(), LockMode::Exclusive).await;
    assert!(error.contains("lost step"), "{error}");
    let requests = requests.load(Ordering::SeqCst);
    assert!(requests < MOST_REQUESTS, "{requests} requests");
}

#[tokio::test]
async fn a_reader_behind_a_child_that_one_server_alone_has_does_not_ask_without_end() {
    let requests = Arc::new(AtomicUsize::new(0));
    let (count, key, reader) = (requests.clone(), key("alone"), owner());
    let directory = format!("/dlock/lock:{key}");
    let own = format!("{reader}-shared-0000000002");
    let other = format!("{}-shared-0000000001", owner());
    let server = Scripted::start(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        match (request.code, &*request.codes()) {
            (MULTI, [CHECK, CREATE]) => Some(Reply::carried_out(request, CHILD, &own)),
            // The leader does not have the child whose fence the reader takes.
            (MULTI, _) => Some(Reply::refused_at(request, 0)),
            (LIST, _) if request.path == directory => Some(Reply::names(&[&other, &own])),
            (GET_DATA, _) if request.path.ends_with(&other) => {
                let text = format!("1 {BASE} {SINCE} 30000 {BASE} 1 - - -");
                Some(Reply::data(&text, SINCE + 1))
            }
            _ => with_base(request, BASE),
        }
    })
    .await;
    let error = is_refused(&server, &key, reader, LockMode::Shared).await;
    assert!(error.contains("lost step"), "{error}");
    let requests = requests.load(Ordering::SeqCst);
    assert!(requests < MOST_REQUESTS, "{requests} requests");
}

#[tokio::test]
async fn the_base_that_replaces_several_is_above_one_that_the_leader_has_lost() {
    let lost = BASE + 1_000_000;
    let (key, own) = (key("above"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000001");
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (LIST, _) if request.path == FENCE => {
            Some(Reply::names(&[&BASE.to_string(), &lost.to_string()]))
        }
        (LIST, _) if request.path == directory => Some(Reply::names(&[&child])),
        (MULTI, _) => {
            let of_lost = |(code, path): &(i32, String)| {
                *code != CREATE && *path == format!("{FENCE}/{lost}")
            };
            let failed = request.operations.iter().position(of_lost);
            Some(match failed {
                Some(failed) => Reply::refused_at(request, failed),
                None => Reply::carried_out(request, CHILD, &child),
            })
        }
        (EXISTS, _) if request.path.starts_with(FENCE) => Some(Reply::stat(SINCE)),
        _ => None,
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).queue(Queue::ForLease);
    let answer = within(LIMIT, store.acquire(ask)).await;
    let Some(Ok(AcquireOutcome::Granted { fence, .. })) = answer else {
        panic!("{answer:?}")
    };
    assert!(
        fence > lost,
        "broken promise: the token did not grow: {fence} after tokens from {lost} on"
    );
}

#[tokio::test]
async fn a_node_beside_the_base_that_is_only_like_one_is_named() {
    let server = Scripted::start(|request| match request.code {
        LIST if request.path == FENCE => Some(Reply::names(&["007"])),
        _ => None,
    })
    .await;
    let error = is_refused(&server, &key("alike"), owner(), LockMode::Exclusive).await;
    assert!(error.contains("leave the numbers"), "{error}");
}

#[tokio::test]
async fn a_creation_is_not_given_up_by_the_answers_of_a_leader_that_was_replaced() {
    let (key, own) = (key("replaced"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000001");
    let (is_created, is_deleted) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let deleted = is_deleted.clone();
    // The client meets a server that has not heard of the creation, until that finds no majority for a transaction.
    let is_behind = AtomicBool::new(true);
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) if !is_created.swap(true, Ordering::SeqCst) => {
            Some(Reply::Cut)
        }
        (MULTI, _) if !is_created.load(Ordering::SeqCst) => None,
        (MULTI, _) if is_behind.swap(false, Ordering::SeqCst) => Some(Reply::Cut),
        (MULTI, _) => Some(Reply::carried_out(request, CHILD, &child)),
        (LIST, _) if request.path == directory => {
            let is_shown = is_created.load(Ordering::SeqCst) && !is_behind.load(Ordering::SeqCst);
            let names = [&*child];
            Some(Reply::names(if is_shown { &names } else { &[] }))
        }
        (GET_DATA, _) if request.path.ends_with(&child) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::data(&text, CHILD))
        }
        (DELETE, _) => {
            deleted.store(true, Ordering::SeqCst);
            Some(Reply::Done(Vec::new()))
        }
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let error = store.acquire(AcquireRequest::new(&key, own, TTL)).await;
    assert!(error.is_err(), "{error:?}");
    eventually(LIMIT, "the release is answered", async || {
        store.release(ReleaseRequest::new(&key, own)).await.is_ok()
    })
    .await;
    assert!(is_deleted.load(Ordering::SeqCst), "it blocks the key");
}

#[tokio::test]
async fn a_base_of_an_earlier_connection_makes_no_token() {
    let base = Arc::new(AtomicU64::new(BASE));
    let (now, last) = (base.clone(), Mutex::new(String::new()));
    // It carries out whatever it is asked for, as one does that was restored from a backup with all bases.
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            let name = request.operations[1].1.rsplit('/').next().unwrap();
            *last.lock().unwrap() = format!("{name}0000000001");
            Some(Reply::carried_out(request, CHILD, &last.lock().unwrap()))
        }
        (LIST, _) if request.path != FENCE => Some(Reply::names(&[&last.lock().unwrap()])),
        (DELETE, _) => Some(Reply::Done(Vec::new())),
        _ => with_base(request, now.load(Ordering::SeqCst)),
    })
    .await;
    let proxy = Proxy::start(server.port());
    let url = server
        .url()
        .replace(&server.port().to_string(), &proxy.port().to_string());
    let store = store(&url).await;
    let ask = async || {
        let (key, owner) = (key("connection"), owner());
        let ask = AcquireRequest::new(&key, owner, TTL).queue(Queue::ForLease);
        store.acquire(ask).await
    };
    ask().await.unwrap();
    let mut granted = 0;
    for round in 1..=6 {
        proxy.freeze();
        // The session has a request under way, and another one is due.
        sleep(Duration::from_millis(1200)).await;
        proxy.refuse();
        proxy.cut();
        proxy.thaw();
        let new = BASE + 1_000_000 * round;
        base.store(new, Ordering::SeqCst);
        let connects = async {
            sleep(Duration::from_millis(200)).await;
            proxy.accept();
        };
        let (answer, ()) = tokio::join!(ask(), connects);
        if let Ok(AcquireOutcome::Granted { fence, .. }) = answer {
            assert!(
                fence > new,
                "broken promise: the token did not grow: {fence} in round {round}"
            );
            granted += 1;
        }
    }
    assert!(granted > 0, "no request waited for a connection");
}

/// It would block the key until its session ends.
#[tokio::test]
async fn a_child_whose_number_is_no_token_is_deleted_and_the_error_says_so() {
    // Beyond the greatest token.
    let base = u64::MAX - 9;
    let (key, own) = (key("used-up"), owner());
    let child = format!("{own}-exclusive-0000000001");
    let deleted = Arc::new(AtomicUsize::new(0));
    let count = deleted.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            Some(Reply::carried_out_among(request, CHILD, &child, 1))
        }
        (DELETE, _) if request.path.ends_with(&child) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Reply::Done(Vec::new()))
        }
        _ => with_base(request, base),
    })
    .await;
    let error = is_refused(&server, &key, own, LockMode::Exclusive).await;
    assert!(error.contains("use another directory"), "{error}");
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_base_is_read_once_and_again_when_another_process_has_replaced_it() {
    let (base, reads) = (
        Arc::new(AtomicU64::new(BASE)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (now, read, last) = (base.clone(), reads.clone(), Mutex::new(0));
    let server = Scripted::start(move |request| {
        let before = std::mem::replace(&mut *last.lock().unwrap(), request.code);
        let now = now.load(Ordering::SeqCst);
        match (request.code, &*request.codes()) {
            (MULTI, [CHECK, CREATE, SET_DATA]) => {
                let name = request.operations[1].1.rsplit('/').next().unwrap();
                let name = format!("{name}0000000001");
                let is_known = request.operations[0].1 == format!("{FENCE}/{now}");
                Some(if is_known {
                    Reply::carried_out_among(request, CHILD, &name, 1)
                } else {
                    Reply::refused_at(request, 0)
                })
            }
            (LIST, _) if request.path == FENCE => {
                read.lock().unwrap().push(before);
                with_base(request, now)
            }
            _ => with_base(request, now),
        }
    })
    .await;
    let store = store(&server.url()).await;
    let fence = async || {
        let (key, owner) = (key("base"), owner());
        let ask = AcquireRequest::new(&key, owner, TTL).queue(Queue::ForLease);
        match store.acquire(ask).await.unwrap() {
            AcquireOutcome::Granted { fence, .. } => fence,
            busy => panic!("{busy:?}"),
        }
    };
    let first = u64::try_from(CHILD - SINCE).unwrap();
    for _ in 0..3 {
        assert_eq!(fence().await, BASE + first);
    }
    assert_eq!(
        reads.lock().unwrap().len(),
        1,
        "a free lock takes one request"
    );
    let later = BASE + 1_000_000;
    base.store(later, Ordering::SeqCst);
    assert_eq!(fence().await, later + first);
    assert_eq!(fence().await, later + first);
    let reads = reads.lock().unwrap();
    assert_eq!(reads.len(), 2);
    assert_eq!(reads[1], SYNC, "the server may not have heard of it");
}

/// Its number says nothing about those of the base that is known now.
#[tokio::test]
async fn a_child_of_a_base_that_was_forgotten_meanwhile_is_deleted() {
    const LEASE: Duration = Duration::from_secs(30);

    let base = AtomicU64::new(BASE);
    let (is_replaced, deleted) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (replaces, count) = (is_replaced.clone(), deleted.clone());
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        // The first one of a round is refused, and the other one, which is under way, is carried out.
        (MULTI, [CHECK, CREATE, SET_DATA]) if replaces.swap(false, Ordering::SeqCst) => {
            base.fetch_add(1_000_000, Ordering::SeqCst);
            Some(Reply::refused_at(request, 0))
        }
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            let name = request.operations[1].1.rsplit('/').next().unwrap();
            let name = format!("{name}0000000001");
            Some(Reply::carried_out_among(request, CHILD, &name, 1))
        }
        (DELETE, _) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Reply::Done(Vec::new()))
        }
        _ => with_base(request, base.load(Ordering::SeqCst)),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = async || {
        let (key, owner) = (key("forgotten"), owner());
        let ask = AcquireRequest::new(&key, owner, LEASE).queue(Queue::ForLease);
        store.acquire(ask).await.unwrap()
    };
    ask().await;
    for _ in 0..50 {
        is_replaced.store(true, Ordering::SeqCst);
        let answers = tokio::join!(ask(), ask());
        for answer in [answers.0, answers.1] {
            assert!(
                matches!(answer, AcquireOutcome::Granted { .. }),
                "{answer:?}"
            );
        }
        if deleted.load(Ordering::SeqCst) > 0 {
            return;
        }
    }
    panic!("no child of an old base was deleted");
}
