//! Work on many locks is left to the threads for blocking work. Here there is one of them, and it is busy.

use std::{sync::mpsc, time::Duration};

use axum::{Router, body::Body};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

use super::{
    super::{router, work::MANY},
    Answer,
    fake::{Fake, held},
    get, request, send,
};

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().max_blocking_threads(1);
    builder.build().unwrap()
}

/// Keeps the thread busy until it is dropped.
struct Busy(#[expect(dead_code, reason = "it is dropped")] mpsc::Sender<()>);

async fn busy() -> Busy {
    let (end, ended) = mpsc::channel::<()>();
    let (started, is_started) = oneshot::channel();
    spawn_blocking(move || {
        started.send(()).unwrap();
        // An error is the end.
        assert!(ended.recv().is_err());
    });
    is_started.await.unwrap();
    Busy(end)
}

fn router_of(count: usize) -> Router {
    let locks = (0..count).map(|it| held(&format!("n:{it:05}"), 1, "cron@host/1"));
    router(Fake::with(locks.collect()))
}

fn state(answer: &Answer) -> String {
    let told = answer.json();
    told["picture"]["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_picture_of_many_locks_is_made_by_another_thread() {
    runtime().block_on(async {
        for (count, expected) in [(MANY - 1, "live"), (MANY, "reading")] {
            let router = router_of(count);
            let thread = busy().await;
            // A single request waits for the first picture for a second.
            assert_eq!(state(&get(&router, "/api/picture").await), expected);
            drop(thread);
            while state(&get(&router, "/api/picture").await) != "live" {}
        }
    });
}

#[test]
fn documents_about_many_locks_are_made_by_another_thread() {
    runtime().block_on(async {
        for (count, is_elsewhere) in [(MANY - 1, false), (MANY, true)] {
            let router = router_of(count);
            while state(&get(&router, "/api/picture").await) != "live" {}
            for path in [
                "/api/picture?sort=held",
                "/api/lock?key=n:00001",
                "/api/processes",
                "/api/doctor",
            ] {
                // The lock has been read, but the findings about servers are kept for a while.
                if path != "/api/doctor" {
                    get(&router, path).await;
                }
                let thread = busy().await;
                let asked = router.clone();
                let document = tokio::spawn(async move {
                    let request = request("GET", path).body(Body::empty()).unwrap();
                    send(&asked, request).await
                });
                let limit = Duration::from_secs(60);
                if is_elsewhere {
                    // All tasks of the runtime that can go on have done so.
                    for _ in 0..1000 {
                        yield_now().await;
                    }
                    assert!(!document.is_finished(), "{path}");
                    drop(thread);
                }
                let answer = tokio::time::timeout(limit, document).await;
                let answer = answer.expect("it comes").unwrap();
                assert!(answer.status.is_success(), "{}", answer.text);
            }
        }
    });
}
