//! Requests without an answer, and the searches for what has become of them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_runtime::store::{
    ALIVE, AcquireOutcome, AcquireRequest, LockStore, Queue, ReleaseRequest, Released,
};
use dlock_testkit::eventually;
use tokio::time::{Instant, sleep};

use crate::{
    scripted::{
        BASE, CHECK, CHILD, CREATE, DELETE, GET_DATA, LIST, MULTI, Reply, SESSION_ID, SET_DATA,
        SINCE, Scripted, with_base,
    },
    world::{LIMIT, key, owner, store},
};

const TTL: Duration = Duration::from_secs(20);

/// The text of a child whose owner expects to hold the key.
fn text() -> String {
    format!("1 {BASE} {SINCE} 30000 - 1 - - -")
}

/// The first of these requests gets no answer, the others are carried out. `count` counts them.
fn cut_once(count: &AtomicUsize) -> Reply {
    match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Cut,
        _ => Reply::Done(Vec::new()),
    }
}

/// It begins some seconds later, and another request has found the child before.
#[tokio::test]
async fn the_search_for_a_child_ends_no_lease_that_was_granted_since() {
    let (key, own) = (key("late-search"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000001");
    let is_created = AtomicBool::new(false);
    let deletions = Arc::new(AtomicUsize::new(0));
    let count = deletions.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) if !is_created.swap(true, Ordering::SeqCst) => {
            Some(Reply::Cut)
        }
        (MULTI, _) => Some(Reply::carried_out(request, CHILD, &child)),
        (LIST, _) if request.path == directory => Some(Reply::names(&[&child])),
        (GET_DATA, _) if request.path.ends_with(&child) => Some(Reply::data(&text(), CHILD)),
        (SET_DATA, _) if request.path.ends_with(&child) => Some(Reply::stat(CHILD)),
        (DELETE, _) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Reply::Done(Vec::new()))
        }
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).queue(Queue::ForLease);
    store.acquire(ask).await.unwrap_err();
    let mut asked = Instant::now();
    eventually(LIMIT, "the owner holds the key", async || {
        asked = Instant::now();
        matches!(store.acquire(ask).await, Ok(AcquireOutcome::Granted { .. }))
    })
    .await;
    sleep(ALIVE + ALIVE / 2).await;
    let before = deletions.load(Ordering::SeqCst);
    let released = store.release(ReleaseRequest::new(&key, own)).await;
    // On a slow machine, its time is over.
    let is_late = asked.elapsed() > TTL / 2;
    assert!(
        is_late || (before == 0 && released == Ok(Released::WasHeld)),
        "broken promise: a lease was ended: {before} deletions, {released:?}"
    );
    assert_eq!(deletions.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_search_for_a_child_goes_on_until_the_child_is_deleted() {
    let (key, own) = (key("search"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000001");
    let (searches, deletions) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let count = deletions.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => Some(Reply::Cut),
        // The first search finds no majority, and the deletion of the second one gets no answer.
        (MULTI, [CHECK]) => Some(match searches.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Cut,
            _ => Reply::carried_out(request, CHILD, ""),
        }),
        (LIST, _) if request.path == directory => Some(Reply::names(&[&child])),
        (GET_DATA, _) if request.path.ends_with(&child) => Some(Reply::data(&text(), CHILD)),
        (DELETE, _) if request.path.ends_with(&child) => Some(cut_once(&count)),
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).queue(Queue::ForLease);
    store.acquire(ask).await.unwrap_err();
    eventually(LIMIT, "the child is deleted", async || {
        deletions.load(Ordering::SeqCst) > 1
    })
    .await;
}

/// A server that lost step may have had the session create two of them.
#[tokio::test]
async fn of_several_children_of_a_claim_the_first_one_of_its_session_is_held() {
    let (key, own) = (key("several"), owner());
    let directory = format!("/dlock/lock:{key}");
    let [earlier, first, second] =
        [1, 2, 3].map(|place| format!("{own}-exclusive-000000000{place}"));
    let (others, kept) = ([earlier.clone(), second.clone()], first.clone());
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let gone = deleted.clone();
    let is_created = AtomicBool::new(false);
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) if !is_created.swap(true, Ordering::SeqCst) => {
            Some(Reply::Cut)
        }
        (MULTI, _) => Some(Reply::carried_out(request, CHILD, &first)),
        (LIST, _) if request.path == directory => {
            let gone = gone.lock().unwrap();
            let all = [&*earlier, &*first, &*second];
            let left = all
                .into_iter()
                .filter(|it| !gone.iter().any(|gone| gone == it));
            Some(Reply::names(&left.collect::<Vec<_>>()))
        }
        (GET_DATA, _) if request.path.ends_with(&earlier) => {
            Some(Reply::data_of(SESSION_ID + 1, &text(), CHILD - 1))
        }
        (GET_DATA, _) if request.path.ends_with(&first) => Some(Reply::data(&text(), CHILD)),
        (GET_DATA, _) if request.path.ends_with(&second) => Some(Reply::data(&text(), CHILD + 1)),
        (SET_DATA, _) if request.path.ends_with(&first) => Some(Reply::stat(CHILD)),
        (DELETE, _) => {
            let name = request.path.rsplit('/').next().unwrap();
            gone.lock().unwrap().push(name.to_owned());
            Some(Reply::Done(Vec::new()))
        }
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).queue(Queue::ForLease);
    store.acquire(ask).await.unwrap_err();
    let mut granted = None;
    eventually(LIMIT, "an answer", async || {
        granted = store.acquire(ask).await.ok();
        granted.is_some()
    })
    .await;
    let Some(AcquireOutcome::Granted { fence, .. }) = granted else {
        panic!("{granted:?}: {:?}", deleted.lock().unwrap())
    };
    assert_eq!(fence, BASE + u64::try_from(CHILD - SINCE).unwrap());
    assert_eq!(*deleted.lock().unwrap(), others);
    let hooks = store.properties().hooks.unwrap();
    assert!(hooks.release_at_once(ReleaseRequest::new(&key, own)));
    eventually(LIMIT, "the child is deleted", async || {
        deleted.lock().unwrap().contains(&kept)
    })
    .await;
}

