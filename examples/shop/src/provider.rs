//! A simulated payment provider. It is slow, and each request is a charge.

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

    /// Returns `true` if the provider has charged this order.
    pub(crate) async fn has_charged(&self, order: i64) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM charges WHERE order_id = ?)")
            .bind(order)
            .fetch_one(&self.pool)
            .await
    }

    /// Charges the order after a delay. If the future is dropped before, there is no charge.
    ///
    /// With a real provider, the outcome is unknown then: no lock can cancel a request that was sent. Also send an
    /// idempotency key if the provider accepts one.
    pub(crate) async fn charge(&self, order: i64, cents: i64) -> Result<(), sqlx::Error> {
        info!(order, "charge requested from the provider");
        sleep(self.delay).await;
        sqlx::query("INSERT INTO charges (order_id, cents) VALUES (?, ?)")
            .bind(order)
            .bind(cents)
            .execute(&self.pool)
            .await?;
        info!(order, "charged by the provider");
        Ok(())
    }
}
