//! One Redis (or Valkey) server, for tests.

mod launch;
mod reset;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::time::sleep;

use crate::child::OwnedChild;
use crate::clock::WallClock;
use crate::data;
use crate::program::Make;
use crate::tls::{Authority, Identity};
use crate::{port, reaper};
use dlock_waiting::within;
use launch::{START_DEADLINE, is_up, log, password, spawn};

const PORTS_TO_TRY: usize = 5;
const CLIENT_DEADLINE: Duration = Duration::from_secs(10);

/// The settings of a connection beside dlock. The limits of the crate `redis`, of a second and less, are too short
/// for a busy machine.
#[must_use]
pub fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CLIENT_DEADLINE))
        .set_response_timeout(Some(CLIENT_DEADLINE))
}

/// A running server with a port, a directory and data of its own.
///
/// Dropping it kills the process, also a paused one, and removes the directory.
pub struct RedisServer {
    make: Make,
    port: u16,
    tls_port: Option<u16>,
    password: Option<String>,
    arguments: Vec<OsString>,
    clock: Option<WallClock>,
    /// A test has killed, paused or misled the process.
    is_disturbed: AtomicBool,
    /// The configuration after the start, where later tests use the server as well.
    configuration: OnceLock<Vec<String>>,
    // The process is declared, and so dropped, before the directory it works in.
    process: Mutex<OwnedChild>,
    /// Keeps the port while the server is down: a server of another process would answer in its place.
    held_port: Mutex<Option<TcpSocket>>,
    directory: TempDir,
}

