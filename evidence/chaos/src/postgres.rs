//! A PostgreSQL server with the locks and what they protect, with or without a standby behind it and a pooler in front.

use std::{cell::Cell, time::Duration};

use dlock_postgres::Schema;
use dlock_testkit::{PgBouncer, PostgresOptions, PostgresServer, Proxy, eventually};

use crate::{
    books::{Account, Books, Entry},
    fault::Topology,
    worker::{Cheat, KEYS},
};

/// For the locks of a crowd and for its own transactions, each of which may wait for a lock.
const POOL: usize = 30;

/// The user and the database of everything.
const NAME: &str = "postgres";

/// Otherwise the commits of the migration would wait for a standby, of which there is none yet.
const ALONE: &str = "SET synchronous_commit = local;";

pub(crate) struct Database {
    /// One, or the primary server and its standby, in any order.
    servers: Vec<PostgresServer>,
    /// The index of the primary server.
    primary: Cell<usize>,
    pub(crate) pooler: Option<PgBouncer>,
    /// Whether a failover may lose commits.
    pub(crate) is_asynchronous: bool,
}

impl Database {
    pub(crate) async fn start(topology: Topology, cheat: Option<Cheat>) -> Self {
        let is_asynchronous = cheat == Some(Cheat::AsynchronousStandby);
        let mut options = PostgresOptions::new();
        if topology.has_standby() {
            // Each replaced connection leaves a backend behind that waits for the standby.
            options = options.set("max_connections", "300");
            // Otherwise a standby waits for seconds before it asks a primary server again.
            options = options.set("wal_retrieve_retry_interval", "100ms");
        }
        if topology.has_standby() && !is_asynchronous {
            // Also for the standby: it confirms nothing alone when it has become the primary server.
            options = options.set("synchronous_standby_names", "*");
        }
        let server = PostgresServer::start_with(options).await;
        let schema = Schema::new("dlock").expect("it is a name");
        let migration = schema.migration(None).expect("there is no role");
        for statements in [migration, tables(&KEYS)] {
            server.execute(&format!("{ALONE} {statements}")).await;
        }
        let pooler = if topology.is_pooled() {
            Some(PgBouncer::start_with_pool(&server, POOL).await)
        } else {
            None
        };
        let mut servers = vec![server];
        if topology.has_standby() {
            let standby = servers[0].start_standby().await;
            servers.push(standby);
        }
        Self {
            servers,
            primary: Cell::new(0),
            pooler,
            is_asynchronous,
        }
    }

    /// The server that writes.
    pub(crate) fn primary(&self) -> &PostgresServer {
        &self.servers[self.primary.get()]
    }

    /// The other one of the two.
    pub(crate) fn standby(&self) -> &PostgresServer {
        let standby = self.servers.get(1 - self.primary.get());
        standby.expect("this set-up has one")
    }

    /// Makes the standby the primary server. The old one goes on as it is.
    pub(crate) async fn promote(&self) {
        self.standby().promote().await;
        self.primary.set(1 - self.primary.get());
        if let Some(pooler) = &self.pooler {
            pooler.forward_to(self.primary());
        }
    }

    /// Waits until the standby confirms commits, if there is one.
    pub(crate) async fn until_replicated(&self, deadline: Duration) {
        if self.servers.len() == 1 {
            return;
        }
        let state = if self.is_asynchronous {
            "async"
        } else {
            "sync"
        };
        let follows = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{state}'"
        );
        eventually(deadline, "the standby follows", async || {
            self.number(&follows).await > 0
        })
        .await;
    }

    /// The ports to which each process connects.
    pub(crate) fn ports(&self) -> Vec<u16> {
        match &self.pooler {
            Some(pooler) => vec![pooler.port()],
            None => self.servers.iter().map(PostgresServer::port).collect(),
        }
    }

    /// The URL for one of the processes. Behind a pooler, every second one has a connection to the server for messages
    /// and renewals, and the others poll; all poll if the server may change.
    pub(crate) fn url(&self, process: usize, proxies: &[Proxy]) -> String {
        let hosts = proxies.iter().map(|it| format!("127.0.0.1:{}", it.port()));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let url = format!("postgres://{NAME}@{hosts}/{NAME}");
        let may_change = self.servers.len() > 1;
        if may_change && self.pooler.is_none() {
            return format!("{url}?target_session_attrs=read-write");
        }
        if !may_change && self.pooler.is_some() && process.is_multiple_of(2) {
            return format!("{url}?listen=127.0.0.1:{}", self.primary().port());
        }
        url
    }

    /// The leases and places in queues that have not ended.
    pub(crate) async fn left_over(&self) -> Vec<String> {
        let client = self.primary().client(NAME).await;
        let rows = client
            .query(
                "SELECT 'lease: ' || key || ' ' || owner FROM dlock.holder WHERE ends > clock_timestamp() \
                 UNION ALL SELECT 'waiter: ' || key || ' ' || owner FROM dlock.waiter \
                 WHERE alive > clock_timestamp()",
                &[],
            )
            .await;
        let rows = rows.expect("the server is up");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The writes of the crowd beside its locks.
    pub(crate) async fn books(&self) -> Books {
        let client = self.primary().client(NAME).await;
        let accounts = "SELECT key, number, cents FROM account ORDER BY key";
        let accounts = client.query(accounts, &[]).await;
        let entries = "SELECT key, number, process, task, token, cents FROM entry ORDER BY key, number, token";
        let entries = client.query(entries, &[]).await;
        let account = |row: &tokio_postgres::Row| Account {
            key: row.get(0),
            number: row.get(1),
            cents: row.get(2),
        };
        let entry = |row: &tokio_postgres::Row| Entry {
            key: row.get(0),
            number: row.get(1),
            process: row.get(2),
            task: row.get(3),
            token: row.get(4),
            cents: row.get(5),
        };
        let [accounts, entries] =
            [accounts, entries].map(|rows| rows.expect("the server is up, and has the tables"));
        Books {
            accounts: accounts.iter().map(account).collect(),
            entries: entries.iter().map(entry).collect(),
        }
    }

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        let client = self.primary().client(NAME).await;
        let row = client.query_one(statement, &[]).await;
        row.unwrap_or_else(|error| panic!("{statement}: {error}"))
            .get(0)
    }
}

/// The tables, with an empty account for each key.
fn tables(keys: &[&str]) -> String {
    let accounts: Vec<_> = keys.iter().map(|key| format!("('{key}', 0, 0)")).collect();
    format!(
        "CREATE TABLE account (key text PRIMARY KEY, number bigint NOT NULL, cents bigint NOT NULL);\n\
         CREATE TABLE entry (key text NOT NULL, number bigint NOT NULL, process bigint NOT NULL, \
         task bigint NOT NULL, token bigint NOT NULL, cents bigint NOT NULL);\n\
         CREATE INDEX ON entry (key, number);\n\
         INSERT INTO account VALUES {};",
        accounts.join(", ")
    )
}
