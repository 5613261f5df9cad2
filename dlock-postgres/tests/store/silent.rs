//! A connection that does not answer any more: requests and messages go on with the next one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_postgres::PostgresStore;
use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore as _,
        OwnerId, Queue, ReleaseRequest, StoreOptions,
    },
};
use dlock_testkit::{Proxy, eventually};
use futures_util::FutureExt as _;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    database::{DEADLINE, Database},
    runtimes::LONG,
};

const TTL: Duration = Duration::from_secs(120);

/// Counts the calls of `look_again`, and passes on the owner and the fence of each message.
pub(crate) struct Heard {
    looked: AtomicUsize,
    hints: mpsc::UnboundedSender<(OwnerId, u64)>,
}

impl Heard {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<(OwnerId, u64)>) {
        let (hints, heard) = mpsc::unbounded_channel();
        let looked = AtomicUsize::new(0);
        (Arc::new(Self { looked, hints }), heard)
    }

    fn looked(&self) -> usize {
        self.looked.load(Ordering::SeqCst)
    }
}

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.hints.send((hint.owner, hint.fence)).is_ok()
    }

    fn look_again(&self) -> bool {
        self.looked.fetch_add(1, Ordering::SeqCst);
        true
    }
}

fn key() -> LockKey {
    LockKey::new("order:42").unwrap()
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

async fn acquire(store: &PostgresStore, owner: OwnerId) -> AcquireOutcome {
    let key = key();
    let request = AcquireRequest::new(&key, owner, TTL).queue(Queue::ForLease);
    let answer = timeout(DEADLINE, store.acquire(request)).await;
    answer.expect("the request is answered").unwrap()
}

async fn release(store: &PostgresStore, owner: OwnerId) {
    let key = key();
    let answer = timeout(DEADLINE, store.release(ReleaseRequest::new(&key, owner))).await;
    answer.expect("the release is answered").unwrap();
}

/// Sends a request whose caller gives it up at once, so that its connection is tried.
fn give_up_a_request(store: &PostgresStore) {
    let key = LockKey::new("order:43").unwrap();
    let request = store.acquire(AcquireRequest::new(&key, owner(), TTL));
    assert!(request.now_or_never().is_none(), "no answer can be there");
}

#[tokio::test]
async fn messages_come_on_the_next_connection_though_the_last_one_has_not_answered() {
    let client = ClientId::new(&SystemRandom);
    let (heard, mut hints) = Heard::new();
    let database = Database::new().await;
    let proxy = Proxy::start(database.server.port());
    proxy.hold_replies_from("LISTEN");
    let mut options = StoreOptions::default();
    options.response_timeout = Duration::from_millis(1400);
    options.connect_timeout = LONG;
    let store = PostgresStore::open(&database.url_at(proxy.port()), &options).unwrap();
    let hooks = store.properties().hooks.unwrap();
    hooks.attach(client, HintSink::new(heard.clone()));
    let is_asked = async || !proxy.is_trap_set() && proxy.accepted_connections() > 1;
    eventually(DEADLINE, "the server is asked for messages", is_asked).await;
    let (connections, looked) = (proxy.accepted_connections(), heard.looked());
    eventually(DEADLINE, "it connects again", async || {
        give_up_a_request(&store);
        proxy.accepted_connections() > connections
    })
    .await;
    proxy.thaw();
    let (holder, waiter) = (owner(), OwnerId::new(client, 1));
    let other = database.store();
    acquire(&other, holder).await;
    let answer = acquire(&store, waiter).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy { .. }),
        "broken promise: two hold the key: {answer:?}"
    );
    let listens = async || heard.looked() > looked;
    eventually(DEADLINE, "it listens on the next one", listens).await;
    release(&other, holder).await;
    let told = timeout(DEADLINE, hints.recv()).await;
    let (told, _fence) = told.expect("a message comes").unwrap();
    assert_eq!(told, waiter);
    release(&store, waiter).await;
}
