//! etcd's own gRPC proxy in front of a server.

use std::process::{Command, Stdio};

use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{EtcdServer, PAUSE, PORTS_TO_TRY, START_DEADLINE};
use crate::child::OwnedChild;
use crate::port;
use crate::program::{self, EtcdMake};
use dlock_waiting::within;

/// A running `etcd grpc-proxy`. Dropping it kills it.
pub struct EtcdGrpcProxy {
    port: u16,
    _process: OwnedChild,
}

impl EtcdGrpcProxy {
    /// Starts a proxy in front of a server and waits until it accepts connections.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn start(make: EtcdMake, server: &EtcdServer) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let port = port::free();
            let mut command = Command::new(program::etcd(make));
            command.args(["grpc-proxy", "start"]);
            command.arg(format!("--endpoints=127.0.0.1:{}", server.port()));
            command.arg(format!("--listen-addr=127.0.0.1:{port}"));
            command.stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let spawned = OwnedChild::spawn(&mut command);
            let mut process = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let is_up = async {
                while process.exited().is_none() {
                    if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                        return true;
                    }
                    sleep(PAUSE).await;
                }
                false
            };
            if within(START_DEADLINE, is_up).await == Some(true) {
                return Self {
                    port,
                    _process: process,
                };
            }
        }
        panic!("the proxy does not start");
    }

    /// Returns the URL of locks in the server behind it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }
}
