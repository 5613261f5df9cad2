//! Streams of events, and outages.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use axum::{Router, body::Body, http::StatusCode};
use dlock_admin::Inspect;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tower::ServiceExt as _;

use super::{
    super::{Page, router},
    fake::{Fake, held, owner},
    get, request,
};

/// A stream that a browser reads.
struct Stream(axum::body::BodyDataStream);

impl Stream {
    async fn open(router: &Router, path: &str) -> Self {
        let request = request("GET", path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self(response.into_body().into_data_stream())
    }

    /// Returns the next part, or `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let part = timeout(Duration::from_secs(60), self.0.next()).await;
        let part = part.expect("something comes")?.unwrap();
        Some(String::from_utf8(part.to_vec()).unwrap())
    }

    /// Returns the document of the next event with this name, behind comments.
    async fn event(&mut self, name: &str) -> Value {
        loop {
            let part = self.next().await.expect("it goes on");
            if part.starts_with(':') {
                continue;
            }
            let data = part.strip_prefix(&format!("event: {name}\ndata: "));
            let data = data.and_then(|it| it.strip_suffix("\n\n"));
            let data = data.unwrap_or_else(|| panic!("{part}"));
            assert!(!data.contains('\n'), "{data}");
            return serde_json::from_str(data).unwrap();
        }
    }

    /// Returns the first document that fits.
    async fn until(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let told = self.event(name).await;
            if fits(&told) {
                return told;
            }
        }
    }
}

fn is(state: &str) -> impl Fn(&Value) -> bool {
    move |told| told["picture"]["state"] == state
}

