//! Processes that end without a word, stand still before they write, or have a wall clock of their own.
#![cfg(feature = "redis")]

use std::{
    env,
    process::{Command, ExitStatus, abort, exit},
    sync::Mutex,
    time::Duration,
};

use dlock::{FencingToken, LockGuard, LockManager};
use dlock_testkit::{WallClock, Worker};
use redis::{Connection, Script};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use crate::common::{Env, LIMIT, Redis, soon};

/// Set for a process that is not to test: its role, the URL of the server, and the address of a gate.
const ROLE: &str = "DLOCK_TEST_ROLE";

/// Long enough not to run out while the processes start on a loaded machine.
const TTL: Duration = Duration::from_secs(5);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    let [role, url, gate] = words[..] else {
        panic!("{role}")
    };
    let manager = LockManager::connect(url).await.unwrap();
    match role {
        "aborts" | "exits" | "panics" => end(&manager, role).await,
        "writes" => write_late(&manager, url, gate).await,
        "holds" => hold(&manager, gate).await,
        other => panic!("{other}"),
    }
}

struct World {
    env: Redis,
    manager: LockManager,
    gate: TcpListener,
}

impl World {
    async fn start() -> Self {
        let env = Redis::start().await;
        Self {
            manager: env.manager().await,
            env,
            gate: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    /// Another process, which has the lock.
    async fn holder(&self, role: &str, clock: Option<&WallClock>) -> (Worker, FencingToken) {
        let gate = self.gate.local_addr().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "ends::process", "--nocapture"]);
        command.env(ROLE, format!("{role} {} {gate}", self.env.server.url()));
        if let Some(clock) = clock {
            clock.set_for(&mut command);
        }
        let worker = Worker::spawn(&mut command);
        let line = worker.line("holding ", LIMIT).await;
        let (_, token) = line.split_once("holding ").unwrap();
        let fence = token.trim().parse().unwrap();
        (worker, FencingToken::from_fence(fence).unwrap())
    }

    /// The lock, as soon as it can be had.
    async fn next(&self) -> LockGuard {
        let lock = self.manager.lock("order:42").wait(LIMIT);
        soon(lock.acquire()).await.expect("the lease runs out")
    }

    async fn open_gate(&self) {
        let (mut gate, _) = soon(self.gate.accept()).await.unwrap();
        gate.write_u8(1).await.unwrap();
    }
}

fn tell(token: FencingToken) {
    println!("holding {}", token.fence());
}

/// Its destructor never runs.
static KEPT: Mutex<Option<LockGuard>> = Mutex::new(None);

async fn end(manager: &LockManager, role: &str) {
    let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let token = guard.fencing_token();
    if role == "exits" {
        *KEPT.lock().unwrap() = Some(guard);
        tell(token);
        exit(0);
    }
    let body = guard.run_while_held(async {
        tell(token);
        if role == "panics" {
            // What a program does that is built with `panic = "abort"`.
            std::panic::set_hook(Box::new(|_| abort()));
            panic!("on purpose");
        }
        abort();
    });
    body.await.unwrap();
}

/// B11. No task is left to release: the TTL frees the lock, and nothing else is needed.
#[tokio::test]
async fn a_process_that_ends_without_a_word_leaves_its_lock_to_the_ttl() {
    // Side by side, since each waits for a TTL.
    tokio::join!(ends_as("aborts"), ends_as("panics"), ends_as("exits"));
}

async fn ends_as(role: &str) {
    use std::os::unix::process::ExitStatusExt;

    let world = World::start().await;
    let (worker, token) = world.holder(role, None).await;
    let status: ExitStatus = worker.wait(LIMIT).await;
    assert_eq!(status.success(), role == "exits", "{status}");
    assert_eq!(status.signal().is_some(), role != "exits", "{status}");
    let next = world.next().await;
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
    world.env.assert_clean(1, &[&world.manager]).await;
}

/// Writes to what the lock protects, unless a holder with a greater token has.
fn write(connection: &mut Connection, token: FencingToken) -> bool {
    let script = Script::new(
        "local last = redis.call('GET', KEYS[1])
        if last and last > ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], ARGV[1])
        return 1",
    );
    let written: u8 = script
        .key("protected")
        .arg(token.to_sortable_string())
        .invoke(connection)
        .unwrap();
    written == 1
}

fn connect(url: &str) -> Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

async fn write_late(manager: &LockManager, url: &str, gate: &str) {
    let mut protected = connect(url);
    let mut gate = std::net::TcpStream::connect(gate).unwrap();
    let body = manager.lock("order:42").ttl(TTL).run(async |lease| {
        lease.ensure_held().unwrap();
        tell(lease.fencing_token());
        // Without an await, nothing can stop it here.
        std::io::Read::read_exact(&mut gate, &mut [0]).unwrap();
        println!("written: {}", write(&mut protected, lease.fencing_token()));
    });
    println!("outcome: {:?}", body.await.is_ok());
}

/// C3. It has looked whether its lease is valid, and stands still before it writes.
#[tokio::test]
async fn a_write_that_comes_after_the_next_holders_is_refused() {
    let world = World::start().await;
    let url = world.env.server.url();
    let (worker, token) = world.holder("writes", None).await;
    worker.pause();
    let next = world.next().await;
    let now = next.fencing_token();
    assert!(now > token, "broken promise: the token did not grow");
    let written = tokio::task::spawn_blocking(move || write(&mut connect(&url), now));
    assert!(
        soon(written).await.unwrap(),
        "broken promise: the resource refused a holder"
    );
    world.open_gate().await;
    worker.resume();
    let late = worker.line("written: ", LIMIT).await;
    assert!(
        late.ends_with("false"),
        "broken promise: a late write was accepted: {late}"
    );
    worker.line("outcome: false", LIMIT).await;
    assert!(worker.wait(LIMIT).await.success());
    soon(next.release()).await.unwrap();
}

async fn hold(manager: &LockManager, gate: &str) {
    let mut gate = TcpStream::connect(gate).await.unwrap();
    let body = manager.lock("order:42").ttl(TTL).run(async |lease| {
        tell(lease.fencing_token());
        gate.read_u8().await.unwrap();
    });
    println!("outcome: {:?}", body.await);
}

/// C5. Only clocks that cannot be set count.
#[tokio::test]
async fn a_wall_clock_that_is_set_changes_nothing_for_a_holder() {
    const HOUR: Duration = Duration::from_secs(3600);

    let world = World::start().await;
    let clock = WallClock::new();
    let (worker, token) = world.holder("holds", Some(&clock)).await;
    let is_held = async || {
        let since = Instant::now();
        while since.elapsed() < TTL {
            let tried = soon(world.manager.lock("order:42").try_acquire()).await;
            assert!(tried.unwrap().is_none(), "broken promise: two hold the key");
            sleep(TTL / 20).await;
        }
    };
    clock.put_forward(HOUR);
    is_held().await;
    clock.put_back(2 * HOUR);
    is_held().await;
    world.open_gate().await;
    worker.line("outcome: Ok(())", LIMIT).await;
    assert!(worker.wait(LIMIT).await.success());
    let next = world.next().await;
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
    world.env.assert_clean(1, &[&world.manager]).await;
}
