//! Processes that are killed or paused while they hold a lock or wait for it.

use std::{env, io::Read as _, net::TcpStream, process::Command, time::Duration};

use dlock::FencingToken;
use dlock_testkit::{Worker, ZooKeepers, eventually};
use dlock_zookeeper::Check;
use tokio::{io::AsyncWriteExt, net::TcpListener};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::world::{LIMIT, SESSION, TTL, client, manager};

/// Set for a process that is not to test: the URL, the key and the address of a gate.
const ROLE: &str = "DLOCK_TEST_ROLE";

/// The session of a process that is killed or paused. Its locks are free afterwards.
const BRIEF: Duration = Duration::from_secs(10);
const BRIEF_TTL: Duration = Duration::from_secs(8);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    let [url, key, gate] = words[..] else {
        panic!("{role}")
    };
    let locks = manager(url, BRIEF_TTL).await;
    let mut gate = TcpStream::connect(gate).unwrap();
    let guard = locks.lock(key).wait(LIMIT).acquire().await.unwrap();
    let node = guard.check().unwrap().remove(0);
    let fence = guard.fencing_token().fence();
    println!("holding {fence} {}", node.path());
    // Without an await: nothing else happens on this thread.
    gate.read_exact(&mut [0]).unwrap();
    println!("is held: {}", guard.ensure_held().is_ok());
}

struct Child {
    worker: Worker,
    gate: TcpListener,
}

impl Child {
    async fn start(servers: &ZooKeepers, key: &str) -> Self {
        let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "processes::process", "--nocapture"]);
        let place = gate.local_addr().unwrap();
        command.env(ROLE, format!("{} {key} {place}", servers.url(BRIEF)));
        let worker = Worker::spawn(&mut command);
        Self { worker, gate }
    }

    /// Its token, and the path of its node.
    async fn held(&self) -> (FencingToken, String) {
        let line = self.worker.line("holding ", LIMIT).await;
        let (_, said) = line.split_once("holding ").unwrap();
        let words: Vec<_> = said.split_whitespace().collect();
        let [fence, path] = words[..] else {
            panic!("{line}")
        };
        let token = FencingToken::from_fence(fence.parse().unwrap()).unwrap();
        (token, path.to_owned())
    }
}

/// The number of children of a key.
async fn children(client: &Client, key: &str) -> usize {
    client.sync("/").await.unwrap();
    let directory = format!("/dlock/lock:{key}");
    client
        .list_children(&directory)
        .await
        .unwrap_or_default()
        .len()
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_when_its_session_ends() {
    let servers = ZooKeepers::shared().await;
    let child = Child::start(servers, "killed").await;
    let (token, _) = child.held().await;
    child.worker.kill();
    let locks = manager(&servers.url(SESSION), TTL).await;
    let next = locks.lock("killed").wait(LIMIT).acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(manager(&url, TTL), manager(&url, TTL));
    let client = client(servers).await;
    let guard = one.lock("passed").acquire().await.unwrap();
    let child = Child::start(servers, "passed").await;
    let are = async |count| children(&client, "passed").await == count;
    eventually(LIMIT, "the child waits", async || are(2).await).await;
    let behind = tokio::spawn(other.lock("passed").wait(LIMIT).acquire());
    eventually(LIMIT, "another one waits behind it", async || are(3).await).await;
    child.worker.kill();
    guard.release().await.unwrap();
    let next = behind.await.unwrap().unwrap();
    next.release().await.unwrap();
    eventually(LIMIT, "nothing is left", async || are(0).await).await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_session_is_refused_by_the_check() {
    let servers = ZooKeepers::shared().await;
    let (locks, client) = (
        manager(&servers.url(SESSION), TTL).await,
        client(servers).await,
    );
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/stock", b"50", &options).await.unwrap();
    let write = async |node: &str, data: &str| {
        let mut transaction = client.new_multi_writer();
        transaction.add_check_version(node, -1).unwrap();
        transaction
            .add_set_data("/stock", data.as_bytes(), None)
            .unwrap();
        transaction.commit().await.map(drop).map_err(Error::from)
    };
    let child = Child::start(servers, "paused").await;
    let (token, node) = child.held().await;
    assert_eq!(write(&node, "41").await, Ok(()), "it holds the lease");
    child.worker.pause();
    let next = locks.lock("paused").wait(LIMIT).acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    child.worker.resume();
    let late = write(&node, "40").await;
    assert_eq!(late, Err(Error::NoNode), "broken promise: a late write");
    assert_eq!(
        client.get_data("/stock").await.unwrap().0,
        b"41",
        "broken promise: a late write was accepted"
    );
    let (mut gate, _) = child.gate.accept().await.unwrap();
    gate.write_u8(1).await.unwrap();
    child.worker.line("is held: false", LIMIT).await;
    next.release().await.unwrap();
}
