//! The connection of callers whose runtime ends, is not polled, or has no sockets, and that of a silent member.

use dlock_net::Worker;
use dlock_runtime::store::StoreOptions;
use dlock_testkit::{EtcdServer, Proxy, eventually};
use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::{base, ops};

const LONG: Duration = Duration::from_secs(60);

/// A connection is lost that does not answer within this time. The machine may stand still for a second.
const LIMIT: Duration = Duration::from_secs(2);

fn config(port: u16) -> Arc<Config> {
    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    let url = format!("etcd://127.0.0.1:{port}");
    Arc::new(Config::parse(&url, &options).unwrap())
}

/// A connection to the thread of a store, as `session.rs` makes it.
async fn own(config: &Arc<Config>, doubt: &Arc<Doubt>) -> (Arc<Conn>, watch::Sender<()>) {
    let (give_up, ended) = watch::channel(());
    let ties = Ties {
        doubt: doubt.clone(),
        given_up: ended,
        is_full: Arc::default(),
        number: 1,
    };
    let channel = dial(&config.members[0]).await.unwrap();
    let place = config.members[0].place.clone();
    let conn = Conn::open(config.clone(), place, channel, ties).await;
    (Arc::new(conn.unwrap()), give_up)
}

/// A store with both connections, without the parts that need no connection of callers.
struct Pair {
    near: Arc<Near>,
    doubt: Arc<Doubt>,
    worker: Worker,
    _give_up: watch::Sender<()>,
}

impl Pair {
    /// The ports are those of the near connection and of the store's own one.
    fn start([near, own_port]: [u16; 2]) -> Self {
        let worker = Worker::start("dlock-etcd").unwrap();
        let (config, doubt) = (config(near), Arc::<Doubt>::default());
        let opened = async { own(&self::config(own_port), &doubt).await };
        // On a thread of its own, as the test's may be inside a runtime.
        let (main, give_up) = std::thread::scope(|scope| {
            let handle = worker.handle().clone();
            scope.spawn(move || handle.block_on(opened)).join().unwrap()
        });
        let near = Near::new(worker.handle().clone(), config.clone(), Arc::default());
        let near = Arc::new(near);
        let kept = near.clone();
        worker.handle().spawn(async move {
            let never = kept.keep(&config.members[0], &main).await;
            match never {}
        });
        Self {
            near,
            doubt,
            worker,
            _give_up: give_up,
        }
    }

    async fn up(&self) -> Arc<Conn> {
        eventually(LONG, "there is a connection", async || {
            self.near.conn().is_some()
        })
        .await;
        self.near.conn().unwrap()
    }

