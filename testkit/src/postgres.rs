//! One PostgreSQL server, for tests.

mod bouncer;
mod group;
mod launch;

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::sync::OnceCell;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

pub use bouncer::PgBouncer;
use group::OwnedGroup;

use crate::clock::WallClock;
use crate::disk::Disk;
use crate::port;
use crate::tls::{Authority, Identity};
use dlock_waiting::eventually;
use dlock_waiting::within;

/// The user who may do everything.
const ADMIN: &str = "postgres";

const PORTS_TO_TRY: usize = 5;
const START_DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    settings: Vec<String>,
    access: Vec<String>,
    certificate: Option<(std::path::PathBuf, std::path::PathBuf)>,
    clients_of: Option<std::path::PathBuf>,
    /// A file that says what this standby follows.
    follows: Option<u16>,
    environment: Vec<(OsString, OsString)>,
}

impl PostgresOptions {
    /// A server whose data outlives its processes, but not the machine's power.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a setting, such as `("max_connections", "5")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("{name}={value}"));
        self
    }

    /// Adds a line to `pg_hba.conf`, before the last one, which lets everybody in from this machine.
    #[must_use]
    pub fn access(mut self, line: &str) -> Self {
        self.access.push(line.to_owned());
        self
    }

    /// Has a clock of its own, which must live as long as the server.
    #[must_use]
    pub fn clock(mut self, clock: &WallClock) -> Self {
        self.environment.extend(clock.environment());
        self
    }

    /// Has a disk of its own, which must live as long as the server. A server has such a disk or such a clock.
    #[must_use]
    pub fn disk(mut self, disk: &Disk) -> Self {
        self.environment.extend(disk.environment());
        self
    }

    /// Speaks TLS with this certificate, beside plain connections. Clients must show one of the authority if there is
    /// one and a line of access says `clientcert=verify-ca`.
    #[must_use]
    pub fn tls(mut self, identity: &Identity, clients_of: Option<&Authority>) -> Self {
        self.certificate = Some((identity.cert_file(), identity.key_file()));
        self.clients_of = clients_of.map(Authority::ca_file);
        self
    }
}

/// The server's own copies, in its directory.
const CERT: &str = "server.crt";
const KEY: &str = "server.key";
const CA: &str = "ca.crt";

/// A running server with a port, a directory and data of its own. It never runs as root.
///
/// Dropping it ends its processes, also paused ones, and removes the directory.
pub struct PostgresServer {
    port: u16,
    options: PostgresOptions,
    // The processes are declared, and so dropped, before the directory they work in.
    processes: Mutex<OwnedGroup>,
    /// Keeps the port while the server is down: a server of another process would answer in its place.
    held_port: Mutex<Option<TcpSocket>>,
    directory: TempDir,
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.processes().has_ended() {
            launch::free_memory(self.directory.path());
        }
    }
}

