//! The store against a real memcached: the suite, two processes, and a server that forgets, stops or is silent.

use std::{fs, process::Command, time::Duration};

use custom_store::{Memcached, MemcachedStore};
use dlock::{
    ConnectError, LockError, LockKey, LockManager, StoreErrorKind,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, ReleaseRequest, Released,
        RenewRequest, Renewal, StoreOptions, StoreScheme,
    },
};
use dlock_conformance::{Level, Suite};
use dlock_testkit::{MemcachedServer, Proxy, Worker, eventually};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const LIMIT: Duration = Duration::from_secs(60);

/// A request may take so long on a machine that stands still for a while.
const ANSWER: Duration = Duration::from_secs(10);

fn store(server: &MemcachedServer) -> MemcachedStore {
    let mut options = StoreOptions::default();
    options.response_timeout = ANSWER;
    let opened = Memcached.open(&server.url(), &options);
    opened.expect("the URL is right")
}

async fn manager(server: &MemcachedServer) -> LockManager {
    let builder = LockManager::builder().scheme("memcached", Memcached);
    builder
        .response_timeout(ANSWER)
        .connect(server.url())
        .await
        .expect("the server answers")
}

#[tokio::test]
async fn it_is_a_minimal_store() {
    let server = MemcachedServer::start().await;
    let suite = Suite::new(Level::Minimal).limit(LIMIT);
    suite.run(&store(&server)).await.assert();
}

#[tokio::test]
async fn a_lease_lasts_for_its_ttl_whenever_it_begins_between_two_ticks_of_the_server() {
    let server = MemcachedServer::start().await;
    let store = &store(&server);
    let ttl = Duration::from_secs(1);
    let lease = async |part: u32| {
        sleep(ttl * part / 10).await;
        let key = LockKey::new(format!("part:{part}")).unwrap();
        let [holder, next] = [1, 2].map(|it| OwnerId::new(ClientId::new(&SystemRandom), it));
        let asked = Instant::now();
        let held = store.acquire(AcquireRequest::new(&key, holder, ttl)).await;
        assert!(
            matches!(held, Ok(AcquireOutcome::Granted { .. })),
            "{held:?}"
        );
        eventually(LIMIT, "the lease has ended", async || {
            let asked = store.acquire(AcquireRequest::new(&key, next, ttl)).await;
            matches!(asked, Ok(AcquireOutcome::Granted { .. }))
        })
        .await;
        assert!(asked.elapsed() >= ttl, "part {part}: {:?}", asked.elapsed());
    };
    join_all((0..10).map(lease)).await;
}

#[tokio::test]
async fn two_processes_are_never_in_at_the_same_time() {
    let server = MemcachedServer::start().await;
    let shared = TempDir::new().unwrap();
    let start = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_custom-store"));
        Worker::spawn(
            program
                .arg(server.url())
                .arg(shared.path())
                .args(["--visits", "5"]),
        )
    };
    let both = [start(), start()];
    for process in &both {
        let status = process.wait(LIMIT).await;
        assert!(status.success(), "{}{}", process.stdout(), process.stderr());
        assert!(
            process.stdout().ends_with("5 visits\n"),
            "{}",
            process.stdout()
        );
    }
    let count = fs::read_to_string(shared.path().join("count")).unwrap();
    assert_eq!(count, "10", "broken promise: a write was lost");
    assert!(!shared.path().join("here").exists());
}

/// A request whose first answer is held back until its lease has ended and another owner holds the key.
struct Late {
    server: MemcachedServer,
    proxy: Proxy,
    slow: MemcachedStore,
    other: MemcachedStore,
    key: LockKey,
    owners: [OwnerId; 2],
}

impl Late {
    async fn start() -> Self {
        let server = MemcachedServer::start().await;
        let proxy = Proxy::start(server.port());
        let mut options = StoreOptions::default();
        options.response_timeout = LIMIT;
        let url = format!("memcached://127.0.0.1:{}", proxy.port());
        Self {
            slow: Memcached.open(&url, &options).expect("the URL is right"),
            other: store(&server),
            key: LockKey::new("order:42").expect("it is plain"),
            owners: [1, 2].map(|number| OwnerId::new(ClientId::new(&SystemRandom), number)),
            server,
            proxy,
        }
    }

    fn ask(&self, owner: usize, ttl: Duration) -> AcquireRequest<'_> {
        AcquireRequest::new(&self.key, self.owners[owner], ttl)
    }

    async fn acquire(&self) {
        let asked = self.slow.acquire(self.ask(0, Duration::from_millis(100)));
        assert!(matches!(asked.await, Ok(AcquireOutcome::Granted { .. })));
    }

    async fn take_over(&self) {
        eventually(LIMIT, "the other owner has the key", async || {
            let asked = self.other.acquire(self.ask(1, LIMIT));
            matches!(asked.await, Ok(AcquireOutcome::Granted { .. }))
        })
        .await;
        self.proxy.thaw();
    }

    async fn end(self) {
        let renewal = RenewRequest::new(&self.key, self.owners[1], LIMIT);
        let renewed = self.other.renew_one(renewal).await;
        assert_eq!(renewed, Ok(Renewal::Renewed), "the other owner has the key");
        drop(self.server);
    }
}

