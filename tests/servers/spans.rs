//! Which span is inside which, and where events belong.
#![allow(
    clippy::async_yields_async,
    reason = "a task that was started is waited for later"
)]

use std::{
    fmt::{self, Write},
    future::Future,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use dlock::{LockError, LockManager, distributed_lock, store::memory::MemoryStore, with_manager};
use tokio::time::{sleep, timeout};
use tracing::{
    Dispatch, Event, Instrument, Subscriber, debug, error_span,
    field::{Field, Visit},
    info, instrument,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    EnvFilter, Layer,
    layer::{Context, SubscriberExt},
    registry::{LookupSpan, Registry},
};

/// The spans and events of this thread, each event with the spans that it is inside of.
#[derive(Clone, Default)]
struct Tree(Arc<Mutex<Grown>>);

#[derive(Default)]
struct Grown {
    /// The fields of the spans named `lock`.
    locks: Vec<String>,
    events: Vec<String>,
}

/// The place of a span named `lock`.
struct Place(usize);

impl Tree {
    /// Grows until the guard is dropped, by what passes the filter.
    fn grow(filter: &str) -> (Self, DefaultGuard) {
        // As in `common::Log`: with two subscribers each thread is asked for itself.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Registry::default().with(Self::default())));
        let tree = Self::default();
        let subscriber = Registry::default()
            .with(EnvFilter::new(filter))
            .with(tree.clone());
        (tree, tracing::subscriber::set_default(subscriber))
    }

    fn events(&self) -> Vec<String> {
        self.0.lock().unwrap().events.clone()
    }

    /// Where the event with this text belongs, and its fields; there is one of it.
    #[track_caller]
    fn event(&self, text: &str) -> String {
        let events = self.events();
        let mut found = events.iter().filter(|event| event.contains(text));
        let (Some(event), None) = (found.next(), found.next()) else {
            panic!("not one `{text}` in {events:#?}")
        };
        event.clone()
    }

    fn locks(&self) -> Vec<String> {
        self.0.lock().unwrap().locks.clone()
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Tree {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if span.metadata().name() == "lock" {
            let mut fields = String::new();
            span.record(&mut Fields(&mut fields));
            let locks = &mut self.0.lock().unwrap().locks;
            let span = context.span(id).unwrap();
            span.extensions_mut().insert(Place(locks.len()));
            locks.push(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if let Some(Place(place)) = span.extensions().get() {
            let locks = &mut self.0.lock().unwrap().locks;
            values.record(&mut Fields(&mut locks[*place]));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let scope = context.event_scope(event).into_iter();
        let spans = scope.flat_map(tracing_subscriber::registry::Scope::from_root);
        let names: Vec<_> = spans.map(|span| span.name()).collect();
        let mut text = format!("{}:", names.join(" > "));
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().events.push(text);
    }
}

#[instrument]
#[distributed_lock(key = "order:<id>", wait = "1s")]
async fn above(id: u64) -> Result<(), LockError> {
    info!("body");
    sleep(Duration::from_secs(2)).await;
    info!("end");
    Ok(())
}

#[distributed_lock(key = "order:<id>")]
#[instrument]
async fn below(id: u64) -> Result<(), LockError> {
    info!("body");
    Ok(())
}

#[distributed_lock(key = "order:<id>", on_cancel = detach)]
async fn pay(id: u64) -> Result<(), LockError> {
    sleep(Duration::from_secs(2)).await;
    info!("paid");
    Ok(())
}

#[instrument(skip_all)]
async fn handler<F: Future>(call: F) -> F::Output {
    call.await
}

#[tokio::test(start_paused = true)]
async fn the_body_is_inside_its_lock_and_the_lock_inside_its_caller() {
    let (tree, _guard) = Tree::grow("dlock=trace,servers::spans=info");
    let manager = LockManager::memory();
    let call = with_manager(manager, async {
        below(7).await?;
        above(8).await
    });
    handler(call).await.unwrap();
    let [below, above] = &tree.locks()[..] else {
        panic!("{:?}", tree.locks())
    };
    for (fields, id, function) in [(below, 7, "below"), (above, 8, "above")] {
        for field in [
            format!("key=order:{id}"),
            format!("site=servers::spans::{function} (tests/servers/spans.rs:"),
            "template=\"order:<id>\"".to_owned(),
            "token=".to_owned(),
            // How many is up to the machine: the boot clock of a test with paused time goes on.
            "waited_ms=".to_owned(),
        ] {
            assert!(fields.contains(&field), "no `{field}` in{fields}");
        }
    }
    let bodies = tree.events();
    let bodies: Vec<_> = bodies
        .iter()
        .filter(|event| event.ends_with("body"))
        .collect();
    assert_eq!(
        bodies,
        [
            "handler > below > lock: message=body",
            "handler > lock > above: message=body"
        ]
    );
}

#[test]
fn the_body_of_a_thread_is_inside_its_lock_and_the_lock_inside_its_caller() {
    #[distributed_lock(key = "order:<id>", on_lost = finish)]
    fn blocks(id: u64) -> Result<(), LockError> {
        info!("body");
        Ok(())
    }

    let (tree, _guard) = Tree::grow("dlock=trace,servers::spans=info");
    let _caller = error_span!("caller").entered();
    dlock::blocking::with_manager(LockManager::memory(), || blocks(7)).unwrap();
    let [lock] = &tree.locks()[..] else {
        panic!("{:?}", tree.locks())
    };
    assert!(
        lock.contains("key=order:7") && lock.contains("token="),
        "{lock}"
    );
    let bodies = tree
        .events()
        .into_iter()
        .filter(|event| event.ends_with("body"));
    assert_eq!(bodies.collect::<Vec<_>>(), ["caller > lock: message=body"]);
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_drops_the_span_does_not_cut_events_off() {
    let (tree, _guard) = Tree::grow("warn");
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let body = manager.lock("order:42").run(async |_| {
        store.forget();
        std::future::pending::<()>().await;
    });
    let lost = body.instrument(error_span!("request")).await;
    assert_eq!(lost.unwrap_err().code(), "lost");
    let event = tree.event("lease lost");
    assert!(event.starts_with("request:"), "{event}");
    assert!(event.contains("key=order:42"), "{event}");
    assert_eq!(tree.locks(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn how_a_lease_came_is_told() {
    let (tree, _guard) = Tree::grow("dlock=debug,servers::spans=info");
    let store = MemoryStore::new();
    let [here, there] = [(); 2].map(|()| {
        LockManager::builder()
            .build_with_store(store.clone())
            .unwrap()
    });
    let next = async |manager: &LockManager, template| {
        let lock = manager.lock("k").metric(template);
        let next = tokio::spawn(async move { lock.acquire().await });
        sleep(Duration::from_millis(1)).await;
        next
    };
    let hand_over = async || {
        let first = here.lock("k").acquire().await.unwrap();
        let second = next(&here, "second").await;
        first.release().await.unwrap();
        second.await.unwrap().unwrap()
    };
    let mut second = hand_over().await;
    // A turn is 10 ms by the machine's clock as well, which a paused test does not stop.
    while !tree.events().concat().contains("origin=\"handed-over\"") {
        second.release().await.unwrap();
        second = hand_over().await;
    }
    let third = next(&there, "third").await;
    second.release().await.unwrap();
    third.await.unwrap().unwrap().release().await.unwrap();
    let events = tree.events();
    for origin in ["requested", "handed-over", "granted"] {
        let origin = format!("origin=\"{origin}\"");
        let mut found = events.iter().filter(|event| event.contains(&origin));
        let event = found.next().expect("the lease came this way");
        assert!(event.starts_with("lock: message=acquired"), "{event}");
    }
    let locks = tree.locks();
    assert!(!locks[0].contains("template"), "{locks:?}");
    assert!(locks[1].contains("template=\"second\""), "{locks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_span_names_the_mode_of_its_call() {
    let (tree, _guard) = Tree::grow("dlock=debug,servers::spans=info");
    let manager = LockManager::memory();
    let lock = || manager.lock("k");
    for request in [lock(), lock().shared(), lock().permits(3)] {
        request.acquire().await.unwrap().release().await.unwrap();
    }
    let locks = tree.locks();
    for (span, mode) in locks.iter().zip(["exclusive", "shared", "permits"]) {
        assert!(span.contains(&format!("mode=\"{mode}\"")), "{span}");
    }
    assert_eq!(locks.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_without_its_caller_is_still_inside_its_lock() {
    let (tree, _guard) = Tree::grow("dlock=debug,servers::spans=info");
    let manager = LockManager::memory();
    let call = handler(with_manager(manager.clone(), pay(42)));
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    manager.shutdown(Duration::from_secs(5)).await;
    for event in ["call cancelled: the body continues without it", "paid"] {
        let event = tree.event(event);
        assert!(event.starts_with("handler > lock:"), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_its_caller_is_inside_its_callers_span_also_where_that_of_the_lock_is_not_wanted()
 {
    let (tree, _guard) = Tree::grow("servers::spans=info");
    let manager = LockManager::memory();
    let call = handler(with_manager(manager.clone(), pay(42)));
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    manager.shutdown(Duration::from_secs(5)).await;
    assert_eq!(tree.events(), ["handler: message=paid"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_no_longer_is_told_of() {
    let (tree, _guard) = Tree::grow("dlock=debug,servers::spans=info");
    let manager = LockManager::memory();
    let guard = manager.lock("k").acquire().await.unwrap();
    let waiting = handler(manager.lock("k").acquire());
    assert!(timeout(Duration::from_secs(1), waiting).await.is_err());
    let event = tree.event("call cancelled: not acquired");
    assert!(
        event.starts_with("handler > lock:") && event.contains("key=k"),
        "{event}"
    );
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_a_question_is_told_with_its_function() {
    let (tree, _guard) = Tree::grow("warn");
    assert_eq!(pay(42).await.unwrap_err().code(), "not-installed");
    let event = tree.event("not acquired");
    assert!(
        event.starts_with(": message=not acquired key=order:42 site=servers::spans::pay"),
        "{event}"
    );
    assert!(event.contains("template=\"order:<id>\""), "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_filter_may_show_more_of_the_bodies_of_one_template() {
    let (tree, _guard) = Tree::grow("info,[lock{template=order:<id>}]=debug");
    let manager = LockManager::memory();
    for template in ["account:<id>", "order:<id>"] {
        let lock = manager.lock(template).metric(template);
        lock.run(async |_| debug!("of {template}")).await.unwrap();
    }
    assert_eq!(tree.events(), ["lock: message=of order:<id>"]);
}