impl PostgresServer {
    /// Starts a server on a free port and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(PostgresOptions::new()).await
    }

    /// Starts a server with options.
    pub async fn start_with(options: PostgresOptions) -> Self {
        Self::start_from(options, launch::copy_of_template).await
    }

    /// Starts a server that follows this one: it has the same data, a moment later, and only reads.
    pub async fn start_standby(&self) -> Self {
        let mut options = self.options.clone();
        options.follows = Some(self.port);
        let from = self.port;
        Self::start_from(options, move |directory| launch::backup_of(from, directory)).await
    }

    async fn start_from(options: PostgresOptions, fill: impl Fn(&Path)) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let directory = launch::directory();
            fill(directory.path());
            launch::configure(directory.path(), &options.access, options.follows);
            let port = port::free();
            let processes = launch::postgres(
                directory.path(),
                port,
                &Self::arguments(&options, directory.path()),
                &options.environment,
            );
            let started = Self {
                port,
                options: options.clone(),
                processes: Mutex::new(processes),
                held_port: Mutex::default(),
                directory,
            };
            if started.is_up().await {
                return started;
            }
        }
        panic!("the server does not start: other processes take its ports");
    }

    fn arguments(options: &PostgresOptions, directory: &Path) -> Vec<OsString> {
        let mut all = options.settings.clone();
        if let Some((cert, key)) = &options.certificate {
            all.push("ssl=on".to_owned());
            let cert = launch::own_copy(cert, &directory.join(CERT));
            all.push(format!("ssl_cert_file={}", cert.display()));
            // The server refuses a key that belongs to another user.
            let key = launch::own_copy(key, &directory.join(KEY));
            all.push(format!("ssl_key_file={}", key.display()));
        }
        if let Some(ca) = &options.clients_of {
            let ca = launch::own_copy(ca, &directory.join(CA));
            all.push(format!("ssl_ca_file={}", ca.display()));
        }
        all.into_iter()
            .flat_map(|setting| ["-c".into(), setting.into()])
            .collect()
    }

    /// Waits for the first answer; `false` if the port was taken meanwhile.
    async fn is_up(&self) -> bool {
        let up = within(START_DEADLINE, async {
            loop {
                if self.connects().await {
                    return true;
                }
                if self.processes().has_ended() {
                    let log = launch::log(self.directory.path());
                    assert!(
                        log.contains("Address already in use"),
                        "the server ended:\n{log}"
                    );
                    return false;
                }
                sleep(PAUSE).await;
            }
        });
        up.await.unwrap_or_else(|| {
            panic!(
                "the server does not answer:\n{}",
                launch::log(self.directory.path())
            )
        })
    }

    async fn connects(&self) -> bool {
        let connected = tokio_postgres::connect(&self.url(), NoTls).await;
        let Ok((client, connection)) = connected else {
            return false;
        };
        tokio::spawn(connection);
        client.batch_execute("SELECT 1").await.is_ok()
    }

    /// The URL of its first database, for the user who may do everything.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(ADMIN, ADMIN)
    }

    /// The URL of a database, for a user: `name`, or `name:password`.
    #[must_use]
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1; [`restart`](Self::restart) keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the log of the server.
    #[must_use]
    pub fn log(&self) -> String {
        launch::log(self.directory.path())
    }

    /// Makes a database of a name that was not used before, and returns its name.
    pub async fn database(&self) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name}")).await;
        name
    }

    /// Connects to a database as the user who may do everything.
    pub async fn client(&self, database: &str) -> Client {
        let url = self.url_of(ADMIN, database);
        let (client, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .expect("the server accepts connections");
        tokio::spawn(connection);
        client
    }

    /// Executes statements in the first database, as the user who may do everything.
    pub async fn execute(&self, statements: &str) {
        let client = self.client(ADMIN).await;
        let executed = client.batch_execute(statements).await;
        executed.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Shows another certificate soon, and asks for those of another authority, if it was started with both.
    pub async fn replace_tls(&self, identity: &Identity, clients_of: &Authority) {
        for (from, name) in [
            (identity.cert_file(), CERT),
            (identity.key_file(), KEY),
            (clients_of.ca_file(), CA),
        ] {
            launch::own_copy(&from, &self.directory.path().join(name));
        }
        self.execute("SELECT pg_reload_conf()").await;
    }

    /// Kills all processes of the server at once. What was committed is still there after a restart.
    pub fn kill(&self) {
        self.processes().kill();
        let mut held = self
            .held_port
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = port::hold(self.port);
        }
    }

    /// Kills the server if it runs, and starts it again with its data on the same port.
    pub async fn restart(&self) {
        self.kill();
        drop(
            self.held_port
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let directory = self.directory.path();
        let started = within(START_DEADLINE, async {
            // Something else may hold the port for a moment: a proxy's connection being closed.
            loop {
                launch::forget_log(directory);
                let arguments = Self::arguments(&self.options, directory);
                *self.processes() =
                    launch::postgres(directory, self.port, &arguments, &self.options.environment);
                if self.is_up().await {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        assert!(
            started.await.is_some(),
            "the server does not start again:\n{}",
            self.log()
        );
    }

    /// Kills the server, and starts it again on the same port as a standby of `primary`, whose data it takes.
    pub async fn restart_as_standby_of(&self, primary: &Self) {
        self.kill();
        let directory = self.directory.path();
        launch::forget_data(directory);
        launch::backup_of(primary.port, directory);
        launch::configure(directory, &self.options.access, Some(primary.port));
        self.restart().await;
    }

    /// Stops all processes: connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.processes().pause();
    }

    /// Lets a paused server go on; it then works through what was sent meanwhile.
    pub fn resume(&self) {
        self.processes().resume();
    }

    /// Has a standby receive nothing more, and waits until it does not. It still answers.
    pub async fn stop_following(&self) {
        self.execute("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.execute("SELECT pg_reload_conf()").await;
        let client = self.client(ADMIN).await;
        eventually(START_DEADLINE, "it follows no server", async || {
            let receivers = "SELECT 1 FROM pg_stat_wal_receiver";
            let receivers = client.query(receivers, &[]).await;
            receivers.expect("a standby answers").is_empty()
        })
        .await;
    }

    /// Makes a standby a server that writes, and waits until it does.
    pub async fn promote(&self) {
        self.execute("SELECT pg_promote()").await;
    }

    /// A server that several tests of this process use, each with a database of its own.
    pub async fn shared() -> &'static Self {
        static SERVER: OnceCell<PostgresServer> = OnceCell::const_new();
        let start = || async {
            let options = PostgresOptions::new().set("max_connections", "400");
            Self::start_with(options.set("max_prepared_transactions", "20")).await
        };
        SERVER.get_or_init(start).await
    }

    fn processes(&self) -> MutexGuard<'_, OwnedGroup> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
