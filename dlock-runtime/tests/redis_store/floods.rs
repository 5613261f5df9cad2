//! What calls cost that a server refuses: about as many requests as there are calls, and no task that stays.

use std::{fs, path::PathBuf, time::Duration};

use dlock_runtime::{LockError, LockManager};
use dlock_testkit::{Cluster, Make, RedisServer, eventually};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{ANSWER, DEADLINE, run};

const CALLS: usize = 60;

/// How many requests a call that is refused may cost, its release included.
const REQUESTS_PER_CALL: u64 = 3;

/// So long that what is repeated until it is over is noticed.
const TTL: Duration = Duration::from_secs(60);

/// How often scripts were asked for, also if they were refused as a whole.
async fn requests(connection: &mut MultiplexedConnection) -> u64 {
    let report: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(connection)
        .await
        .unwrap();
    let of_scripts = report
        .lines()
        .filter(|line| line.starts_with("cmdstat_eval"));
    let fields = of_scripts.flat_map(|line| line.split([':', ',']));
    let counts = fields.filter_map(|field| {
        let count = field.strip_prefix("calls=");
        count.or_else(|| field.strip_prefix("rejected_calls="))
    });
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

async fn connect(url: &str) -> LockManager {
    let builder = LockManager::builder().response_timeout(ANSWER);
    let manager = builder.ttl(TTL).connect(url).await.unwrap();
    // It has done what it does once, and the server has all scripts.
    let first = manager.lock("first").acquire().await.unwrap();
    first.release().await.unwrap();
    manager
}

/// Makes calls that are all refused.
async fn refused_calls(manager: &LockManager, code: &str) {
    let call = async |number: usize| {
        let error = manager
            .lock(format!("order:{number}"))
            .try_acquire()
            .await
            .expect_err("it is refused");
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains(code), "{error}");
    };
    join_all((0..CALLS).map(call)).await;
}

async fn assert_cheap(
    manager: &LockManager,
    code: &str,
    before: (u64, usize),
    mut count: impl AsyncFnMut() -> u64,
) {
    eventually(DEADLINE, "nothing is repeated any more", async || {
        manager.active_keys() == 0
    })
    .await;
    eventually(DEADLINE, "their tasks have ended", async || {
        Handle::current().metrics().num_alive_tasks() <= before.1
    })
    .await;
    let sent = count().await - before.0;
    let most = REQUESTS_PER_CALL * u64::try_from(CALLS).unwrap();
    assert!(sent <= most, "{code}: {sent} requests for {CALLS} calls");
}

async fn a_refusal_is_cheap(server: &RedisServer, url: &str, refuse: &[&str], code: &str) {
    let manager = connect(url).await;
    let mut behind = server.connection().await;
    for command in refuse {
        run(&mut behind, command).await;
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    let before = (requests(&mut behind).await, tasks);
    refused_calls(&manager, code).await;
    assert_cheap(&manager, code, before, async || requests(&mut behind).await).await;
}

async fn without_a_right(make: Make, right: &str, words: &str) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let rules = "ACL SETUSER me on >s3cret +@all ~* &*";
    run(&mut behind, rules).await;
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    let take_away = format!("ACL SETUSER me {right}");
    a_refusal_is_cheap(&server, &url, &[&take_away], words).await;
}

pub(crate) async fn of_a_user_who_may_run_no_scripts(make: Make) {
    without_a_right(make, "-evalsha", "evalsha").await;
}

pub(crate) async fn of_a_user_who_may_not_use_the_key(make: Make) {
    without_a_right(make, "resetkeys ~dlock:{first}* ~dlock:fence:*", "order:").await;
}

/// It may ask who has the lock, and not write.
pub(crate) async fn of_a_user_who_lacks_a_command_of_a_script(make: Make) {
    without_a_right(make, "-set", "SET").await;
}

/// The release is refused as well.
pub(crate) async fn of_a_user_who_lacks_a_command_of_every_script(make: Make) {
    without_a_right(make, "-get -exists", "script `acquire`").await;
}

