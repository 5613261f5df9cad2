//! One memcached server, for tests.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use crate::child::OwnedChild;
use crate::{port, program};
use dlock_waiting::within;

const PORTS_TO_TRY: usize = 5;
const START_DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A running server with a port of its own. It never runs as root, and keeps nothing on disk.
///
/// Dropping it kills it, also if it is paused.
pub struct MemcachedServer {
    port: u16,
    process: Mutex<OwnedChild>,
    /// Keeps the port while the server is down: a server of another process would answer in its place.
    held_port: Mutex<Option<TcpSocket>>,
}

impl MemcachedServer {
    /// Starts a server on a free port and waits until it accepts connections.
    pub async fn start() -> Self {
        for _ in 0..PORTS_TO_TRY {
            let port = port::free();
            let started = Self {
                port,
                process: Mutex::new(spawn(port)),
                held_port: Mutex::default(),
            };
            if started.is_up().await {
                return started;
            }
        }
        panic!("memcached does not start, or other processes take its ports");
    }

    /// Its URL, `memcached://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.port)
    }

    /// The port on 127.0.0.1; [`restart`](Self::restart) keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server, which forgets everything.
    pub fn kill(&self) {
        self.process().kill();
        let mut held = self.held_port();
        if held.is_none() {
            *held = port::hold(self.port);
        }
    }

    /// Kills the server if it runs, and starts it again on the same port.
    pub async fn restart(&self) {
        self.kill();
        drop(self.held_port().take());
        let started = within(START_DEADLINE, async {
            // Something else may hold the port for a moment: a connection that is being closed.
            loop {
                *self.process() = spawn(self.port);
                if self.is_up().await {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        assert!(started.await.is_some(), "memcached does not start again");
    }

    /// Stops the process: connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Lets a paused server go on; it then works through what was sent meanwhile.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Waits until it accepts connections; `false` if it has ended.
    async fn is_up(&self) -> bool {
        let up = within(START_DEADLINE, async {
            loop {
                // Asked before the connection: the server of another process may accept it.
                if self.process().exited().is_some() {
                    return false;
                }
                if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                    return self.process().exited().is_none();
                }
                sleep(PAUSE).await;
            }
        });
        up.await.expect("memcached accepts connections")
    }

    fn process(&self) -> MutexGuard<'_, OwnedChild> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_port(&self) -> MutexGuard<'_, Option<TcpSocket>> {
        self.held_port
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(port: u16) -> OwnedChild {
    let mut command = Command::new(program::memcached());
    command
        .args(["-l", "127.0.0.1", "-U", "0", "-t", "2", "-m", "16", "-p"])
        .arg(port.to_string())
        .env("LD_LIBRARY_PATH", program::memcached_libraries())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if geteuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    OwnedChild::spawn(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
