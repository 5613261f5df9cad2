//! The traces of claims that have ended.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock_runtime::{random::SystemRandom, store::RenewRequest};
use dlock_testkit::eventually;

use self::scripted::{
    BASE, CHECK, CHILD, CREATE, DELETE, GET_DATA, LIST, MULTI, NO_AUTH, Reply, Request, SET_DATA,
    SINCE, Scripted, with_base,
};
use super::*;

#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../tests/store/scripted.rs"]
mod scripted;

const LIMIT: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(20);

/// A child of another process.
const OTHER: &str = "7d4448409dc011d1b2455ffdce74fad2.1-exclusive-0000000001";

/// The answer of the server, which goes by the name of the key.
fn answer(request: &Request, own: &Mutex<String>, is_cut: &AtomicBool) -> Option<Reply> {
    let path = match &request.operations[..] {
        [_, (_, path), ..] => path,
        _ => &request.path,
    };
    let is_of = |name: &str| path.contains(&format!("lock:{name}"));
    match (request.code, &*request.codes()) {
        (MULTI, [CHECK, CREATE, SET_DATA]) if is_of("cut") => Some(Reply::Cut),
        (MULTI, [CHECK, CREATE, SET_DATA]) if is_of("refused") => {
            Some(Reply::refused_with(request, 1, NO_AUTH))
        }
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            let name = format!("{}0000000002", path.rsplit('/').next()?);
            let among = if is_of("behind") { 2 } else { 1 };
            let reply = Reply::carried_out_among(request, CHILD, &name, among);
            *own.lock().unwrap() = name;
            Some(reply)
        }
        (MULTI, [CHECK]) => Some(Reply::carried_out(request, CHILD, "")),
        // A watch.
        (LIST, _) if path.ends_with(OTHER) => Some(Reply::names(&[])),
        (LIST, _) if is_of("behind") => {
            let own = own.lock().unwrap();
            Some(Reply::names(&[OTHER, own.as_str()]))
        }
        (GET_DATA, _) if path.ends_with(OTHER) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::fresh(&text, SINCE + 1))
        }
        (SET_DATA, _) => Some(Reply::stat(CHILD)),
        // Each second one is carried out.
        (DELETE, _) if is_of("late") && !is_cut.fetch_xor(true, Ordering::SeqCst) => {
            Some(Reply::Cut)
        }
        (DELETE, _) => Some(Reply::Done(Vec::new())),
        _ => with_base(request, BASE),
    }
}

fn ask(key: &LockKey, owner: OwnerId, ttl: Duration) -> AcquireRequest<'_> {
    AcquireRequest::new(key, owner, ttl).queue(Queue::ForLease)
}

/// Claims that end in each way.
async fn claims(store: &ZooKeeperStore, round: u32) {
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let [held, refused, behind, cut, late] = ["held", "refused", "behind", "cut", "late"]
        .map(|name| LockKey::new(format!("{name}-{round}")).unwrap());
    let granted = store.acquire(ask(&held, owner, TTL)).await;
    assert!(
        matches!(granted, Ok(AcquireOutcome::Granted { .. })),
        "{granted:?}"
    );
    for _ in 0..2 {
        let renewal = RenewRequest::new(&held, owner, TTL);
        assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    }
    let released = store.release(ReleaseRequest::new(&held, owner)).await;
    assert_eq!(released, Ok(Released::WasHeld));

    store.acquire(ask(&refused, owner, TTL)).await.unwrap_err();

    let busy = store.acquire(ask(&behind, owner, TTL)).await;
    assert!(matches!(busy, Ok(AcquireOutcome::Busy(_))), "{busy:?}");
    let released = store.release(ReleaseRequest::new(&behind, owner)).await;
    assert_eq!(released, Ok(Released::WasGone));

    // Nothing was created.
    store.acquire(ask(&cut, owner, TTL)).await.unwrap_err();
    eventually(LIMIT, "the release is answered", async || {
        let released = store.release(ReleaseRequest::new(&cut, owner)).await;
        released == Ok(Released::WasGone)
    })
    .await;

    // The answer to its release is lost, and its time ends.
    let brief = Duration::from_secs(1);
    eventually(LIMIT, "it is granted", async || {
        let granted = store.acquire(ask(&late, owner, brief)).await;
        matches!(granted, Ok(AcquireOutcome::Granted { .. }))
    })
    .await;
    let release = ReleaseRequest::new(&late, owner);
    store.release(release).await.ok();
}

#[tokio::test]
async fn nothing_is_left_of_claims_that_have_ended() {
    let (own, is_cut) = (Mutex::default(), AtomicBool::default());
    let server = Scripted::start(move |request| answer(request, &own, &is_cut)).await;
    let mut options = StoreOptions::default();
    options.response_timeout = Duration::from_secs(10);
    let store = ZooKeeperStore::open(&server.url(), &options).unwrap();
    let tasks = || store.worker.handle().metrics().num_alive_tasks();
    // The first ones may start tasks that stay.
    claims(&store, 1).await;
    let before = tasks();
    claims(&store, 2).await;
    let core = &store.core;
    eventually(LIMIT, "nothing is left", async || {
        let is_empty = core.slots.is_empty() && core.timers.is_empty() && core.answers.is_empty();
        is_empty && tasks() <= before
    })
    .await;
}
