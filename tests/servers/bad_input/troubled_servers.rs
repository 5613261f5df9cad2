//! Servers that are up and refuse for a while, or come back with less than they had.

use std::{
    fs::{self, OpenOptions},
    path::PathBuf,
    time::Duration,
};

use dlock::{LockManager, LostCause, store::StoreErrorKind};
use dlock_testkit::{RedisServer, eventually};
use futures_util::future::join_all;
use redis::{RedisResult, aio::MultiplexedConnection};

use crate::bad_input::{WAIT, assert_says, patient, refusal, run, unavailable};
use crate::common::{Env, LIMIT, Redis, assert_idle, builder, is_lost, soon, stored};

/// Long enough for a machine that stands still for a second: a renewal that this holds up is not given up either.
const TTL: Duration = Duration::from_secs(4);

/// The number behind `name` in what `INFO` says.
async fn info(connection: &mut MultiplexedConnection, name: &str) -> String {
    let report: String = redis::cmd("INFO")
        .query_async(connection)
        .await
        .expect("INFO answers text");
    let field = report.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then(|| value.to_owned())
    });
    field.unwrap_or_else(|| panic!("no `{name}` in: {report}"))
}

/// The directory of a server's files.
fn directory(server: &RedisServer) -> PathBuf {
    server.socket().parent().unwrap().to_owned()
}

/// What a manager that does not wait is refused with; none when it is told that the lock is held.
async fn refused_now(manager: &LockManager, key: &str) -> Option<dlock::LockError> {
    match soon(manager.lock(key).try_acquire()).await {
        Ok(None) => None,
        Ok(Some(_)) => panic!("broken promise: `{key}` was given to two"),
        Err(error) => Some(error),
    }
}

// D4
/// A lock that the server has not loaded yet is not free.
#[tokio::test]
async fn one_that_still_loads_is_waited_for_and_forgets_no_lock() {
    // Keys of 4 kB, each of which takes some time to load: six seconds together.
    let env = Redis::over(
        RedisServer::start_with(&[
            "--rdbcompression",
            "no",
            "--loading-process-events-interval-bytes",
            "1024",
            "--key-load-delay",
            "20000",
        ])
        .await,
    );
    let manager = env.manager().await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let mut connection = env.server.connection().await;
    for number in 0..300 {
        let filler = "x".repeat(4096);
        run(
            &mut connection,
            &["SET", &format!("filler:{number}"), &filler],
        )
        .await;
    }
    run(&mut connection, &["SAVE"]).await;
    env.server.kill();

    let others = patient(&env.server.url());
    let waiting = tokio::spawn(others.lock("order:7").wait(LIMIT).acquire());
    let loads = eventually(LIMIT, "it says that it loads", async || match refused_now(
        &others, "order:42",
    )
    .await
    {
        Some(dlock::LockError::Unavailable { reason, .. }) => {
            reason.kind() == StoreErrorKind::Loading
        }
        Some(other) => panic!("{other}"),
        None => panic!("it has loaded already"),
    });
    tokio::join!(env.server.restart(), loads);
    let free = soon(waiting).await.unwrap().unwrap();
    assert!(refused_now(&others, "order:42").await.is_none());
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
    soon(free.release()).await.unwrap();
    assert_idle(&[&manager, &others]).await;
    assert_eq!(env.server.keys("dlock:{*").await, Vec::<String>::new());
}

// D6
/// It could not save, and refuses all writes: also renewals and releases.
#[tokio::test]
async fn one_that_cannot_save_ends_leases_in_time_and_is_asked_again() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(WAIT)).await;
    let mut connection = env.server.connection().await;
    run(&mut connection, &["CONFIG", "SET", "save", "3600 1"]).await;
    // What it has saved cannot get its name.
    let in_the_way = directory(&env.server).join("dump.rdb");
    fs::create_dir(&in_the_way).unwrap();
    let body = manager.lock("order:7").ttl(TTL).run(async |_| {
        run(&mut connection, &["BGSAVE"]).await;
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    let cannot_save = |cause: &LostCause| {
        matches!(cause, LostCause::NotRenewed { reason }
            if reason.kind() == StoreErrorKind::Refused
                && reason.message().starts_with("MISCONF "))
    };
    assert!(is_lost(&outcome, cannot_save), "{outcome:?}");
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::Refused);
    assert_says(&error, &["MISCONF"]);
    assert!(error.retry_after().is_some(), "it may get better");

    let waiting = tokio::spawn(manager.lock("order:42").wait(LIMIT).acquire());
    fs::remove_dir(&in_the_way).unwrap();
    run(&mut connection, &["BGSAVE"]).await;
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(2, &[&manager]).await;
}

