//! The protected table, and the statements that compare the fencing token.
//!
//! Each row stores the token of the last holder that opened it. Two conditions are necessary. A condition on the
//! write alone is not sufficient: a late write can arrive after the next holder has *read* and before it has
//! written. The row then has no greater token yet, and the next write overwrites the late one.
//!
//! - A holder opens a row: one statement stores the token if it is greater (`fence < ?`), and returns the row.
//!   From then on, the database refuses all earlier holders.
//! - A write requires that the row still has the token (`fence = ?`). The condition `fence < ?` would refuse the
//!   second write of the same holder.

use std::path::Path;

use dlock::FencingToken;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};

/// The table. A second pool over the same file behaves as a second process.
#[derive(Clone)]
pub(crate) struct Stock {
    pool: SqlitePool,
    /// Compare fencing tokens.
    fenced: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StockError {
    /// A later holder has opened the row. Nothing was written.
    #[error("the database refused token {0}: a later holder has opened the row")]
    TooLate(FencingToken),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl Stock {
    pub(crate) async fn open_file(path: &Path, fenced: bool) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let pool = SqlitePool::connect_with(options).await?;
        Ok(Self { pool, fenced })
    }

    pub(crate) async fn create(&self, item: &str, left: i64) -> sqlx::Result<()> {
        sqlx::query(
            "CREATE TABLE stock (
                 item  TEXT PRIMARY KEY,
                 left  INTEGER NOT NULL,
                 -- A token is an i64, always positive.
                 fence INTEGER NOT NULL DEFAULT 0
             ) STRICT",
        )
        .execute(&self.pool)
        .await?;
        let insert = sqlx::query("INSERT INTO stock (item, left) VALUES (?, ?)");
        insert.bind(item).bind(left).execute(&self.pool).await?;
        Ok(())
    }

    /// Opens the row for the holder with this token, and returns the stock. It is the holder's first statement.
    pub(crate) async fn open(&self, item: &str, token: FencingToken) -> Result<i64, StockError> {
        if !self.fenced {
            return Ok(self.left(item).await?);
        }
        let open = sqlx::query_scalar(
            "UPDATE stock SET fence = ?1 WHERE item = ?2 AND fence < ?1 RETURNING left",
        );
        let left = open.bind(token.to_i64()).bind(item);
        let left = left.fetch_optional(&self.pool).await?;
        left.ok_or(StockError::TooLate(token))
    }

    /// Writes the stock. A holder may write several times.
    pub(crate) async fn write(
        &self,
        item: &str,
        left: i64,
        token: FencingToken,
    ) -> Result<(), StockError> {
        let write = if self.fenced {
            sqlx::query("UPDATE stock SET left = ?1 WHERE item = ?2 AND fence = ?3")
        } else {
            sqlx::query("UPDATE stock SET left = ?1 WHERE item = ?2")
        };
        let write = write.bind(left).bind(item);
        let write = if self.fenced {
            write.bind(token.to_i64())
        } else {
            write
        };
        // The database reports no error if no row matches, so the count is checked.
        match write.execute(&self.pool).await?.rows_affected() {
            0 => Err(StockError::TooLate(token)),
            _ => Ok(()),
        }
    }

    /// Returns the stock without opening the row.
    pub(crate) async fn left(&self, item: &str) -> sqlx::Result<i64> {
        let left = sqlx::query_scalar("SELECT left FROM stock WHERE item = ?");
        left.bind(item).fetch_one(&self.pool).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = "apple";

    async fn stock(fenced: bool) -> (tempfile::TempDir, Stock) {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("stock.db");
        let stock = Stock::open_file(&path, fenced).await.unwrap();
        stock.create(ITEM, 10).await.unwrap();
        (directory, stock)
    }

    fn tokens() -> [FencingToken; 2] {
        [1, 2].map(|fence| FencingToken::from_fence(fence).unwrap())
    }

    #[tokio::test]
    async fn a_holder_writes_several_times() {
        let (_directory, stock) = stock(true).await;
        let [token, _] = tokens();
        assert_eq!(stock.open(ITEM, token).await.unwrap(), 10);
        stock.write(ITEM, 9, token).await.unwrap();
        stock.write(ITEM, 8, token).await.unwrap();
        assert_eq!(stock.left(ITEM).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_late_write_is_refused_before_the_next_holder_has_written() {
        for fenced in [true, false] {
            let (_directory, stock) = stock(fenced).await;
            let [late, next] = tokens();
            let seen = stock.open(ITEM, late).await.unwrap();
            let read = stock.open(ITEM, next).await.unwrap();
            let written = stock.write(ITEM, seen - 1, late).await;
            let refused = matches!(written, Err(StockError::TooLate(token)) if token == late);
            assert_eq!(
                refused, fenced,
                "broken promise: a late write was accepted: {written:?}"
            );
            stock.write(ITEM, read - 1, next).await.unwrap();
            assert_eq!(stock.left(ITEM).await.unwrap(), 9);
        }
    }

    #[tokio::test]
    async fn an_earlier_holder_does_not_open_the_row_again() {
        let (_directory, stock) = stock(true).await;
        let [late, next] = tokens();
        stock.open(ITEM, next).await.unwrap();
        let opened = stock.open(ITEM, late).await;
        assert!(
            matches!(opened, Err(StockError::TooLate(token)) if token == late),
            "broken promise: a late write was accepted"
        );
    }
}
