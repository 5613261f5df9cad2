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
    scripted::{CHECK, CREATE, EXISTS, GET_DATA, LIST, MULTI, Reply, SET_DATA, Scripted},
    world::{LIMIT, key, owner, store},
};

const TTL: Duration = Duration::from_secs(20);

const FENCE: &str = "/dlock/fence";
/// Ahead of the clock: no base is replaced because it is late.
const BASE: u64 = 2_000_000_000_000_000;
/// The transactions of a base, and of a child behind it.
const SINCE: i64 = 5;
const CHILD: i64 = 7;

/// Acquires a key whose directory has so many children behind the creation. Returns the outcome, and the number of requests for
/// the queue and for the state of the child.
async fn acquired_among(children: i32) -> (AcquireOutcome, usize) {
    let (key, own) = (key("alone"), owner());
    let directory = format!("/dlock/lock:{key}");
    let child = format!("{own}-exclusive-0000000002");
    let other = format!("{}-exclusive-0000000001", owner());
    let reads = Arc::new(AtomicUsize::new(0));
    let count = reads.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (LIST, _) if request.path == FENCE => Some(Reply::names(&[&BASE.to_string()])),
        (EXISTS, _) if request.path.starts_with(FENCE) => Some(Reply::stat(SINCE)),
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            Some(Reply::carried_out_among(request, CHILD, &child, children))
        }
        (GET_DATA, _) if request.path.ends_with(&other) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::data(&text, SINCE + 1))
        }
        (LIST | EXISTS, _) if request.path.starts_with(&directory) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Reply::names(&[&other, &child]))
        }
        _ => None,
    })
    .await;
    let store = store(&server.url()).await;
    let ask = AcquireRequest::new(&key, own, TTL)
        .mode(LockMode::Exclusive)
        .queue(Queue::ForLease);
    let answer = within(LIMIT, store.acquire(ask)).await;
    let outcome = answer.expect("it ends").unwrap();
    (outcome, reads.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_child_that_is_alone_holds_by_the_answer_to_its_creation() {
    let (outcome, reads) = acquired_among(1).await;
    let AcquireOutcome::Granted { fence, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(fence, BASE + u64::try_from(CHILD - SINCE).unwrap());
    assert_eq!(reads, 0, "a free lock takes one request");
}

#[tokio::test]
async fn a_child_that_is_not_alone_holds_by_its_place_in_the_queue() {
    let (outcome, reads) = acquired_among(2).await;
    assert!(
        matches!(outcome, AcquireOutcome::Busy { .. }),
        "broken promise: two hold the key: {outcome:?}"
    );
    assert!(reads > 0);
}
