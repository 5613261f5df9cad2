//! A pooler in front of a PostgreSQL server.

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use tokio::time::sleep;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::group::OwnedGroup;
use super::{ADMIN, PAUSE, PORTS_TO_TRY, PostgresServer, START_DEADLINE, launch};
use crate::port;
use dlock_waiting::within;

/// The connections to a server for each user and database, unless a test says otherwise.
const POOL: usize = 3;

/// The database that stands for the pooler itself.
const CONSOLE: &str = "pgbouncer";

/// The part of a configuration that tests choose.
#[derive(Clone, Copy)]
struct Settings {
    pool: usize,
    /// Whether it accepts settings at the begin of a connection, and does nothing with them.
    ignores: bool,
}

/// A running PgBouncer in transaction mode, with up to three connections to a server for each user and database. It
/// knows the users `postgres` and `app`.
///
/// Dropping it kills it.
pub struct PgBouncer {
    port: u16,
    /// The port of the server.
    server: AtomicU16,
    settings: Settings,
    process: Mutex<OwnedGroup>,
    directory: TempDir,
}

impl PgBouncer {
    /// Starts a pooler in front of a server and waits until it answers.
    pub async fn start(server: &PostgresServer) -> Self {
        Self::start_with_pool(server, POOL).await
    }

    /// The same with up to `pool` connections to the server.
    pub async fn start_with_pool(server: &PostgresServer, pool: usize) -> Self {
        let ignores = false;
        Self::start_with(server, Settings { pool, ignores }).await
    }

    /// The same. It accepts settings at the begin of a connection, and does nothing with them.
    pub async fn start_ignoring_settings(server: &PostgresServer) -> Self {
        let settings = Settings {
            pool: POOL,
            ignores: true,
        };
        Self::start_with(server, settings).await
    }

    async fn start_with(server: &PostgresServer, settings: Settings) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let directory = launch::directory();
            let port = port::free();
            let process = launch::pgbouncer(
                directory.path(),
                &configuration((port, server.port()), settings, directory.path()),
            );
            let started = Self {
                port,
                server: server.port().into(),
                settings,
                process: Mutex::new(process),
                directory,
            };
            if started.is_up().await {
                return started;
            }
        }
        panic!("PgBouncer does not start: other processes take its ports");
    }

    async fn is_up(&self) -> bool {
        let up = within(START_DEADLINE, async {
            loop {
                if self.connects().await {
                    return true;
                }
                if self.process().has_ended() {
                    let log = launch::log(self.directory.path());
                    assert!(
                        log.contains("ddress already in use"),
                        "PgBouncer ended:\n{log}"
                    );
                    return false;
                }
                sleep(PAUSE).await;
            }
        });
        up.await.unwrap_or_else(|| {
            panic!(
                "PgBouncer does not answer:\n{}",
                launch::log(self.directory.path())
            )
        })
    }

    async fn connects(&self) -> bool {
        let connected = tokio_postgres::connect(&self.url_of(ADMIN, ADMIN), NoTls).await;
        let Ok((client, connection)) = connected else {
            return false;
        };
        tokio::spawn(connection);
        client.simple_query("SELECT 1").await.is_ok()
    }

    /// The URL of a database through the pooler, for a user.
    #[must_use]
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1; [`restart`](Self::restart) keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of its connections to the server that a client of `database` uses now.
    pub async fn used_connections(&self, database: &str) -> u32 {
        let (client, connection) = tokio_postgres::connect(&self.url_of(ADMIN, CONSOLE), NoTls)
            .await
            .expect("the console of PgBouncer takes connections");
        tokio::spawn(connection);
        let pools = client.simple_query("SHOW POOLS").await;
        let pools = pools.expect("the console of PgBouncer shows its pools");
        let used = pools.iter().filter_map(|it| match it {
            SimpleQueryMessage::Row(row) if row.get("database") == Some(database) => {
                row.get("sv_active")?.parse::<u32>().ok()
            }
            _ => None,
        });
        used.sum()
    }

    /// Sends two requests at once to a database, and leaves after the first answer. PgBouncer 1.18 gives the answer of the
    /// second one, `statement`, to the next client.
    pub async fn leave_an_answer(&self, database: &str, statement: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url_of(ADMIN, database), NoTls)
            .await
            .expect("PgBouncer takes connections");
        let pump = tokio::spawn(connection);
        let mut first = pin!(client.query_typed("SELECT 1", &[]));
        let mut second = pin!(client.query_typed(statement, &[]));
        tokio::select! {
            biased;
            answer = &mut first => drop(answer.expect("the first request is answered")),
            _ = &mut second => unreachable!("it comes second"),
        }
        pump.abort();
        drop(pump.await);
    }

    /// Kills the pooler.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the pooler if it runs, and starts it again on the same port.
    pub async fn restart(&self) {
        self.kill();
        let started = within(START_DEADLINE, async {
            loop {
                launch::forget_log(self.directory.path());
                *self.process() = launch::pgbouncer(self.directory.path(), &self.configuration());
                if self.is_up().await {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        assert!(started.await.is_some(), "PgBouncer does not start again");
    }

    /// Has the pooler forward to another server from now on: it reads its configuration again, and its clients stay
    /// connected.
    pub fn forward_to(&self, server: &PostgresServer) {
        self.server.store(server.port(), Ordering::Relaxed);
        launch::configure_pgbouncer(self.directory.path(), &self.configuration());
        self.process().hang_up();
    }

    fn configuration(&self) -> String {
        let ports = (self.port, self.server.load(Ordering::Relaxed));
        configuration(ports, self.settings, self.directory.path())
    }

    fn process(&self) -> MutexGuard<'_, OwnedGroup> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn configuration((port, server): (u16, u16), settings: Settings, directory: &Path) -> String {
    let Settings { pool, ignores } = settings;
    let ignored = if ignores {
        "ignore_startup_parameters = options\n"
    } else {
        ""
    };
    let users = directory.join("users");
    fs::write(&users, "\"postgres\" \"\"\n\"app\" \"\"\n")
        .expect("the directory can be written to");
    let users = users.display();
    format!(
        // What is not listed keeps the server that it was first used with.
        "[databases]\n\
         {ADMIN} = host=127.0.0.1 port={server}\n\
         * = host=127.0.0.1 port={server}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {users}\n\
         pool_mode = transaction\n\
         default_pool_size = {pool}\n\
         max_client_conn = 500\n\
         stats_users = {ADMIN}\n\
         server_login_retry = 1\n\
         {ignored}"
    )
}
