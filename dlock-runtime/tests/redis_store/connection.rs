//! What becomes of the connection when the network or the server fails.

use std::time::{Duration, Instant};

use dlock_runtime::store::{
    LockStore, StoreErrorKind,
    redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Proxy, RedisServer, eventually};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use crate::{DEADLINE, connect, key, owner, renewal, run, take, try_take};

const LIMIT: Duration = Duration::from_millis(300);

/// The same where answers have to come, although the machine stands still for a second.
const PATIENT_LIMIT: Duration = Duration::from_secs(2);

/// The protocols, and how many connections a store has with each.
#[derive(Clone, Copy)]
enum Over {
    Resp3 = 1,
    Resp2 = 2,
}

impl Over {
    fn url(self, url: &str) -> String {
        match self {
            Self::Resp3 => format!("{url}?protocol=resp3"),
            Self::Resp2 => format!("{url}?protocol=resp2"),
        }
    }

    fn connections(self) -> usize {
        self as usize
    }
}

/// Makes a test of every case for either protocol.
macro_rules! over_both {
    ($($case:ident,)*) => {
        mod resp3 {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(super::Over::Resp3).await;
                }
            )*
        }

        mod resp2 {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(super::Over::Resp2).await;
                }
            )*
        }
    };
}

over_both! {
    a_killed_connection_is_replaced,
    a_server_that_was_away_is_found_again,
    a_black_hole_is_left,
    a_black_hole_is_noticed_by_impatient_callers,
    a_black_hole_is_noticed_without_callers,
    a_busy_server_keeps_its_connection,
    callers_learn_of_a_broken_connection_at_once,
    refused_connections_are_tried_with_pauses,
    who_asks_waits_for_a_connection_that_is_lost_again_and_again,
    a_dropped_store_leaves_nothing,
}

async fn through_proxy(over: Over) -> (RedisServer, Proxy, RedisStore) {
    through_proxy_within(over, LIMIT).await
}

async fn through_proxy_within(
    over: Over,
    response_timeout: Duration,
) -> (RedisServer, Proxy, RedisStore) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let config = RedisConfig::new(over.url(&proxy.url())).response_timeout(response_timeout);
    let store = RedisStore::connect(config).await.unwrap();
    (server, proxy, store)
}

async fn a_killed_connection_is_replaced(over: Over) {
    let server = RedisServer::start().await;
    let store = connect(&over.url(&server.url())).await;
    let mut behind = server.connection().await;
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    let clients = || async {
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        let ours = list.lines().filter(|line| line.contains(" name=dlock:"));
        let id = |line: &str| line.split(' ').next().unwrap().to_owned();
        ours.map(id).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        let before = clients().await;
        // One that is subscribed is of another type.
        for sort in ["normal SKIPME yes", "pubsub"] {
            run(&mut behind, &format!("CLIENT KILL TYPE {sort}")).await;
        }
        eventually(DEADLINE, "as many connections are new", async || {
            let now = clients().await;
            now.len() == over.connections() && !now.iter().any(|id| before.contains(id))
        })
        .await;
        eventually(DEADLINE, "it works again", async || {
            try_take(&store, &lock, me).await.is_ok()
        })
        .await;
    }
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease"
    );
}