#[tokio::test]
async fn a_late_acquire_gets_no_key_of_another_owner() {
    let late = Late::start().await;
    late.proxy.hold_replies();
    let ask = late.ask(0, Duration::from_millis(100));
    let (asked, ()) = tokio::join!(late.slow.acquire(ask), late.take_over());
    assert!(
        matches!(asked, Ok(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key: {asked:?}"
    );
    late.end().await;
}

#[tokio::test]
async fn a_late_renewal_prolongs_no_lease_of_another_owner() {
    let late = Late::start().await;
    late.acquire().await;
    late.proxy.hold_replies();
    let renewal = RenewRequest::new(&late.key, late.owners[0], LIMIT);
    let (renewed, ()) = tokio::join!(late.slow.renew_one(renewal), late.take_over());
    assert_eq!(
        renewed,
        Ok(Renewal::NotOwner),
        "broken promise: a lease that had ended came back"
    );
    late.end().await;
}

#[tokio::test]
async fn a_late_release_deletes_no_lock_of_another_owner() {
    let late = Late::start().await;
    late.acquire().await;
    late.proxy.hold_replies();
    let release = ReleaseRequest::new(&late.key, late.owners[0]);
    let (released, ()) = tokio::join!(late.slow.release(release), late.take_over());
    assert_eq!(released, Ok(Released::WasGone));
    late.end().await;
}

#[tokio::test]
async fn a_restart_forgets_locks_and_fences_still_grow() {
    let server = MemcachedServer::start().await;
    let (one, other) = (manager(&server).await, manager(&server).await);
    let first = one
        .lock("order:42")
        .ttl(Duration::from_secs(5))
        .acquire()
        .await
        .unwrap();
    assert!(
        other
            .lock("order:42")
            .try_acquire()
            .await
            .unwrap()
            .is_none(),
        "broken promise: two hold the key"
    );
    server.restart().await;
    let second = other.lock("order:42").acquire().await.unwrap();
    assert!(
        second.fencing_token() > first.fencing_token(),
        "broken promise: the token did not grow"
    );
    // The first holder is told by its next renewal.
    eventually(LIMIT, "the first lease is lost", async || first.is_lost()).await;
    assert!(matches!(first.release().await, Err(LockError::Lost { .. })));
    second.release().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_lease_is_renewed_while_the_thread_of_its_holder_is_blocked() {
    let server = MemcachedServer::start().await;
    let (one, other) = (manager(&server).await, manager(&server).await);
    let ttl = Duration::from_secs(2);
    let guard = one.lock("order:42").ttl(ttl).acquire().await.unwrap();
    // The server counts two seconds more.
    std::thread::sleep(3 * ttl);
    guard.ensure_held().unwrap();
    let found = other.lock("order:42").try_acquire().await;
    assert!(matches!(found, Ok(None)), "{found:?}");
    guard.release().await.unwrap();
}

/// The version of an entry counts in one life of the server.
#[tokio::test]
async fn an_owner_from_before_a_restart_renews_nothing_and_deletes_nothing() {
    let server = MemcachedServer::start().await;
    let (old, new) = (store(&server), store(&server));
    let key = LockKey::new("order:42").unwrap();
    let [first, second] = [1, 2].map(|it| OwnerId::new(ClientId::new(&SystemRandom), it));
    let acquire = async |store: &MemcachedStore, owner| {
        let asked = store.acquire(AcquireRequest::new(&key, owner, LIMIT)).await;
        assert!(
            matches!(asked, Ok(AcquireOutcome::Granted { .. })),
            "{asked:?}"
        );
    };
    acquire(&old, first).await;
    server.restart().await;
    acquire(&new, second).await;
    let renewal = RenewRequest::new(&key, first, LIMIT);
    assert_eq!(
        old.renew_one(renewal).await,
        Ok(Renewal::NotOwner),
        "broken promise: a lease that had ended came back"
    );
    let release = ReleaseRequest::new(&key, first);
    assert_eq!(old.release(release).await, Ok(Released::WasGone));
    let renewal = RenewRequest::new(&key, second, LIMIT);
    assert_eq!(new.renew_one(renewal).await, Ok(Renewal::Renewed));
}

#[tokio::test]
async fn a_silent_server_is_an_error_and_the_next_request_has_a_new_connection() {
    let server = MemcachedServer::start().await;
    let locks = manager(&server).await;
    server.pause();
    let error = locks.lock("order:42").try_acquire().await.unwrap_err();
    let LockError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::TimedOut, "{reason}");
    server.resume();
    // The request that got no answer may have acquired the lock. dlock releases it.
    eventually(LIMIT, "the key is free", async || {
        matches!(locks.lock("order:42").try_acquire().await, Ok(Some(_)))
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error_that_names_it() {
    let server = MemcachedServer::start().await;
    let locks = manager(&server).await;
    server.kill();
    let error = locks.lock("order:42").try_acquire().await.unwrap_err();
    let address = server.url().replace("memcached://", "");
    assert!(error.to_string().contains(&address), "{error}");

    let builder = LockManager::builder().scheme("memcached", Memcached);
    let error = builder.connect(server.url()).await.unwrap_err();
    let ConnectError::Unavailable { url, reason } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (url, reason.kind()),
        (server.url(), StoreErrorKind::Unreachable)
    );
}

/// The recipe is one for an afternoon.
#[test]
fn the_store_has_fewer_than_250_lines_of_code() {
    let files = [
        include_str!("../src/lib.rs"),
        include_str!("../src/store.rs"),
    ];
    let lines = files.iter().flat_map(|it| it.lines()).map(str::trim);
    let code = lines.filter(|it| !it.is_empty() && !it.starts_with("//"));
    assert!((200..250).contains(&code.count()));
}

#[test]
fn a_url_with_more_than_an_address_is_refused_and_not_shown() {
    let open = |url| Memcached.open(url, &StoreOptions::default());
    for url in [
        "memcached://",
        "memcached://one:secret@host",
        "memcached://host/path",
        "memcached://host?secret=1",
        "memcached://host:port",
    ] {
        let error = open(url).unwrap_err().to_string();
        assert!(error.contains("write `memcached://host`"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    for url in [
        "memcached://host",
        "memcached://host:1/",
        "memcached://[::1]:11211",
    ] {
        open(url).unwrap();
    }
}
