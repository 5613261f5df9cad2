//! The orders, in an `SQLite` file that all copies of the shop share.

use std::{fmt::Display, path::Path, time::Duration};

use dlock::FencingToken;
use serde::{Serialize, Serializer};
use sqlx::{
    FromRow, Row, SqlitePool,
    error::DatabaseError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow},
};
use tokio::time::{Instant, sleep};

/// The number of orders that the page shows.
const SHOWN: i64 = 50;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        item    TEXT NOT NULL,
        cents   INTEGER NOT NULL,
        paid_by TEXT,
        -- The fencing token of the last writer.
        fence   INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    -- The records of the provider. They are here only because the provider is simulated.
    CREATE TABLE IF NOT EXISTS charges (
        order_id INTEGER NOT NULL,
        cents    INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS charges_of_order ON charges (order_id);
    CREATE VIEW IF NOT EXISTS overview AS
        SELECT id, item, cents, paid_by, fence,
               (SELECT count(*) FROM charges WHERE order_id = id) AS charges
        FROM orders;
";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) item: String,
    pub(crate) cents: i64,
    /// The copy of the shop that took the payment.
    pub(crate) paid_by: Option<String>,
    // As text: a JavaScript number has 53 bits, and a fencing token has more.
    #[serde(serialize_with = "as_text")]
    pub(crate) fence: i64,
    /// The number of charges by the provider.
    pub(crate) charges: i64,
}

// Written by hand: sqlx's derive macro would compile SQLite a second time.
impl FromRow<'_, SqliteRow> for Order {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            item: row.try_get("item")?,
            cents: row.try_get("cents")?,
            paid_by: row.try_get("paid_by")?,
            fence: row.try_get("fence")?,
            charges: row.try_get("charges")?,
        })
    }
}

fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[derive(Clone, Debug)]
pub(crate) struct Orders(SqlitePool);

/// Opens the file, and creates it if it does not exist.
pub(crate) async fn open(file: &Path) -> Result<SqlitePool, sqlx::Error> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        // With WAL, readers and the writer do not block each other.
        .journal_mode(SqliteJournalMode::Wal)
        // The longest wait of a writer for another one.
        .busy_timeout(Duration::from_secs(5));
    let pool = SqlitePoolOptions::new().max_connections(4);
    let end = Instant::now() + PATIENCE;
    loop {
        let opened = async {
            let pool = pool.clone().connect_with(options.clone()).await?;
            sqlx::raw_sql(SCHEMA).execute(&pool).await?;
            Ok(pool)
        };
        match opened.await {
            // The switch of a new file to WAL is the only step that does not wait for other copies.
            Err(error) if is_busy(&error) && Instant::now() < end => {
                sleep(Duration::from_millis(20)).await;
            }
            opened => return opened,
        }
    }
}

/// Returns `true` if another process has locked the file.
fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    let code = error.as_database_error().and_then(DatabaseError::code);
    // The upper bits have details.
    code.and_then(|code| code.parse().ok())
        .is_some_and(|code: u32| code & 0xff == SQLITE_BUSY)
}

impl Orders {
    pub(crate) fn new(pool: SqlitePool) -> Self {
        Self(pool)
    }

    pub(crate) async fn create(&self, item: &str, cents: i64) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("INSERT INTO orders (item, cents) VALUES (?, ?) RETURNING id")
            .bind(item)
            .bind(cents)
            .fetch_one(&self.0)
            .await
    }

    pub(crate) async fn find(&self, id: i64) -> Result<Option<Order>, sqlx::Error> {
        sqlx::query_as("SELECT * FROM overview WHERE id = ?")
            .bind(id)
            .fetch_optional(&self.0)
            .await
    }

    /// Returns the latest orders, newest first.
    pub(crate) async fn latest(&self) -> Result<Vec<Order>, sqlx::Error> {
        sqlx::query_as("SELECT * FROM overview ORDER BY id DESC LIMIT ?")
            .bind(SHOWN)
            .fetch_all(&self.0)
            .await
    }

    /// Marks the order as paid. Returns `false` if a holder with the same or a later token has written.
    ///
    /// One statement compares and writes, so it is atomic. Without a token, nothing is compared.
    pub(crate) async fn mark_paid(
        &self,
        id: i64,
        by: &str,
        token: Option<FencingToken>,
    ) -> Result<bool, sqlx::Error> {
        let query = match token {
            Some(token) => sqlx::query(
                "UPDATE orders SET paid_by = ?1, fence = ?3 WHERE id = ?2 AND fence < ?3",
            )
            .bind(by)
            .bind(id)
            .bind(token.to_i64()),
            None => sqlx::query("UPDATE orders SET paid_by = ?1 WHERE id = ?2")
                .bind(by)
                .bind(id),
        };
        Ok(query.execute(&self.0).await?.rows_affected() == 1)
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a test that fails at an `unwrap` has said what it has to say"
)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let pool = open(&directory.path().join("shop.db")).await.unwrap();
        let orders = Orders::new(pool.clone());
        let id = orders.create("a lamp", 100).await.unwrap();

        let (earlier, later) = (FencingToken::from_fence(1), FencingToken::from_fence(2));
        assert!(orders.mark_paid(id, "the second", later).await.unwrap());
        assert!(!orders.mark_paid(id, "the first", earlier).await.unwrap());
        assert!(!orders.mark_paid(id, "again", later).await.unwrap());
        let order = orders.find(id).await.unwrap().unwrap();
        assert_eq!(order.paid_by.as_deref(), Some("the second"));
        assert_eq!(Some(order.fence), later.map(FencingToken::to_i64));
        pool.close().await;
    }
}
