//! A PostgreSQL server with the locks and what they protect, with or without a pooler in front.

use dlock_postgres::Schema;
use dlock_testkit::{PgBouncer, PostgresServer, Proxy};

use crate::{books, worker::KEYS};

/// For the locks of a crowd and for its own transactions, each of which may wait for a lock.
const POOL: usize = 30;

/// The user and the database of everything.
const NAME: &str = "postgres";

pub(crate) struct Database {
    pub(crate) server: PostgresServer,
    pub(crate) pooler: Option<PgBouncer>,
}

impl Database {
    pub(crate) async fn start(is_pooled: bool) -> Self {
        let server = PostgresServer::start().await;
        let schema = Schema::new("dlock").expect("it is a name");
        let migration = schema.migration(None).expect("there is no role");
        server.execute(&migration).await;
        server.execute(&books::tables(&KEYS)).await;
        let pooler = if is_pooled {
            Some(PgBouncer::start_with_pool(&server, POOL).await)
        } else {
            None
        };
        Self { server, pooler }
    }

    /// The port to which all connect.
    pub(crate) fn port(&self) -> u16 {
        match &self.pooler {
            Some(pooler) => pooler.port(),
            None => self.server.port(),
        }
    }

    /// The URL for one of the processes. Behind a pooler, every second one has a connection to the server for messages
    /// and renewals, and the others poll.
    pub(crate) fn url(&self, process: usize, proxy: &Proxy) -> String {
        let url = format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", proxy.port());
        if self.pooler.is_some() && process.is_multiple_of(2) {
            return format!("{url}?listen=127.0.0.1:{}", self.server.port());
        }
        url
    }

    /// The leases and places in queues that have not ended.
    pub(crate) async fn left_over(&self) -> Vec<String> {
        let client = self.server.client(NAME).await;
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

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        let client = self.server.client(NAME).await;
        let row = client.query_one(statement, &[]).await;
        row.unwrap_or_else(|error| panic!("{statement}: {error}"))
            .get(0)
    }
}
