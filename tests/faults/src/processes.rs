//! Processes that are killed or paused while they hold a lock or wait for it.

use std::{env, io::Read as _, net::TcpStream, ops::Deref, process::Command, time::Duration};

use dlock_runtime::{FencingToken, LockGuard};
use dlock_testkit::{Worker, eventually};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::{Process, World, grew, is_released};

/// The key of the other process.
pub const KEY: &str = "stock:7";

/// Set for a process that is not to test: the address of its gate, and more words.
const ROLE: &str = "DLOCK_TEST_ROLE";

/// The role of a process that a test has started: it acquires the [`KEY`] and waits at its gate.
pub struct Role {
    /// The words that the test has given to it.
    pub words: Vec<String>,
    gate: TcpStream,
}

impl Role {
    /// The role of this process; `None` if it is to test.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let role = env::var(ROLE).ok()?;
        let mut words = role.split(' ').map(str::to_owned);
        let gate = words.next().map(TcpStream::connect);
        let gate = gate.unwrap().unwrap();
        Some(Self {
            words: words.collect(),
            gate,
        })
    }

    /// Says that the process has the key, with a proof for the test.
    pub fn holds(guard: &LockGuard, proof: &str) {
        println!("holding {} {proof}", guard.fencing_token().fence());
    }

    /// Waits until the gate is open. There is no await: nothing else happens on this thread.
    pub fn passes_the_gate(&mut self) {
        self.gate.read_exact(&mut [0]).unwrap();
    }
}

/// A process with the test `processes::process` of this executable.
pub struct Child {
    worker: Worker,
    gate: TcpListener,
    deadline: Duration,
}

impl Deref for Child {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl Child {
    /// Starts it with these words, none of which has a space.
    pub async fn start(words: &[&str], deadline: Duration) -> Self {
        let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "processes::process", "--nocapture"]);
        let place = gate.local_addr().unwrap();
        command.env(ROLE, format!("{place} {}", words.join(" ")));
        let worker = Worker::spawn(&mut command);
        Self {
            worker,
            gate,
            deadline,
        }
    }

    /// Waits until it has the key, and returns its token and its proof.
    pub async fn held(&self) -> (FencingToken, Vec<String>) {
        let line = self.says("holding ").await;
        let (_, said) = line.split_once("holding ").unwrap();
        let mut words = said.split_whitespace().map(str::to_owned);
        let fence = words.next().unwrap().parse().unwrap();
        (FencingToken::from_fence(fence).unwrap(), words.collect())
    }

    /// Waits for a line with this text.
    pub async fn says(&self, text: &str) -> String {
        self.line(text, self.deadline).await
    }

    /// Pauses it until another process has the key, and returns the lease of that one.
    pub async fn is_replaced(&self, token: FencingToken, by: &Process) -> LockGuard {
        self.pause();
        let next = by.lock(KEY).wait(self.deadline).acquire().await.unwrap();
        grew(token, next.fencing_token());
        self.resume();
        next
    }

    /// Opens its gate.
    pub async fn goes_on(&self) {
        let (mut gate, _) = self.gate.accept().await.unwrap();
        gate.write_u8(1).await.unwrap();
    }
}

/// The holder is killed: its key is free later, and the next token is greater.
pub async fn the_holder_is_killed<W: World>(world: &W, child: &Child) {
    let (token, _) = child.held().await;
    assert_eq!(world.claims(KEY).await, 1);
    child.kill();
    world.carries_out(0).await;
    assert_eq!(world.claims(KEY).await, 1, "no process releases it");
    let process = world.process().await;
    let next = process.lock(KEY).wait(W::DEADLINE).acquire().await.unwrap();
    grew(token, next.fencing_token());
    is_released(next).await;
    world.nothing_is_left(KEY).await;
}

/// A waiter is killed: the one behind it gets the key.
pub async fn a_waiter_is_killed<W: World>(world: &W, start: impl AsyncFnOnce() -> Child) {
    let (one, other) = tokio::join!(world.process(), world.process());
    let guard = one.lock(KEY).acquire().await.unwrap();
    let child = start().await;
    let are = async |count| world.claims(KEY).await == count;
    eventually(W::DEADLINE, "the child waits", async || are(2).await).await;
    let behind = tokio::spawn(other.lock(KEY).wait(W::DEADLINE).acquire());
    eventually(W::DEADLINE, "another one waits behind it", async || {
        are(3).await
    })
    .await;
    child.kill();
    world.carries_out(2).await;
    is_released(guard).await;
    is_released(behind.await.unwrap().unwrap()).await;
    world.nothing_is_left(KEY).await;
}
