//! The process of one Sentinel: its configuration, its start and its answers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{PATIENT, START_DEADLINE, SentinelShape};
use crate::child::OwnedChild;
use crate::data;
use crate::port;
use crate::program::Make;
use crate::reaper;
use dlock_waiting::within;

const PORTS_TO_TRY: usize = 5;
/// The longest wait for an answer: a paused process gives none.
const ANSWER: Duration = Duration::from_millis(500);

/// One Sentinel with a directory of its own, in which it keeps what it knows.
pub(super) struct SentinelProcess {
    pub(super) port: u16,
    password: Option<&'static str>,
    process: Mutex<OwnedChild>,
    directory: TempDir,
}

impl SentinelProcess {
    pub(super) async fn start(shape: &SentinelShape, service: &str, master: u16) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let port = port::free();
            let directory = data::directory("dlock-sentinel-");
            reaper::removes(directory.path());
            let text = configuration(shape, service, master, port);
            fs::write(directory.path().join("conf"), text).expect("the directory is ours");
            let started = Self {
                port,
                password: shape.sentinel_password,
                process: Mutex::new(launch(&directory)),
                directory,
            };
            if started.until_it_answers(service).await {
                started.calm_down().await;
                return started;
            }
        }
        panic!("no Sentinel starts");
    }

    pub(super) fn launch(&self) -> OwnedChild {
        launch(&self.directory)
    }

    /// `false` if it has ended: the port was taken meanwhile.
    async fn until_it_answers(&self, service: &str) -> bool {
        let answered = within(START_DEADLINE, async {
            loop {
                if self.process().exited().is_some() {
                    let log = self.log();
                    assert!(
                        log.contains("already in use"),
                        "the Sentinel ended at once:\n{log}"
                    );
                    return false;
                }
                // A Sentinel of another test does not know the service.
                if self.master(service).await.is_some() {
                    return true;
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
        let answered = answered.await;
        answered.unwrap_or_else(|| panic!("the Sentinel gives no answer:\n{}", self.log()))
    }

    /// On a machine under load a Sentinel takes its own delays for a clock that jumps, and then does
    /// nothing for half a minute. And one that looks more often finds sooner that a master which comes
    /// back has to follow another. Older ones cannot be told.
    async fn calm_down(&self) {
        let Some(mut connection) = self.connection().await else {
            return;
        };
        redis::cmd("SENTINEL")
            .arg(&["DEBUG", "TILT-TRIGGER", "60000"])
            .arg(&["INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500"])
            .query_async::<()>(&mut connection)
            .await
            .ok();
    }

    pub(super) async fn connection(&self) -> Option<MultiplexedConnection> {
        let login = self.password.map(|it| format!(":{it}@"));
        let (login, port) = (login.unwrap_or_default(), self.port);
        let client = Client::open(format!("redis://{login}127.0.0.1:{port}"));
        let client = client.expect("the URL is well formed");
        let config = brief();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        connection.await.ok()
    }

    async fn ask<T: redis::FromRedisValue>(&self, question: &[&str]) -> Option<T> {
        let mut connection = self.connection().await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg(question);
        command.query_async(&mut connection).await.ok()
    }

    /// What it knows of the master; `None` if it does not answer.
    pub(super) async fn master(&self, service: &str) -> Option<HashMap<String, String>> {
        self.ask(&["MASTER", service]).await
    }

    pub(super) async fn address(&self, service: &str) -> Option<u16> {
        let address: (String, u16) = self.ask(&["GET-MASTER-ADDR-BY-NAME", service]).await?;
        Some(address.1)
    }

    /// From now on, no server of this service counts as down before a minute has passed. One that does not run is left as it is.
    pub(super) async fn be_patient(&self, service: &str) {
        let silence = PATIENT.as_millis().to_string();
        let order = ["SET", service, "down-after-milliseconds", &silence];
        self.ask::<()>(&order).await;
    }

    pub(super) async fn has_good_replicas(&self, service: &str) -> bool {
        let replicas: Option<Vec<HashMap<String, String>>> = self.ask(&["REPLICAS", service]).await;
        replicas.is_some_and(|replicas| {
            let mut replicas = replicas.iter();
            replicas.all(|it| it["flags"] == "slave" && it["master-link-status"] == "ok")
        })
    }

    pub(super) fn process(&self) -> MutexGuard<'_, OwnedChild> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("log"));
        log.unwrap_or_else(|_| "it left no log".to_owned())
    }
}

fn launch(directory: &TempDir) -> OwnedChild {
    let path = directory.path();
    let program = Make::Usual.program();
    OwnedChild::spawn(
        Command::new(&program)
            .arg(path.join("conf"))
            .arg("--sentinel")
            .arg("--dir")
            .arg(path)
            .arg("--logfile")
            .arg(path.join("log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
    .unwrap_or_else(|error| panic!("{} cannot be run: {error}", program.display()))
}

fn configuration(shape: &SentinelShape, service: &str, master: u16, port: u16) -> String {
    let mut text = format!(
        "port {port}\nbind 127.0.0.1\nprotected-mode no\ndaemonize no\n\
         sentinel resolve-hostnames no\n\
         sentinel monitor {service} 127.0.0.1 {master} {}\n\
         sentinel down-after-milliseconds {service} {}\n\
         sentinel failover-timeout {service} {}\n\
         sentinel parallel-syncs {service} 1\n",
        shape.sentinels / 2 + 1,
        shape.down_after.as_millis(),
        shape.failover_timeout.as_millis(),
    );
    let mut line = |line: String| writeln!(text, "{line}").expect("text takes all");
    if let Some(password) = shape.password {
        line(format!("sentinel auth-pass {service} {password}"));
    }
    if let Some(password) = shape.sentinel_password {
        line(format!("requirepass {password}"));
        line(format!("sentinel sentinel-pass {password}"));
    }
    text
}

/// A connection that gives up soon.
pub(super) fn brief() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER))
}
