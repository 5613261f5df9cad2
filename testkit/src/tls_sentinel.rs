//! A Sentinel that speaks TLS, to its clients and to the master it watches.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::data;
use crate::port;
use crate::program::Make;
use crate::server::RedisServer;
use crate::tls::{Authority, Identity};
use dlock_waiting::eventually;

const START_DEADLINE: Duration = Duration::from_secs(20);
const PORTS_TO_TRY: usize = 5;

/// One Sentinel that watches one master; dropping it kills it.
pub struct TlsSentinel {
    port: u16,
    _process: OwnedChild,
    _directory: TempDir,
}

impl TlsSentinel {
    /// The name by which it knows the master.
    pub const SERVICE: &str = "over-tls";

    /// Starts it, and waits until it has reached the master, which must speak TLS.
    pub async fn watch(master: &RedisServer, identity: &Identity, authority: &Authority) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let directory = data::directory("dlock-tls-sentinel-");
            let (plain, port) = (port::free(), port::free());
            let text = format!(
                "port {plain}\ntls-port {port}\nbind 127.0.0.1\nprotected-mode no\n\
                 tls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n\
                 tls-auth-clients no\ntls-replication yes\n\
                 sentinel monitor {} 127.0.0.1 {} 1\n",
                identity.cert_file().display(),
                identity.key_file().display(),
                authority.ca_file().display(),
                Self::SERVICE,
                master.tls_port(),
            );
            let conf = directory.path().join("conf");
            fs::write(&conf, text).expect("it can be written");
            let mut process = OwnedChild::spawn(
                Command::new(Make::Usual.program())
                    .arg(&conf)
                    .arg("--sentinel")
                    .arg("--dir")
                    .arg(directory.path())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null()),
            )
            .expect("the server can be run");
            let mut has_ended = false;
            eventually(START_DEADLINE, "it has reached the master", async || {
                // Another process may have taken a port meanwhile.
                has_ended = process.exited().is_some();
                has_ended || knows_master(plain).await
            })
            .await;
            if !has_ended {
                return Self {
                    port,
                    _process: process,
                    _directory: directory,
                };
            }
        }
        panic!("the Sentinel does not start");
    }

    /// The port on 127.0.0.1 at which it speaks TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn knows_master(port: u16) -> bool {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(START_DEADLINE));
    let Ok(client) = redis::Client::open(format!("redis://127.0.0.1:{port}")) else {
        return false;
    };
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let Ok(mut connection) = connection.await else {
        return false;
    };
    let mut question = redis::cmd("SENTINEL");
    question.arg("MASTER").arg(TlsSentinel::SERVICE);
    let answer: Result<Vec<String>, _> = question.query_async(&mut connection).await;
    let flags = answer.ok().and_then(|words| {
        let at = words.iter().position(|word| word == "flags")?;
        words.get(at + 1).cloned()
    });
    flags.is_some_and(|flags| flags == "master")
}