#[tokio::test]
async fn a_child_that_another_program_has_written_is_named() {
    let (key, own) = (key("foreign"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000001");
    let name = child.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => Some(Reply::Cut),
        (MULTI, [CHECK]) => Some(Reply::carried_out(request, CHILD, "")),
        (LIST, _) if request.path == directory => Some(Reply::names(&[&child])),
        (GET_DATA, _) if request.path.ends_with(&child) => Some(Reply::data("mine", CHILD)),
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL).queue(Queue::ForLease);
    eventually(LIMIT, "the node is named", async || {
        let error = store.acquire(ask).await.unwrap_err().to_string();
        error.contains(&name) && error.contains("delete that node")
    })
    .await;
}

/// Nothing renews it, and its session goes on.
#[tokio::test]
async fn a_lease_whose_end_gets_no_answer_is_ended_again() {
    let (key, own) = (key("ended"), owner());
    let child = format!("{own}-exclusive-0000000001");
    let deletions = Arc::new(AtomicUsize::new(0));
    let count = deletions.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            Some(Reply::carried_out_among(request, CHILD, &child, 1))
        }
        (DELETE, _) if request.path.ends_with(&child) => Some(cut_once(&count)),
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, Duration::from_secs(1)).queue(Queue::ForLease);
    let granted = async || matches!(store.acquire(ask).await, Ok(AcquireOutcome::Granted { .. }));
    assert!(granted().await);
    eventually(LIMIT, "the child is deleted", async || {
        deletions.load(Ordering::SeqCst) > 1
    })
    .await;
    assert!(granted().await, "the claim begins again");
}