impl RedisServer {
    /// Starts a server without persistence on a free port and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with additional arguments, such as `["--requirepass", "secret"]`.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_make_with(Make::Usual, arguments).await
    }

    /// Starts a Valkey server.
    ///
    /// Panics with what to do if there is none.
    pub async fn start_valkey() -> Self {
        Self::start_make(Make::Valkey).await
    }

    /// Starts a server of a certain make.
    ///
    /// Panics with what to do if there is none.
    pub async fn start_make(make: Make) -> Self {
        Self::start_make_with(make, &[]).await
    }

    /// Starts a server of a certain make with additional arguments.
    pub async fn start_make_with(make: Make, arguments: &[&str]) -> Self {
        let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
        Self::start_as(make, false, || (arguments.clone(), None)).await
    }

    /// Starts a server with a wall clock of its own, which agrees with the machine's until
    /// [`put_clock_forward`](Self::put_clock_forward) or [`put_clock_back`](Self::put_clock_back).
    pub async fn start_with_clock(arguments: &[&str]) -> Self {
        let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
        Self::start_as(Make::Usual, true, || (arguments.clone(), None)).await
    }

    /// Starts a server that also speaks TLS, on a port of its own, with this certificate. Clients
    /// must show one of the authority if there is one.
    pub async fn start_with_tls(
        identity: &Identity,
        clients_of: Option<&Authority>,
        arguments: &[&str],
    ) -> Self {
        Self::start_as(Make::Usual, false, || {
            let port = port::free();
            let mut all: Vec<OsString> = vec!["--tls-port".into(), port.to_string().into()];
            all.extend(["--tls-cert-file".into(), identity.cert_file().into()]);
            all.extend(["--tls-key-file".into(), identity.key_file().into()]);
            // The server wants one in any case.
            let ca = clients_of.map_or_else(|| identity.cert_file(), Authority::ca_file);
            all.extend(["--tls-ca-cert-file".into(), ca.into()]);
            let auth = if clients_of.is_some() { "yes" } else { "no" };
            all.extend(["--tls-auth-clients".into(), auth.into()]);
            all.extend(arguments.iter().map(Into::into));
            (all, Some(port))
        })
        .await
    }

    /// Starts a server with arguments that are made anew for each attempt, as ports have to be.
    pub(crate) async fn start_with_changing(arguments: impl Fn() -> Vec<String>) -> Self {
        let arguments = || arguments().into_iter().map(Into::into).collect();
        Self::start_as(Make::Usual, false, || (arguments(), None)).await
    }

    async fn start_as(
        make: Make,
        own_clock: bool,
        arguments: impl Fn() -> (Vec<OsString>, Option<u16>),
    ) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let started = Self::spawn(make, own_clock, arguments());
            if started.is_up().await {
                return started;
            }
        }
        panic!("the server does not start: other processes take its ports");
    }

    /// Starts a process, which does not answer yet.
    fn spawn(make: Make, own_clock: bool, arguments: (Vec<OsString>, Option<u16>)) -> Self {
        let directory = data::directory("dlock-redis-");
        reaper::removes(directory.path());
        let clock = own_clock.then(WallClock::new);
        let port = port::free();
        let (arguments, tls_port) = arguments;
        let process = spawn(make, port, &arguments, clock.as_ref(), directory.path());
        Self {
            make,
            port,
            tls_port,
            password: password(&arguments),
            arguments,
            clock,
            is_disturbed: AtomicBool::new(false),
            configuration: OnceLock::new(),
            process: Mutex::new(process),
            held_port: Mutex::default(),
            directory,
        }
    }

    /// Waits for the first answer; `false` if a port was taken meanwhile.
    async fn is_up(&self) -> bool {
        is_up(&self.process, self.directory.path()).await
    }

    /// The URL of the server, with the password if it was started with one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self
            .password
            .as_ref()
            .map_or_else(String::new, |it| format!(":{it}@"));
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    /// The port on 127.0.0.1; [`restart`](Self::restart) keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port on 127.0.0.1 at which it speaks TLS.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("it was started with TLS")
    }

    /// The URL over TLS, for a client that trusts this authority.
    #[must_use]
    pub fn tls_url(&self, authority: &Authority) -> String {
        let (port, ca) = (self.tls_port(), authority.ca_file());
        format!("rediss://127.0.0.1:{port}?ca={}", ca.display())
    }

    /// The path of the server's Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// Kills the server as a power cut would. Its data is gone.
    pub fn kill(&self) {
        self.disturb();
        self.process().kill();
        let mut held = self
            .held_port
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = port::hold(self.port);
        }
    }

    /// Kills the server if it runs, and starts an empty one on the same port.
    pub async fn restart(&self) {
        self.kill();
        drop(
            self.held_port
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let (clock, directory) = (self.clock.as_ref(), self.directory.path());
        let started = within(START_DEADLINE, async {
            // Something else may hold the port for a moment: a proxy's connection being closed.
            loop {
                *self.process() = spawn(self.make, self.port, &self.arguments, clock, directory);
                if self.is_up().await {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        let has_started = started.await.is_some();
        assert!(
            has_started,
            "the server does not start again:\n{}",
            log(directory)
        );
    }

    /// Stops the process: connections stay open, nothing is answered, TTLs go on counting.
    pub fn pause(&self) {
        self.disturb();
        self.process().pause();
    }

    /// Lets a paused server go on; it then works through what was sent meanwhile.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Puts the server's wall clock forward, at once and while it runs.
    ///
    /// Panics unless it was started by [`start_with_clock`](Self::start_with_clock).
    pub fn put_clock_forward(&self, by: Duration) {
        self.clock().put_forward(by);
    }

    /// Puts the server's wall clock back, as [`put_clock_forward`](Self::put_clock_forward) does
    /// forward.
    pub fn put_clock_back(&self, by: Duration) {
        self.clock().put_back(by);
    }

    fn clock(&self) -> &WallClock {
        self.disturb();
        let clock = self.clock.as_ref();
        clock.expect("the server was started with a clock of its own")
    }

    /// Opens a connection of the test's own, for set-up and assertions.
    pub async fn connection(&self) -> MultiplexedConnection {
        let connected = within(START_DEADLINE, async {
            // A promotion ends connections, also one that has just been made.
            loop {
                match self.try_connection().await {
                    Ok(connection) => return connection,
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        connected
            .await
            .expect("a running server accepts connections")
    }

    async fn try_connection(&self) -> RedisResult<MultiplexedConnection> {
        Client::open(self.url())
            .expect("the server's URL is well formed")
            .get_multiplexed_async_connection_with_config(&patient())
            .await
    }

    /// The keys that match a pattern, sorted. Expired keys are not among them, and neither is what
    /// processes say of themselves, which comes and goes by itself: that is what
    /// [`processes`](Self::processes) are for.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = self.all_keys(pattern).await;
        keys.retain(|key| !says_who_it_is(key));
        keys
    }

    /// The keys under which processes that use locks publish their presence.
    pub async fn processes(&self) -> Vec<String> {
        let mut keys = self.all_keys("*:process:{*}").await;
        keys.retain(|key| says_who_it_is(key));
        keys
    }

    /// The answer to a command that only reads.
    ///
    /// It is asked again where the connection breaks: Sentinels and a cluster end those of a server whose role
    /// they change.
    pub async fn read<T: FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let mut failure = None;
        for _ in 0..20 {
            let mut connection = self.connection().await;
            match command.query_async(&mut connection).await {
                Ok(answer) => return answer,
                Err(error) if error.is_io_error() => failure = Some(error),
                Err(error) => panic!("{command:?}: {error}"),
            }
        }
        panic!("{command:?}: every connection breaks: {failure:?}");
    }

    async fn all_keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        let mut cursor = 0_u64;
        loop {
            // SCAN as an application should use it; KEYS would stop the server meanwhile.
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern);
            let (next, page): (u64, Vec<Vec<u8>>) = self.read(scan.arg("COUNT").arg(1000)).await;
            keys.extend(
                page.iter()
                    .map(|key| String::from_utf8_lossy(key).into_owned()),
            );
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        keys.sort();
        // SCAN may name a key twice.
        keys.dedup();
        keys
    }

    async fn command_stats(&self) -> String {
        self.read(redis::cmd("INFO").arg("commandstats")).await
    }

    /// How often the server has run a command since it started, scripts included.
    ///
    /// For a subcommand write `"script|load"`.
    pub async fn command_count(&self, name: &str) -> u64 {
        let report = self.command_stats().await;
        calls(&report, name)
    }

    /// The same without the times that it has failed: a connection is opened with an `EVALSHA` of no script.
    pub async fn success_count(&self, name: &str) -> u64 {
        let report = self.command_stats().await;
        calls(&report, name) - failures(&report, name)
    }

    /// Deletes all data. Loaded scripts and the counters of commands stay.
    pub async fn flush(&self) {
        let mut connection = self.connection().await;
        redis::cmd("FLUSHALL")
            .query_async::<()>(&mut connection)
            .await
            .expect("FLUSHALL is allowed");
    }

    fn disturb(&self) {
        self.is_disturbed.store(true, Ordering::Relaxed);
    }

    fn process(&self) -> MutexGuard<'_, OwnedChild> {
        // A test that panicked elsewhere must still be able to clean up.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is the key of a process: `dlock:process:{` and 32 digits.
fn says_who_it_is(key: &str) -> bool {
    let client = key.split_once(":process:{").map(|(_, client)| client);
    let client = client.and_then(|client| client.strip_suffix('}'));
    client.is_some_and(|it| it.len() == 32 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn calls(report: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{}:calls=", command.to_ascii_lowercase());
    report
        .lines()
        .find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

fn failures(report: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{}:", command.to_ascii_lowercase());
    let line = report.lines().find_map(|line| line.strip_prefix(&prefix));
    let mut fields = line.unwrap_or_default().split(',');
    fields
        .find_map(|field| field.strip_prefix("failed_calls=")?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_per_command() {
        let report = "cmdstat_set:calls=12,usec=3,rejected_calls=1,failed_calls=4\r\n\
                      cmdstat_get:calls=5,usec=1\r\n";
        assert_eq!(failures(report, "SET"), 4);
        assert_eq!(failures(report, "get"), 0);
        assert_eq!(failures(report, "del"), 0);
    }

    #[test]
    fn calls_are_read_per_command() {
        let report =
            "# Commandstats\r\ncmdstat_set:calls=12,usec=3\r\ncmdstat_setex:calls=5,usec=1\r\n";
        assert_eq!(calls(report, "SET"), 12);
        assert_eq!(calls(report, "setex"), 5);
        assert_eq!(calls(report, "get"), 0);
    }
}