pub(crate) async fn of_a_master_without_replicas(make: Make) {
    let server = RedisServer::start_make(make).await;
    let refuse = "CONFIG SET min-replicas-to-write 1";
    a_refusal_is_cheap(&server, &server.url(), &[refuse], "NOREPLICAS").await;
}

pub(crate) async fn of_a_server_without_memory(make: Make) {
    let server = RedisServer::start_make(make).await;
    let refuse = [
        "CONFIG SET maxmemory-policy noeviction",
        "CONFIG SET maxmemory 1",
    ];
    a_refusal_is_cheap(&server, &server.url(), &refuse, "maxmemory").await;
}

pub(crate) async fn of_a_server_that_cannot_save(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let directory: Vec<String> = redis::cmd("CONFIG")
        .arg(&["GET", "dir"])
        .query_async(&mut behind)
        .await
        .unwrap();
    // What it saves cannot get its name.
    fs::create_dir(PathBuf::from(&directory[1]).join("dump.rdb")).unwrap();
    let manager = connect(&server.url()).await;
    run(&mut behind, "SET some data").await;
    // One change within a second is to be saved.
    let rule = redis::cmd("CONFIG").arg(&["SET", "save", "1 1"]).to_owned();
    rule.exec_async(&mut behind).await.unwrap();
    run(&mut behind, "BGSAVE").await;
    eventually(DEADLINE, "it cannot save", async || {
        let written = redis::cmd("SET").arg(&["some", "data"]).to_owned();
        let refused = written.exec_async(&mut behind).await;
        refused.is_err_and(|error| error.code() == Some("MISCONF"))
    })
    .await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let before = (requests(&mut behind).await, tasks);
    refused_calls(&manager, "MISCONF").await;
    assert_cheap(&manager, "MISCONF", before, async || {
        requests(&mut behind).await
    })
    .await;
}

fn endless_script(mut connection: MultiplexedConnection) -> JoinHandle<()> {
    tokio::spawn(async move {
        let endless = redis::cmd("EVAL")
            .arg(&["while true do end", "0"])
            .to_owned();
        endless
            .exec_async(&mut connection)
            .await
            .expect_err("it is killed");
    })
}

pub(crate) async fn of_a_server_that_runs_somebodys_script(make: Make) {
    let server = RedisServer::start_make(make).await;
    let manager = connect(&server.url()).await;
    let mut behind = server.connection().await;
    run(&mut behind, "CONFIG SET lua-time-limit 1").await;
    let before = requests(&mut behind).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let script = endless_script(server.connection().await);
    eventually(DEADLINE, "it is busy", async || {
        let pong = redis::cmd("PING").exec_async(&mut behind).await;
        pong.is_err()
    })
    .await;
    refused_calls(&manager, "BUSY").await;
    eventually(DEADLINE, "nothing is repeated any more", async || {
        manager.active_keys() == 0
    })
    .await;
    // It tells nothing before.
    run(&mut behind, "SCRIPT KILL").await;
    script.await.unwrap();
    // That script was a request, too.
    let before = (before + 1, tasks + 1);
    assert_cheap(&manager, "BUSY", before, async || {
        requests(&mut behind).await
    })
    .await;
}

#[tokio::test]
async fn of_a_cluster_that_is_down() {
    let cluster = Cluster::start(1, 0).await;
    let manager = connect(&cluster.url()).await;
    let server = cluster.node(0);
    let mut behind = server.connection().await;
    run(&mut behind, "CLUSTER DELSLOTS 0").await;
    eventually(DEADLINE, "it is down", async || {
        let read = redis::cmd("GET").arg("some").exec_async(&mut behind).await;
        read.is_err_and(|error| error.code() == Some("CLUSTERDOWN"))
    })
    .await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let before = (requests(&mut behind).await, tasks);
    refused_calls(&manager, "CLUSTERDOWN").await;
    assert_cheap(&manager, "CLUSTERDOWN", before, async || {
        requests(&mut behind).await
    })
    .await;
}
