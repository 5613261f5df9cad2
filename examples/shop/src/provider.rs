//! A simulated payment provider: slow, and charges as often as it is asked.

use std::time::Duration;

use sqlx::SqlitePool;
use tokio::time::sleep;
use tracing::info;

#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pool: SqlitePool,
    delay: Duration,
}

impl Provider {
    pub(crate) fn new(pool: SqlitePool, delay: Duration) -> Self {
        Self { pool, delay }
    }

    /// Whether it has charged this order before.
    pub(crate) async fn has_charged(&self, order: i64) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM charges WHERE order_id = ?)")
            .bind(order)
            .fetch_one(&self.pool)
            .await
    }

    /// Charges the order, after a while. Dropped before, it charges nothing.
    ///
    /// Of a real provider nobody would know: no lock can call back a request that is on its way, so
    /// give it an idempotency key too if it takes one.
    pub(crate) async fn charge(&self, order: i64, cents: i64) -> Result<(), sqlx::Error> {
        info!(order, "the provider is asked for a charge");
        sleep(self.delay).await;
        sqlx::query("INSERT INTO charges (order_id, cents) VALUES (?, ?)")
            .bind(order)
            .bind(cents)
            .execute(&self.pool)
            .await?;
        info!(order, "the provider has charged");
        Ok(())
    }
}