#[tokio::test(start_paused = true)]
async fn so_many_streams_are_open_at_the_same_time() {
    let router = router(Fake::with(vec![held("a", 1, "cron@host/1")]));
    let mut open = Vec::new();
    for _ in 0..256 {
        open.push(Stream::open(&router, "/api/picture/events").await);
    }
    for path in ["/api/picture/events", "/api/lock/events?key=a"] {
        // A stream that is opened has no end.
        let refused = timeout(Duration::from_secs(60), get(&router, path)).await;
        let refused = refused.expect("it is refused");
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(refused.text.contains("close some"), "{}", refused.text);
    }
    assert_eq!(get(&router, "/api/picture").await.status, StatusCode::OK);
    open.pop();
    let mut again = Stream::open(&router, "/api/lock/events?key=a").await;
    again.event("lock").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_client_reads_nothing() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let router = router(fake.clone());
    let mut open = Vec::new();
    for path in ["/api/picture/events", "/api/lock/events?key=a"].repeat(128) {
        open.push(Stream::open(&router, path).await);
    }
    // Of the others nothing is read at all.
    let (picture, lock) = open.split_at_mut(1);
    picture[0].event("picture").await;
    lock[0].event("lock").await;
    sleep(Duration::from_secs(59)).await;
    let refused = get(&router, "/api/picture/events").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    // Nothing is read for them, though their connections are still there.
    sleep(Duration::from_secs(11)).await;
    let before = (fake.looks(), fake.looks_at_one.load(SeqCst));
    sleep(Duration::from_secs(600)).await;
    assert_eq!((fake.looks(), fake.looks_at_one.load(SeqCst)), before);
    for stream in &mut open {
        assert_eq!(stream.next().await, None);
    }
    let mut again = Stream::open(&router, "/api/picture/events").await;
    again.event("picture").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_client_reads_slowly_goes_on() {
    let router = router(Fake::with(vec![held("a", 1, "cron@host/1")]));
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    for _ in 0..10 {
        stream.event("picture").await;
        sleep(Duration::from_secs(59)).await;
    }
    // A server that waits for the next event is not late.
    let page = Page::new(Fake::with(Vec::new())).interval(Duration::from_secs(600));
    let mut stream = Stream::open(&page.into_router(), "/api/picture/events").await;
    stream.until("picture", is("live")).await;
    for _ in 0..20 {
        stream.event("picture").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_comes_at_once_and_after_each_picture() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    *fake.takes.lock().unwrap() = Duration::from_secs(3);
    let router = router(fake.clone());
    let mut stream = Stream::open(&router, "/api/picture/events?filter=a").await;
    let began = Instant::now();
    let first = stream.event("picture").await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(first["picture"]["state"], "reading");
    assert_eq!(first["locks"], json!([]));
    let progress = stream.event("picture").await;
    assert_eq!(progress["picture"]["progress"], 0.25);
    let picture = stream.until("picture", is("live")).await;
    assert_eq!(picture["locks"][0]["key"], "a");
    assert_eq!(picture["picture"]["took_ms"], 3000);
    fake.set(vec![held("b", 2, "a@host/1"), held("c", 3, "cron")]);
    let later = stream
        .until("picture", |told| told["locks"][0]["key"] == "b")
        .await;
    assert_eq!(later["list"]["matching"], 1, "the filter stays");
}

#[tokio::test(start_paused = true)]
async fn all_browsers_share_one_reading() {
    let count = async |browsers: usize| {
        let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
        let router = router(fake.clone());
        let mut streams = Vec::new();
        for _ in 0..browsers {
            streams.push(Stream::open(&router, "/api/picture/events").await);
        }
        for stream in &mut streams {
            stream.until("picture", is("live")).await;
        }
        sleep(Duration::from_secs(61)).await;
        fake.looks()
    };
    let one = count(1).await;
    assert!((20..=32).contains(&one), "{one}");
    assert_eq!(count(10).await, one);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_without_a_browser() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let router = router(fake.clone());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.looks(), 0);
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    let mut of_lock = Stream::open(&router, "/api/lock/events?key=a").await;
    stream.until("picture", is("live")).await;
    of_lock.until("lock", |told| !told["lock"].is_null()).await;
    drop((stream, of_lock));
    sleep(Duration::from_secs(10)).await;
    let before = (fake.looks(), fake.looks_at_one.load(SeqCst));
    sleep(Duration::from_secs(600)).await;
    assert_eq!((fake.looks(), fake.looks_at_one.load(SeqCst)), before);
    // The next one does not see what is ten minutes old.
    fake.set(Vec::new());
    let told = get(&router, "/api/picture").await.json();
    assert_eq!(told["totals"]["locks"], 0);
    assert_eq!(fake.looks(), before.0 + 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_shown_with_its_reason_and_the_last_picture() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let router = router(fake.clone());
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    let live = stream.until("picture", is("live")).await;
    fake.is_away.store(true, SeqCst);
    let away = stream.until("picture", is("away")).await;
    assert!(
        away["picture"]["reason"]
            .as_str()
            .unwrap()
            .contains("the store is away")
    );
    assert!(away["picture"]["since"].is_string());
    assert_eq!(away["picture"]["taken"], live["picture"]["taken"]);
    assert_eq!(away["locks"][0]["key"], "a", "the last picture stays");
    sleep(Duration::from_secs(30)).await;
    let later = get(&router, "/api/picture").await.json();
    assert!(later["picture"]["age_ms"].as_u64().unwrap() >= 30_000);
    assert_eq!(later["picture"]["since"], away["picture"]["since"]);
    fake.is_away.store(false, SeqCst);
    let back = stream.until("picture", is("live")).await;
    assert_eq!(back["picture"]["reason"], Value::Null);
    assert!(back["picture"]["age_ms"].as_u64().unwrap() < 5000);
}

#[tokio::test(start_paused = true)]
async fn a_store_may_come_after_the_page() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let attempts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (counted, store) = (attempts.clone(), fake.clone());
    let page = Page::connecting(move || {
        let (attempt, store) = (counted.fetch_add(1, SeqCst), store.clone());
        async move {
            let store: std::sync::Arc<dyn Inspect> = store;
            if attempt < 3 {
                Err("no route to it")
            } else {
                Ok(store)
            }
        }
    });
    let router = page.namespace("shop").into_router();
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    let away = stream.until("picture", is("away")).await;
    assert_eq!(away["picture"]["reason"], "no route to it");
    assert_eq!(away["picture"]["age_ms"], Value::Null);
    assert_eq!(away["totals"]["locks"], Value::Null);
    assert_eq!(
        away["server"],
        json!({"name": null, "product": null, "version": null, "namespace": "shop"})
    );
    let live = stream.until("picture", is("live")).await;
    assert_eq!(live["locks"][0]["key"], "a");
    assert_eq!(attempts.load(SeqCst), 4);
    assert_eq!(fake.begun.load(SeqCst), 1);
    // One that fails is not read without pauses again.
    fake.is_away.store(true, SeqCst);
    stream.until("picture", is("away")).await;
    fake.is_away.store(false, SeqCst);
    stream.until("picture", is("live")).await;
    assert!(attempts.load(SeqCst) > 4, "it has connected again");
    assert_eq!(fake.begun.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_the_server_and_are_never_quiet_for_long() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let (end, ended) = oneshot::channel::<()>();
    let page = Page::new(fake).interval(Duration::from_secs(40));
    let router = page.until(async move { drop(ended.await) }).into_router();
    for (path, name) in [
        ("/api/picture/events", "picture"),
        ("/api/lock/events?key=a", "lock"),
    ] {
        let mut stream = Stream::open(&router, path).await;
        stream.until(name, is("live")).await;
        let began = Instant::now();
        for _ in 0..10 {
            let told = stream.event(name).await;
            assert_eq!(told["picture"]["state"], "live");
        }
        // The first few may follow a reading.
        let took = began.elapsed();
        assert!((60..=150).contains(&took.as_secs()), "{took:?}");
    }
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    stream.until("picture", is("live")).await;
    end.send(()).unwrap();
    let mut late = 0;
    while let Some(part) = stream.next().await {
        assert!(part.starts_with("event"), "{part}");
        late += 1;
        assert!(late < 10, "it goes on");
    }
    let told = get(&router, "/api/picture").await.json();
    assert_eq!(
        told["picture"]["state"], "live",
        "single requests are answered"
    );
}

#[tokio::test(start_paused = true)]
async fn grants_are_counted() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let router = router(fake.clone());
    let mut stream = Stream::open(&router, "/api/picture/events").await;
    stream.until("picture", is("live")).await;
    for second in 0..12 {
        for number in 0..3 {
            fake.grant("a", owner(number), 100 + second * 3 + number);
        }
        sleep(Duration::from_secs(1)).await;
    }
    let told = get(&router, "/api/picture").await.json();
    assert_eq!(told["totals"]["grants_per_s"], 3);
    let told = get(&router, "/api/lock?key=a").await.json();
    let holds = told["history"]["holds"].as_array().unwrap();
    assert!(holds.len() >= 36, "{}", holds.len());
    assert_eq!(holds[1]["end"], "granted", "{:#}", holds[1]);
}
