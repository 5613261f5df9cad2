//! What happens in a test, in order: locks come and go, bodies run, arguments drop.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use dlock::{
    LockManager, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockStore, Queue,
        ReleaseRequest, Released, RenewBatch, Renewal, StoreHooks, StoreProperties,
        memory::MemoryStore,
    },
    with_manager,
};

tokio::task_local! {
    static STAGE: Stage;
}

/// Where a test runs.
#[derive(Clone)]
struct Stage {
    events: Events,
    asked: Asked,
    store: MemoryStore,
    manager: LockManager,
}

/// The TTL of each request for a lock, and whether it asks for a place in the queue.
type Asked = Arc<Mutex<Vec<(Duration, bool)>>>;

#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    pub(crate) fn push(&self, event: String) {
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Notes that something has happened.
pub(crate) fn say(event: impl Into<String>) {
    events().push(event.into());
}

/// The list that [`say`] writes to.
pub(crate) fn events() -> Events {
    STAGE.with(|stage| stage.events.clone())
}

/// The store that the locks of the running test are in.
pub(crate) fn store() -> MemoryStore {
    STAGE.with(|stage| stage.store.clone())
}

/// What the store has been asked for so far.
pub(crate) fn asked() -> Vec<(Duration, bool)> {
    STAGE.with(|stage| stage.asked.lock().unwrap().clone())
}

/// The manager of the running test, for functions that start a runtime of their own.
pub(crate) fn manager() -> LockManager {
    STAGE.with(|stage| stage.manager.clone())
}

/// Says `drop` and its name when it drops.
pub(crate) struct Noisy {
    name: &'static str,
    events: Events,
}

impl Noisy {
    pub(crate) fn new(name: &'static str) -> Self {
        let events = events();
        Self { name, events }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        self.events.push(format!("drop {}", self.name));
    }
}

impl Stage {
    fn new() -> Self {
        let store = MemoryStore::new();
        let events = Events::default();
        let asked = Asked::default();
        let recorder = Recorder {
            store: store.clone(),
            events: events.clone(),
            asked: asked.clone(),
        };
        let manager = LockManager::builder().build_with_store(recorder).unwrap();
        Self {
            events,
            asked,
            store,
            manager,
        }
    }

    /// What has happened; nothing may be left locked.
    fn end(&self) -> Vec<String> {
        assert_eq!(self.manager.active_keys(), 0, "something is still locked");
        assert!(self.store.is_empty(), "the store has a lock left");
        self.events.take()
    }
}

/// The output of `future`, run with a manager of its own, and what has happened.
pub(crate) async fn record<F: Future>(future: F) -> (F::Output, Vec<String>) {
    let stage = Stage::new();
    // Boxed, as the futures of tests are large.
    let inside = with_manager(stage.manager.clone(), Box::pin(future));
    let output = STAGE.scope(stage.clone(), inside).await;
    stage.manager.shutdown(Duration::from_secs(5)).await;
    (output, stage.end())
}

/// The same for what starts a runtime of its own, which finds the manager by [`manager`].
pub(crate) fn record_blocking<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    let stage = Stage::new();
    let output = STAGE.sync_scope(stage.clone(), run);
    (output, stage.end())
}

/// The output of `future`, which must say `body` once while it holds `key`, and nothing else.
pub(crate) async fn under<F: Future>(key: &str, future: F) -> F::Output {
    let (output, events) = record(future).await;
    let expected = [
        format!("acquire {key}"),
        "body".to_owned(),
        format!("release {key}"),
    ];
    assert_eq!(events, expected);
    output
}

/// Runs `future` while somebody else holds `key`.
pub(crate) async fn while_held<F: Future>(key: &str, future: F) -> F::Output {
    let guard = manager().lock(key).acquire().await.unwrap();
    let output = future.await;
    guard.release().await.unwrap();
    output
}

/// Polls `future` once, which does not end by that, and drops it.
pub(crate) fn poll_once<F: Future>(future: F) {
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(future).poll(&mut context);
    assert!(matches!(polled, Poll::Pending), "it has ended");
}

/// A memory store that says which locks come and go.
struct Recorder {
    store: MemoryStore,
    events: Events,
    asked: Asked,
}

impl LockStore for Recorder {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let asked = (request.ttl, request.queue != Queue::No);
        self.asked.lock().unwrap().push(asked);
        let answer = self.store.acquire(request).await?;
        let what = match answer {
            AcquireOutcome::Granted { .. } => "acquire",
            _ => "busy",
        };
        self.events.push(format!("{what} {}", request.key));
        Ok(answer)
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { key, .. } = request;
        self.events.push(format!("release {key}"));
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties().hooks(self)
    }
}

impl StoreHooks for Recorder {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest { key, .. } = request;
        self.events.push(format!("release {key}"));
        self.store.release_at_once(request)
    }
}
