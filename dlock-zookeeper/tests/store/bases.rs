//! Bases of fences that other processes make and replace meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_runtime::store::{AcquireOutcome, AcquireRequest, LockStore, Queue};
use dlock_testkit::within;

use crate::{
    scripted::{
        BASE, CHECK, CHILD, CREATE, DELETE, EXISTS, FENCE, LIST, MULTI, NODE_EXISTS, Reply,
        Request, SET_DATA, SINCE, Scripted, with_base,
    },
    world::{LIMIT, key, owner, store},
};

const TTL: Duration = Duration::from_secs(20);

/// The name of a child that a transaction creates.
fn child(request: &Request) -> String {
    let name = request.operations[1].1.rsplit('/').next().unwrap();
    format!("{name}0000000001")
}

/// Acquires a key, and returns the fence.
async fn fence(server: &Scripted) -> u64 {
    let store = store(&server.url()).await;
    let (key, owner) = (key("bases"), owner());
    let ask = AcquireRequest::new(&key, owner, TTL).queue(Queue::ForLease);
    match within(LIMIT, store.acquire(ask)).await {
        Some(Ok(AcquireOutcome::Granted { fence, .. })) => fence,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn bases_that_cannot_be_replaced_by_one_are_read_again() {
    let later = BASE + 7;
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (LIST, _) if request.path == FENCE => {
            Some(Reply::names(&[&later.to_string(), &BASE.to_string()]))
        }
        // The new one cannot be made at first, though the old ones are there.
        (MULTI, [DELETE, DELETE, CREATE]) => Some(match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::refused_at(request, 2),
            1 => Reply::refused_with(request, 2, NODE_EXISTS),
            _ => Reply::carried_out(request, CHILD, ""),
        }),
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            Some(Reply::carried_out_among(request, CHILD, &child(request), 1))
        }
        (EXISTS, _) if request.path.starts_with(FENCE) => Some(Reply::stat(SINCE)),
        _ => None,
    })
    .await;
    let fence = fence(&server).await;
    assert!(
        fence > later,
        "broken promise: the token did not grow: {fence} after tokens from {later} on"
    );
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_base_that_another_process_makes_first_is_taken() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CREATE, CREATE]) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Reply::refused_with(request, 0, NODE_EXISTS))
        }
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            Some(Reply::carried_out_among(request, CHILD, &child(request), 1))
        }
        // It was not there when this process looked.
        (LIST, _) if request.path == FENCE && count.load(Ordering::SeqCst) == 0 => None,
        _ => with_base(request, BASE),
    })
    .await;
    let first = u64::try_from(CHILD - SINCE).unwrap();
    assert_eq!(fence(&server).await, BASE + first);
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}