    fn has_left(&self) -> bool {
        matches!(self.near.state().home, Home::Left)
    }
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Sends a request whose caller gives it up at once.
fn give_up_a_request(conn: &Conn) {
    let read = ops::read(vec![base::read_op("dlock")]);
    assert!(conn.read(&read).now_or_never().is_none(), "no answer yet");
}

#[test]
fn the_runtime_of_the_next_caller_follows_one_that_has_ended() {
    let (first, second) = (one_thread(), one_thread());
    let server = first.block_on(EtcdServer::start());
    let pair = Pair::start([server.port(); 2]);
    let of_store = pair.worker.handle().clone();
    let conn = of_store.spawn({
        let near = pair.near.clone();
        async move { near.conn().is_some() }
    });
    assert!(!second.block_on(conn).unwrap());
    assert!(
        matches!(pair.near.state().home, Home::Unknown),
        "it is no caller's"
    );
    let conn = first.block_on(pair.up());
    assert!(conn.base.lock().unwrap().is_some(), "it has read the base");
    assert!(second.block_on(async { pair.near.conn() }).is_none());
    drop(first);
    second.block_on(pair.up());
}

/// Asserts that the connection outlasts a time in which its runtime is not polled.
fn assert_kept_while_idle(pair: &Pair, conn: &Arc<Conn>, home: &Runtime, around: &Runtime) {
    let since = Instant::now();
    around.block_on(eventually(LONG, "no answer is read", async || {
        since.elapsed() > 3 * LIMIT
    }));
    let again = home.block_on(pair.up());
    assert!(Arc::ptr_eq(&again, conn));
}

#[test]
fn a_connection_in_doubt_waits_for_its_runtime_to_be_polled() {
    let (first, around) = (one_thread(), one_thread());
    let server = around.block_on(EtcdServer::start());
    let pair = Pair::start([server.port(); 2]);
    let conn = first.block_on(pair.up());
    {
        let _inside = first.enter();
        assert!(pair.near.conn().is_some());
        give_up_a_request(&conn);
        assert!(pair.near.conn().is_none(), "it is in doubt");
    }
    assert!(pair.doubt.is_open(), "so is the other one");
    assert_kept_while_idle(&pair, &conn, &first, &around);
}

/// The runtime is polled for as long as the try takes to be sent, and then for its answer.
#[test]
fn an_answer_that_was_not_read_is_no_silence() {
    let (first, around) = (one_thread(), one_thread());
    let server = around.block_on(EtcdServer::start());
    let pair = Pair::start([server.port(); 2]);
    let conn = first.block_on(pair.up());
    let sent = || around.block_on(server.messages()).get("Range").copied();
    let (before, since) = (sent(), Instant::now());
    pair.near.state().up.as_ref().unwrap().doubt.raise();
    while sent() == before {
        assert!(since.elapsed() < LONG, "the connection is not tried");
        first.block_on(tokio::task::yield_now());
    }
    assert_kept_while_idle(&pair, &conn, &first, &around);
}

#[tokio::test]
async fn a_connection_that_is_stuck_on_its_runtime_is_left() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let pair = Pair::start([proxy.port(), server.port()]);
    let conn = pair.up().await;
    proxy.freeze();
    give_up_a_request(&conn);
    eventually(LONG, "it is left for good", async || pair.has_left()).await;
    assert!(pair.near.conn().is_none());
}

#[tokio::test]
async fn a_connection_to_a_member_that_is_silent_is_made_again() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let pair = Pair::start([proxy.port(); 2]);
    let conn = pair.up().await;
    proxy.freeze();
    give_up_a_request(&conn);
    // The store's own, the one that was silent, and two after it: a runtime that has been silent twice is left.
    eventually(LONG, "another one is made again and again", async || {
        assert!(!pair.has_left());
        proxy.accepted_connections() > 3
    })
    .await;
    proxy.thaw();
    let again = pair.up().await;
    assert!(!Arc::ptr_eq(&again, &conn));
}

#[test]
fn a_runtime_without_sockets_is_left() {
    let around = one_thread();
    let server = around.block_on(EtcdServer::start());
    let pair = Pair::start([server.port(); 2]);
    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    bare.block_on(eventually(LONG, "it is left", async || {
        assert!(pair.near.conn().is_none());
        pair.has_left()
    }));
}

/// A program may have a runtime for each call.
#[tokio::test(start_paused = true)]
async fn the_pauses_between_connections_double_up_to_a_minute() {
    let config = config(1);
    let (_give_up, given_up) = watch::channel(());
    let ties = Ties {
        doubt: Arc::default(),
        given_up,
        is_full: Arc::default(),
        number: 1,
    };
    // It sends nothing.
    let channel = config.members[0].endpoint.connect_lazy();
    let place = config.members[0].place.clone();
    let main = Conn::open(config.clone(), place, channel, ties).await;
    let main = main.unwrap();
    let near = Near::new(Handle::current(), config.clone(), Arc::default());
    // No runtime can end inside another one.
    let ended = std::thread::spawn(|| one_thread().handle().clone());
    let ended = ended.join().unwrap();
    let begin = Instant::now();
    let rounds = async {
        let mut moments = Vec::new();
        for _ in 0..9 {
            near.state().home = Home::Of(ended.clone());
            near.found.notify_one();
            while matches!(near.state().home, Home::Of(_)) {
                sleep(Duration::from_millis(100)).await;
            }
            moments.push(begin.elapsed().as_secs());
        }
        moments
    };
    let moments = tokio::select! {
        never = near.keep(&config.members[0], &main) => match never {},
        moments = rounds => moments,
    };
    assert_eq!(moments, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
}
