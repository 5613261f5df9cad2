//! The table that is protected, and the statements that look at the fencing token.
//!
//! Each row remembers the token of the last section that opened it. Two conditions are needed, and a
//! condition on the write alone is not enough: a late write that comes after the next section has
//! *read* and before it has written would meet no greater token yet, and its effect would be lost
//! with the next write.
//!
//! - To open a row is to read it and to leave the token there, in one statement, if the token is
//!   greater than the one there: `fence < ?`. From then on all earlier sections are refused.
//! - To write it, the token must still be there: `fence = ?`. Not `fence < ?`, which would refuse
//!   the second write of a section as if it were somebody else's.

use std::path::Path;

use dlock::FencingToken;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};

/// The table; another pool over the same file is another process for all that matters.
#[derive(Clone)]
pub(crate) struct Stock {
    pool: SqlitePool,
    /// Whether the tokens are looked at.
    fenced: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StockError {
    /// Another section has opened the row since. Nothing was written.
    #[error("the database refuses token {0}: a later section has opened the row")]
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

    /// What is left, read by the section with this token: the first thing that it does.
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

    /// Writes what is left, as often as the section likes.
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
        // No row is no error for the database: it has to be asked.
        match write.execute(&self.pool).await?.rows_affected() {
            0 => Err(StockError::TooLate(token)),
            _ => Ok(()),
        }
    }

    /// What is left, for those that only look.
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
    async fn a_section_writes_as_often_as_it_likes() {
        let (_directory, stock) = stock(true).await;
        let [token, _] = tokens();
        assert_eq!(stock.open(ITEM, token).await.unwrap(), 10);
        stock.write(ITEM, 9, token).await.unwrap();
        stock.write(ITEM, 8, token).await.unwrap();
        assert_eq!(stock.left(ITEM).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_late_write_is_refused_also_before_the_next_section_has_written() {
        for fenced in [true, false] {
            let (_directory, stock) = stock(fenced).await;
            let [late, next] = tokens();
            let seen = stock.open(ITEM, late).await.unwrap();
            let read = stock.open(ITEM, next).await.unwrap();
            let written = stock.write(ITEM, seen - 1, late).await;
            let refused = matches!(written, Err(StockError::TooLate(token)) if token == late);
            assert_eq!(refused, fenced, "{written:?}");
            stock.write(ITEM, read - 1, next).await.unwrap();
            assert_eq!(stock.left(ITEM).await.unwrap(), 9);
        }
    }

    #[tokio::test]
    async fn a_section_that_is_over_does_not_open_the_row_again() {
        let (_directory, stock) = stock(true).await;
        let [late, next] = tokens();
        stock.open(ITEM, next).await.unwrap();
        let opened = stock.open(ITEM, late).await;
        assert!(matches!(opened, Err(StockError::TooLate(token)) if token == late));
    }
}