async fn a_server_that_was_away_is_found_again(over: Over) {
    let server = RedisServer::start().await;
    // So long that whatever comes in time has not waited for it.
    let config = RedisConfig::new(over.url(&server.url())).response_timeout(2 * DEADLINE);
    let store = RedisStore::connect(config).await.unwrap();
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    server.kill();
    eventually(DEADLINE, "the failure is named at once", async || {
        let error = try_take(&store, &lock, me)
            .await
            .expect_err("the server is dead");
        // The first may have been under way.
        let kinds = [StoreErrorKind::Unreachable, StoreErrorKind::Disconnected];
        assert!(kinds.contains(&error.kind()), "{error}");
        // The options of a URL are never shown.
        let expected = format!("cannot connect to {}?***: connection refused", server.url());
        error.to_string().starts_with(&expected)
    })
    .await;
    server.restart().await;
    eventually(DEADLINE, "it works again", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;
    assert!(
        take(&store, &lock, me).await > fence,
        "broken promise: the token did not grow: although its data is gone"
    );
}

async fn a_black_hole_is_left(over: Over) {
    let (_server, proxy, store) = through_proxy_within(over, PATIENT_LIMIT).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    proxy.freeze();
    let error = store
        .renew_one(renewal(&lock, me))
        .await
        .expect_err("nothing comes back");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    eventually(DEADLINE, "another connection is tried", async || {
        proxy.accepted_connections() > over.connections()
    })
    .await;
    proxy.thaw();
    eventually(DEADLINE, "it works again", async || {
        store.renew_one(renewal(&lock, me)).await.is_ok()
    })
    .await;
}

async fn a_black_hole_is_noticed_by_impatient_callers(over: Over) {
    // An idle connection would be asked only after ten seconds.
    let limit = PATIENT_LIMIT;
    let (_server, proxy, store) = through_proxy_within(over, limit).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    proxy.freeze();
    eventually(4 * limit, "another connection is tried", async || {
        let impatient = timeout(limit / 50, store.renew_one(renewal(&lock, me))).await;
        assert!(!matches!(impatient, Ok(Ok(_))));
        proxy.accepted_connections() > over.connections()
    })
    .await;
}

async fn a_black_hole_is_noticed_without_callers(over: Over) {
    let (_server, proxy, _store) = through_proxy(over).await;
    proxy.freeze();
    eventually(DEADLINE, "another connection is tried", async || {
        proxy.accepted_connections() > over.connections()
    })
    .await;
}

async fn a_busy_server_keeps_its_connection(over: Over) {
    let (_server, proxy, store) = through_proxy_within(over, PATIENT_LIMIT).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    // Callers give up all the time, but every PING is answered.
    let begin = Instant::now();
    while begin.elapsed() < PATIENT_LIMIT * 3 / 2 {
        sleep(PATIENT_LIMIT / 200).await;
        let given_up = timeout(Duration::ZERO, store.renew_one(renewal(&lock, me))).await;
        assert!(!matches!(given_up, Ok(Err(_))));
        store.renew_one(renewal(&lock, me)).await.unwrap();
    }
    assert_eq!(proxy.accepted_connections(), over.connections());
}

async fn callers_learn_of_a_broken_connection_at_once(over: Over) {
    // So long that whatever comes in time has not waited for it.
    let (_server, proxy, store) = through_proxy_within(over, 2 * DEADLINE).await;
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    proxy.cut_before_reply_to("EVALSHA");
    let error = timeout(DEADLINE, try_take(&store, &lock, me))
        .await
        .expect("it does not wait for the end of the response's time")
        .expect_err("the reply was lost");
    assert_eq!(
        error.kind(),
        StoreErrorKind::Disconnected,
        "it was carried out"
    );
    eventually(DEADLINE, "it works again", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease"
    );
}

async fn refused_connections_are_tried_with_pauses(over: Over) {
    let (_server, proxy, store) = through_proxy(over).await;
    let (lock, me) = (key("k"), owner());
    // Accepts and hangs up at the first word, again and again.
    let begin = Instant::now();
    let mut cuts = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        proxy.cut_before_request("HELLO");
        proxy.cut();
        eventually(DEADLINE, "the next attempt", async || !proxy.is_trap_set()).await;
        cuts += 1;
    }
    assert!(cuts < 30, "{cuts} attempts in two seconds");
    eventually(DEADLINE, "it works again", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;
}

/// Killed every now and then, it is back before anybody is told that it is missing.
async fn who_asks_waits_for_a_connection_that_is_lost_again_and_again(over: Over) {
    let (_server, proxy, store) = through_proxy_within(over, DEADLINE).await;
    let (lock, me) = (key("k"), owner());
    let mut refused = Vec::new();
    for _ in 0..10 {
        take(&store, &lock, me).await;
        // Longer than the first pause, far shorter than the longest.
        sleep(Duration::from_millis(60)).await;
        let before = proxy.accepted_connections();
        proxy.cut();
        eventually(DEADLINE, "it is replaced", async || {
            match try_take(&store, &lock, me).await {
                Ok(_) => {}
                // It was under way, or was refused without being sent.
                Err(error) if error == error.clone().unsent() => refused.push(error),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}"),
            }
            proxy.accepted_connections() >= before + over.connections()
        })
        .await;
        eventually(DEADLINE, "it works again", async || {
            try_take(&store, &lock, me).await.is_ok()
        })
        .await;
    }
    assert_eq!(refused, []);
}

async fn a_dropped_store_leaves_nothing(over: Over) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let before = Handle::current().metrics().num_alive_tasks();
    let store = RedisStore::connect(RedisConfig::new(over.url(&proxy.url())))
        .await
        .unwrap();
    take(&store, &key("k"), owner()).await;
    assert!(Handle::current().metrics().num_alive_tasks() > before);
    drop(store);
    eventually(DEADLINE, "its tasks have ended", async || {
        Handle::current().metrics().num_alive_tasks() == before
    })
    .await;
    eventually(DEADLINE, "its socket is closed", async || {
        proxy.open_connections() == 0
    })
    .await;

    // Also one that never had a connection.
    server.kill();
    let store = RedisStore::connect_lazy(RedisConfig::new(over.url(&server.url()))).unwrap();
    assert!(try_take(&store, &key("k"), owner()).await.is_err());
    drop(store);
    eventually(DEADLINE, "its task has ended", async || {
        Handle::current().metrics().num_alive_tasks() == before
    })
    .await;
}
