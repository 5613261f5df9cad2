//! Processes that are killed or paused while they hold a lock or wait for it.

use std::{env, io::Read as _, net::TcpStream, process::Command, time::Duration};

use dlock_postgres::Fence;
use dlock_runtime::FencingToken;
use dlock_testkit::{PostgresServer, Worker, eventually};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::world::{CONNECTIONS, DEADLINE, World, client, connect, is_held};

/// Set for a process that is not to test: its role, the URL of the database, and the address of a gate.
const ROLE: &str = "DLOCK_TEST_ROLE";

/// Long enough not to run out before the test has broken the process.
const TTL: Duration = Duration::from_secs(4);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    let [role, url, gate] = words[..] else {
        panic!("{role}")
    };
    let manager = connect(url).await;
    let mut gate = TcpStream::connect(gate).unwrap();
    let guard = manager.lock("account:7").ttl(TTL).acquire().await.unwrap();
    println!("holding {}", guard.fencing_token().fence());
    let mut client = client(url).await;
    let tx = client.transaction().await.unwrap();
    if role == "fences" {
        guard.fence(&tx).await.unwrap();
        let statement = "UPDATE account SET cents = 50 WHERE id = 7";
        tx.execute(statement, &[]).await.unwrap();
        println!("fenced");
    }
    // Without an await: nothing else happens in this process.
    gate.read_exact(&mut [0]).unwrap();
    if role == "holds" {
        match guard.fence(&tx).await {
            Ok(()) => println!("fenced"),
            Err(error) => println!("refused: {error}"),
        }
    }
    println!("committed: {}", tx.commit().await.is_ok());
}

struct Child {
    worker: Worker,
    gate: TcpListener,
}

impl Child {
    async fn start(world: &World<&'static PostgresServer>, role: &str) -> Self {
        let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "processes::process", "--nocapture"]);
        let place = gate.local_addr().unwrap();
        command.env(ROLE, format!("{role} {} {place}", world.url()));
        let worker = Worker::spawn(&mut command);
        Self { worker, gate }
    }

    async fn token(&self) -> FencingToken {
        let line = self.worker.line("holding ", DEADLINE).await;
        let (_, fence) = line.split_once("holding ").unwrap();
        FencingToken::from_fence(fence.trim().parse().unwrap()).unwrap()
    }

    /// Kills it, and waits until the server has carried out what it has sent: only its TTL ends what comes late. `others` are the
    /// connections of dlock in other processes.
    async fn kill(&self, world: &World<&'static PostgresServer>, others: i64) {
        self.worker.kill();
        eventually(DEADLINE, "its connections have ended", async || {
            world.number(CONNECTIONS).await == others
        })
        .await;
    }

    async fn open_gate(&self) {
        let (mut gate, _) = self.gate.accept().await.unwrap();
        gate.write_u8(1).await.unwrap();
    }
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl() {
    let world = World::shared().await;
    let child = Child::start(&world, "holds").await;
    let token = child.token().await;
    child.kill(&world, 0).await;
    assert_eq!(world.holders().await, 1, "no process releases it");
    let manager = world.manager().await;
    let next = manager.lock("account:7").acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let world = World::shared().await;
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let child = Child::start(&world, "holds").await;
    eventually(DEADLINE, "the child waits", async || {
        world.waiters().await == 1
    })
    .await;
    let behind = tokio::spawn(other.lock("account:7").acquire());
    eventually(DEADLINE, "another one waits behind it", async || {
        world.waiters().await == 2
    })
    .await;
    child.kill(&world, 2 * 2).await;
    guard.release().await.unwrap();
    let next = behind.await.unwrap().unwrap();
    next.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_lease_is_refused_by_fence() {
    let world = World::shared().await;
    let child = Child::start(&world, "holds").await;
    let token = child.token().await;
    child.worker.pause();
    let manager = world.manager().await;
    let next = manager.lock("account:7").acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    child.worker.resume();
    child.open_gate().await;
    let refused = child.worker.line("refused: ", DEADLINE).await;
    assert!(refused.contains("account:7"), "{refused}");
    assert!(child.worker.wait(DEADLINE).await.success());
    next.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_process_that_is_paused_after_fence_keeps_the_key_until_its_commit() {
    let world = World::shared().await;
    let child = Child::start(&world, "fences").await;
    child.worker.line("fenced", DEADLINE).await;
    child.worker.pause();
    let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
    eventually(DEADLINE, "its lease ends", async || {
        world.number(over).await == 1
    })
    .await;
    let manager = world.manager().await;
    // The transaction is open.
    is_held(&manager, "account:7").await;
    child.worker.resume();
    child.open_gate().await;
    child.worker.line("committed: true", DEADLINE).await;
    let next = manager.lock("account:7").acquire().await.unwrap();
    let cents = "SELECT cents FROM account WHERE id = 7";
    assert_eq!(world.number(cents).await, 50);
    next.release().await.unwrap();
    assert!(child.worker.wait(DEADLINE).await.success());
    world.nothing_is_left().await;
}
