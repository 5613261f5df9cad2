//! The requests of an inspector, at a server that answers as a test wants.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_admin::{Inspect, Unlocked};
use dlock_runtime::{StoreError, StoreErrorKind, store::StoreOptions};
use dlock_testkit::{Proxy, eventually};
use dlock_zookeeper::admin::ZooKeeperInspector;

use super::{claim, inspector, key, seen};
use crate::{
    scripted::{
        BAD_VERSION, DELETE, GET_DATA, LIST, MULTI, MULTI_READ, NO_AUTH, PING, Reply, Request,
        SET_DATA, SYNC, Scripted,
    },
    world::LIMIT,
};

/// A server with a lock that is held, which answers in this way before.
async fn held(answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Scripted {
    let child = claim(1, "exclusive");
    Scripted::start(move |request| {
        let children = [&*child];
        answer(request).or_else(|| match (request.code, &*request.codes()) {
            (LIST, _) if request.path == "/dlock" => Some(Reply::names(&["lock:held"])),
            (MULTI_READ, _) => Some(Reply::names_of_each(request, |_| Some(&children[..]))),
            (GET_DATA, _) if request.path.ends_with(&child) => {
                Some(Reply::data("1 7 5 30000 - 1 - - -", 7))
            }
            // The messages of operators.
            (GET_DATA, _) if request.path == "/dlock/notice" => Some(Reply::data("", 1)),
            (MULTI, [DELETE, SET_DATA]) => Some(Reply::carried_out(request, 1, "")),
            _ => None,
        })
    })
    .await
}

#[tokio::test]
async fn each_look_begins_when_the_server_has_caught_up_with_the_others() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let server = held(move |request| {
        if request.code != PING {
            noted.lock().unwrap().push(request.code);
        }
        None
    })
    .await;
    let inspector = inspector(&server.url()).await;
    let first = || asked.lock().unwrap().first().copied();
    let forget = || asked.lock().unwrap().clear();
    let lock = seen(&inspector, "held").await;
    assert_eq!(first(), Some(SYNC));
    forget();
    assert_eq!(inspector.locks(None).await.unwrap().len(), 1);
    assert_eq!(first(), Some(SYNC));
    forget();
    let locks = inspector.locks_of(&[key("held")]).await.unwrap();
    assert_eq!((locks.len(), first()), (1, Some(SYNC)));
    forget();
    let unlocked = inspector.unlock(&lock, None).await.unwrap();
    assert_eq!((unlocked, first()), (Unlocked::Freed, Some(SYNC)));
}

#[tokio::test]
async fn a_look_whose_connection_breaks_is_sent_once_more_and_a_refused_one_is_not() {
    // How often the connection breaks before the answer, whether that is a refusal, and how often it is sent.
    for (breaks, is_refused, kind, sent) in [
        (1, false, None, 2),
        (2, false, Some(StoreErrorKind::Disconnected), 2),
        (0, true, Some(StoreErrorKind::Denied), 1),
    ] {
        let tries = Arc::new(AtomicUsize::new(0));
        let count = tries.clone();
        let server = held(move |request| {
            let is_listing = request.code == LIST && request.path == "/dlock";
            if !is_listing {
                return None;
            }
            if count.fetch_add(1, Ordering::SeqCst) < breaks {
                return Some(Reply::Cut);
            }
            is_refused.then_some(Reply::Refused(NO_AUTH))
        })
        .await;
        let locks = inspector(&server.url()).await.locks(None).await;
        assert_eq!(
            locks.as_ref().err().map(StoreError::kind),
            kind,
            "{locks:?}"
        );
        assert_eq!(tries.load(Ordering::SeqCst), sent);
    }
}

#[tokio::test]
async fn a_session_that_has_not_answered_in_time_is_not_used_again() {
    let server = held(|_| None).await;
    let proxy = Proxy::start(server.port());
    let mut options = StoreOptions::default();
    options.response_timeout = Duration::from_secs(5);
    options.connect_timeout = LIMIT;
    let url = format!("zookeeper://127.0.0.1:{}?session=120s", proxy.port());
    let inspector = ZooKeeperInspector::connect(&url, &options).await.unwrap();
    eventually(LIMIT, "the lock is seen", async || {
        inspector.locks(None).await.is_ok()
    })
    .await;
    let before = proxy.accepted_connections();
    proxy.freeze();
    let error = inspector.locks(None).await.unwrap_err();
    proxy.thaw();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    eventually(LIMIT, "the lock is seen again", async || {
        inspector.locks(None).await.is_ok()
    })
    .await;
    assert!(proxy.accepted_connections() > before, "it is the old one");
}

#[tokio::test]
async fn a_lease_that_changes_is_read_again_before_it_is_ended() {
    for (changes, rounds) in [(1, 2), (usize::MAX, 16)] {
        let tries = Arc::new(AtomicUsize::new(0));
        let count = tries.clone();
        let server = held(move |request| {
            let is_end = request.code == MULTI && request.codes() == [DELETE, SET_DATA];
            let is_refused = is_end && count.fetch_add(1, Ordering::SeqCst) < changes;
            is_refused.then(|| Reply::refused_with(request, 0, BAD_VERSION))
        })
        .await;
        let inspector = inspector(&server.url()).await;
        let lock = seen(&inspector, "held").await;
        match inspector.unlock(&lock, None).await {
            Ok(unlocked) => assert_eq!((unlocked, changes), (Unlocked::Freed, 1)),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Refused);
                let text = error.to_string();
                assert!(text.contains("changed with every attempt"), "{text}");
                assert!(changes > 1, "{text}");
            }
        }
        assert_eq!(tries.load(Ordering::SeqCst), rounds);
    }
}

#[tokio::test]
async fn an_answer_about_other_nodes_than_those_asked_for_is_refused() {
    let server = held(|request| {
        let none = Request {
            code: MULTI_READ,
            path: String::new(),
            operations: Vec::new(),
        };
        let is_many = request.code == MULTI_READ;
        is_many.then(|| Reply::names_of_each(&none, |_| None))
    })
    .await;
    let inspector = inspector(&server.url()).await;
    let error = inspector.locks(None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::BadAnswer, "{error}");
}
