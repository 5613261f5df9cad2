//! Processes that are killed or paused while they hold a lock or wait for it.

use std::{env, io::Read as _, net::TcpStream, process::Command, time::Duration};

use dlock::FencingToken;
use dlock_etcd::Compare;
use dlock_testkit::{EtcdServer, Worker, eventually};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::world::{DEADLINE, connect};

/// Set for a process that is not to test: the URL and the address of a gate.
const ROLE: &str = "DLOCK_TEST_ROLE";

/// Long enough not to run out before the test has broken the process.
const TTL: Duration = Duration::from_secs(8);

const CLAIMS: &str = "dlock/stock:7/";

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Ok(role) = env::var(ROLE) else { return };
    let (url, gate) = role.split_once(' ').unwrap();
    let manager = connect(url).await;
    let mut gate = TcpStream::connect(gate).unwrap();
    let guard = manager.lock("stock:7").ttl(TTL).acquire().await.unwrap();
    let key = guard.compare().unwrap().remove(0);
    let name = String::from_utf8(key.name().to_vec()).unwrap();
    let fence = guard.fencing_token().fence();
    println!("holding {fence} {name} {}", key.create_revision());
    // Without an await: nothing else happens in this process.
    gate.read_exact(&mut [0]).unwrap();
    println!("is held: {}", guard.ensure_held().is_ok());
}

/// The words of a process about its lease.
struct Held {
    token: FencingToken,
    comparison: Vec<(Vec<u8>, i64)>,
}

struct Child {
    worker: Worker,
    gate: TcpListener,
}

impl Child {
    async fn start(server: &EtcdServer) -> Self {
        let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "processes::process", "--nocapture"]);
        let place = gate.local_addr().unwrap();
        command.env(ROLE, format!("{} {place}", server.url()));
        let worker = Worker::spawn(&mut command);
        Self { worker, gate }
    }

    async fn held(&self) -> Held {
        let line = self.worker.line("holding ", DEADLINE).await;
        let (_, said) = line.split_once("holding ").unwrap();
        let words: Vec<_> = said.split_whitespace().collect();
        let [fence, name, create] = words[..] else {
            panic!("{line}")
        };
        Held {
            token: FencingToken::from_fence(fence.parse().unwrap()).unwrap(),
            comparison: vec![(name.as_bytes().to_vec(), create.parse().unwrap())],
        }
    }
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl() {
    let server = EtcdServer::start().await;
    let child = Child::start(&server).await;
    let held = child.held().await;
    child.worker.kill();
    assert_eq!(server.keys(CLAIMS).await.len(), 1, "no process releases it");
    let manager = connect(&server.url()).await;
    let lock = manager.lock("stock:7").wait(DEADLINE);
    let next = lock.acquire().await.unwrap();
    assert!(
        next.fencing_token() > held.token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
    assert_eq!(server.keys(CLAIMS).await, [""; 0]);
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let server = EtcdServer::start().await;
    let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.lock("stock:7").acquire().await.unwrap();
    let child = Child::start(&server).await;
    let claims = async |count| server.keys(CLAIMS).await.len() == count;
    eventually(DEADLINE, "the child waits", async || claims(2).await).await;
    let behind = tokio::spawn(other.lock("stock:7").wait(DEADLINE).acquire());
    eventually(DEADLINE, "another one waits behind it", async || {
        claims(3).await
    })
    .await;
    child.worker.kill();
    guard.release().await.unwrap();
    let next = behind.await.unwrap().unwrap();
    next.release().await.unwrap();
    assert_eq!(server.keys(CLAIMS).await, [""; 0]);
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_lease_is_refused_by_the_comparison() {
    let server = EtcdServer::start().await;
    let manager = connect(&server.url()).await;
    let child = Child::start(&server).await;
    let held = child.held().await;
    assert!(
        server.put_if(&held.comparison, "stock", "1").await,
        "it holds the lease"
    );
    child.worker.pause();
    let lock = manager.lock("stock:7").wait(DEADLINE);
    let next = lock.acquire().await.unwrap();
    assert!(
        next.fencing_token() > held.token,
        "broken promise: the token did not grow"
    );
    child.worker.resume();
    assert!(
        !server.put_if(&held.comparison, "stock", "2").await,
        "broken promise: a late write was accepted"
    );
    let (mut gate, _) = child.gate.accept().await.unwrap();
    gate.write_u8(1).await.unwrap();
    child.worker.line("is held: false", DEADLINE).await;
    next.release().await.unwrap();
}
