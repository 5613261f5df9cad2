//! The answer to a creation says whether the child is alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::LockMode;
use dlock_runtime::store::{AcquireOutcome, AcquireRequest, LockStore, Queue};
use dlock_testkit::within;

use crate::{
    scripted::{
        BASE, CHECK, CHILD, CREATE, DELETE, EXISTS, FENCE, GET_DATA, LIST, MULTI, Reply, SET_DATA,
        SINCE, Scripted,
    },
    world::{LIMIT, key, owner, store},
};

const TTL: Duration = Duration::from_secs(20);

/// The outcome of a request.
struct Acquired {
    outcome: AcquireOutcome,
    creations: usize,
    /// The number of requests for the queue and for the state of the child, once it was created.
    reads: usize,
    deletions: usize,
}

/// Acquires a key whose directory has so many children behind the creation, and seems to have none before. The first answers
/// of this number do not list them either.
async fn acquired_among(children: i32, queue: Queue, unlisted: usize) -> Acquired {
    let (key, own) = (key("alone"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000002");
    let other = format!("{}-exclusive-0000000001", owner());
    let counts: Arc<[AtomicUsize; 3]> = Arc::default();
    let counted = counts.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (LIST, _) if request.path == FENCE => Some(Reply::names(&[&BASE.to_string()])),
        (EXISTS, _) if request.path.starts_with(FENCE) => Some(Reply::stat(SINCE)),
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            counted[0].fetch_add(1, Ordering::SeqCst);
            Some(Reply::carried_out_among(request, CHILD, &child, children))
        }
        (GET_DATA, _) if request.path.ends_with(&other) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::data(&text, SINCE + 1))
        }
        (LIST, _) if request.path == directory && counted[0].load(Ordering::SeqCst) == 0 => {
            Some(Reply::names(&[]))
        }
        (LIST | EXISTS, _) if request.path.starts_with(&directory) => {
            let before = counted[1].fetch_add(1, Ordering::SeqCst);
            let names: [&str; 2] = [&other, &child];
            Some(Reply::names(if before < unlisted { &[] } else { &names }))
        }
        (DELETE, _) if request.path.ends_with(&child) => {
            counted[2].fetch_add(1, Ordering::SeqCst);
            Some(Reply::Done(Vec::new()))
        }
        _ => None,
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL)
        .mode(LockMode::Exclusive)
        .queue(queue);
    let answer = within(LIMIT, store.acquire(ask)).await;
    Acquired {
        outcome: answer.expect("it ends").unwrap(),
        creations: counts[0].load(Ordering::SeqCst),
        reads: counts[1].load(Ordering::SeqCst),
        deletions: counts[2].load(Ordering::SeqCst),
    }
}

#[tokio::test]
async fn a_child_that_is_alone_holds_by_the_answer_to_its_creation() {
    let acquired = acquired_among(1, Queue::ForLease, 0).await;
    let AcquireOutcome::Granted { fence, .. } = acquired.outcome else {
        panic!("{:?}", acquired.outcome)
    };
    assert_eq!(fence, BASE + u64::try_from(CHILD - SINCE).unwrap());
    assert_eq!(acquired.reads, 0, "a free lock takes one request");
}

#[tokio::test]
async fn a_child_that_is_not_alone_holds_by_its_place_in_the_queue() {
    let acquired = acquired_among(2, Queue::ForLease, 0).await;
    assert!(
        matches!(acquired.outcome, AcquireOutcome::Busy { .. }),
        "broken promise: two hold the key: {:?}",
        acquired.outcome
    );
    assert!(acquired.reads > 0);
    assert_eq!(acquired.deletions, 0, "it waits");
}

/// Another process was faster.
#[tokio::test]
async fn a_request_that_does_not_wait_leaves_no_child_behind_another() {
    let acquired = acquired_among(2, Queue::No, 0).await;
    assert!(
        matches!(acquired.outcome, AcquireOutcome::Busy { .. }),
        "broken promise: two hold the key: {:?}",
        acquired.outcome
    );
    assert_eq!(acquired.deletions, 1);
}

/// Another child beside it would wait for it.
#[tokio::test]
async fn a_new_child_that_its_server_does_not_list_yet_is_looked_for_again() {
    let acquired = acquired_among(2, Queue::ForLease, 1).await;
    assert!(
        matches!(acquired.outcome, AcquireOutcome::Busy { .. }),
        "broken promise: two hold the key: {:?}",
        acquired.outcome
    );
    assert_eq!(acquired.creations, 1);
}