// D8
/// Somebody's script runs for ever, and the server answers nothing else until it is killed.
#[tokio::test]
async fn one_that_runs_a_script_for_ever_is_asked_again_and_a_lease_outlives_it() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(LIMIT)).await;
    let mut connection = env.server.connection().await;
    let threshold = ["CONFIG", "SET", "lua-time-limit", "50"];
    run(&mut connection, &threshold).await;
    let ttl = TTL;
    let guard = soon(manager.lock("order:7").ttl(ttl).acquire())
        .await
        .unwrap();
    let mut busy = env.server.connection().await;
    let endless = tokio::spawn(async move {
        let mut script = redis::cmd("EVAL");
        script.arg("while true do end").arg(0);
        let ended: RedisResult<()> = script.query_async(&mut busy).await;
        ended
    });
    eventually(LIMIT, "it says that it is busy", async || {
        match soon(manager.lock("order:42").try_acquire()).await {
            Ok(free) => {
                // The script has not begun.
                soon(free.expect("nobody has it").release()).await.unwrap();
                false
            }
            Err(error) => {
                assert_eq!(unavailable(&error).kind(), StoreErrorKind::Refused);
                error.to_string().contains("BUSY")
            }
        }
    })
    .await;
    let waiting = tokio::spawn(manager.lock("order:42").acquire());
    eventually(LIMIT, "a renewal was due", async || {
        guard.remaining() < ttl * 3 / 5
    })
    .await;
    assert!(!waiting.is_finished());
    run(&mut connection, &["SCRIPT", "KILL"]).await;
    soon(endless).await.unwrap().expect_err("it was killed");
    let free = soon(waiting).await.unwrap().unwrap();
    eventually(LIMIT, "the lease is renewed", async || {
        guard.remaining() > ttl * 4 / 5
    })
    .await;
    soon(guard.release()).await.unwrap();
    soon(free.release()).await.unwrap();
    env.assert_clean(2, &[&manager]).await;
}

// D9
/// It makes room by deleting what has a TTL, or whatever it likes; the second takes the fence, too.
#[tokio::test]
async fn one_that_evicts_locks_tells_their_holders_and_gives_greater_tokens() {
    for policy in ["volatile-ttl", "allkeys-random"] {
        let env = Redis::start().await;
        let (manager, other) = (env.manager().await, env.manager().await);
        let mut connection = env.server.connection().await;
        let policy = ["CONFIG", "SET", "maxmemory-policy", policy];
        run(&mut connection, &policy).await;
        let held = soon(manager.lock("order:42").ttl(TTL).acquire())
            .await
            .unwrap();
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]).await;
        eventually(LIMIT, "the lock is evicted", async || {
            env.locks().await.is_empty()
        })
        .await;
        soon(held.lost()).await;
        let token = held.fencing_token();
        let outcome = soon(held.release()).await;
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Revoked),
            "{outcome:?}"
        );
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await;
        let next = soon(other.lock("order:42").acquire()).await.unwrap();
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
        env.assert_clean(1, &[&manager, &other]).await;
    }
}

// D18
/// However many callers there are, one after the other tries to connect, ever more slowly.
#[tokio::test]
async fn one_with_too_many_clients_is_not_stormed() {
    const CALLERS: usize = 200;
    let env = Redis::start().await;
    let mut connection = env.server.connection().await;
    run(&mut connection, &["CONFIG", "SET", "maxclients", "1"]).await;
    // An attempt that a machine which stands still holds up is not given up, and is refused as well.
    let manager = builder().wait(WAIT);
    let manager = manager.connect_lazy(env.server.url()).unwrap();
    let callers = (0..CALLERS).map(|number| {
        let lock = manager.lock(format!("order:{number}"));
        async move { lock.acquire().await.expect_err("there is no room") }
    });
    let asked = std::time::Instant::now();
    let errors = soon(join_all(callers)).await;
    for error in &errors {
        let dlock::LockError::Unavailable { waited, reason, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(reason.kind(), StoreErrorKind::Refused, "{error}");
        assert_says(error, &["max number of clients reached"]);
        assert!(*waited >= WAIT, "{error}");
    }
    let refused: usize = info(&mut connection, "rejected_connections")
        .await
        .parse()
        .unwrap();
    // After 20, 40, 80, 160, 320 and 640 ms, and then each second.
    let most = 9 + usize::try_from(asked.elapsed().as_secs()).unwrap();
    assert!((2..=most).contains(&refused), "{refused} connections");

    let waiting = tokio::spawn(manager.lock("order:42").wait(LIMIT).acquire());
    run(&mut connection, &["CONFIG", "SET", "maxclients", "100"]).await;
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

// D20
/// As after a power cut with `appendfsync everysec`.
#[tokio::test]
async fn one_that_has_lost_its_last_writes_tells_the_holder_and_gives_greater_tokens() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let env = Redis::over(RedisServer::start_with(&arguments).await);
    let (manager, other) = (env.manager().await, env.manager().await);
    let first = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(first.release()).await.unwrap();
    let log = append_only_file(&env.server);
    // It may write later than it answers.
    eventually(LIMIT, "the release is written", async || {
        let written = fs::read(&log).unwrap();
        written.windows(5).any(|part| part == b"\r\nDEL")
    })
    .await;
    let kept = fs::metadata(&log).unwrap().len();
    // The server is back long before it is over.
    let ttl = Duration::from_secs(10);
    let held = soon(manager.lock("order:42").ttl(ttl).acquire())
        .await
        .unwrap();
    eventually(LIMIT, "the lease is written", async || {
        fs::metadata(&log).unwrap().len() > kept + 7
    })
    .await;
    env.server.kill();
    // It ends in the middle of a command.
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(kept + 7).unwrap();
    env.server.restart().await;
    assert_eq!(env.server.keys(&stored("order:42")).await, [""; 0]);
    assert_eq!(env.server.keys("dlock:fence:*").await.len(), 1);

    let next = soon(other.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > held.fencing_token(),
        "broken promise: the token did not grow"
    );
    soon(held.lost()).await;
    let outcome = soon(held.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    next.ensure_held().unwrap();
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&manager, &other]).await;
}

/// What the server appends its writes to: one file before Redis 7, several in a directory since.
fn append_only_file(server: &RedisServer) -> PathBuf {
    let old = directory(server).join("appendonly.aof");
    if old.is_file() {
        return old;
    }
    let files = fs::read_dir(directory(server).join("appendonlydir")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    files.find(is_log).expect("there is one")
}
