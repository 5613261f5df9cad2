//! Removes rows that no process uses any more: ended leases, dead waiters, and keys after an hour. Only the size of the
//! tables depends on it. The schema sees to it that one process at a time does it, for all.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use dlock_net::Tasks;
use dlock_runtime::store::StoreError;

use crate::{calls::Call, requests::Requests};

/// The mean pause between two sweeps.
const PAUSE: Duration = Duration::from_secs(600);

/// The rows of one table that one statement looks at, as the function `sweep` of the schema has it.
const BATCH: i64 = 1000;

/// The pause between two statements of a sweep, in which other requests have their turn.
const BREATH: Duration = Duration::from_millis(100);

/// Sweeps from time to time, until the store is dropped.
pub(crate) fn start(tasks: &Tasks, requests: Arc<Requests>) {
    tasks.spawn(from_time_to_time(move || {
        let requests = requests.clone();
        async move { sweep(&requests).await }
    }));
}

/// Sweeps after each pause, whatever has become of the last sweep.
async fn from_time_to_time<F>(sweep: impl Fn() -> F)
where
    F: Future<Output = Result<(), StoreError>>,
{
    loop {
        tokio::time::sleep(pause()).await;
        if let Err(error) = sweep().await {
            tracing::debug!(target: "dlock::store", %error, "old rows were not removed");
        }
    }
}

/// Between half of the mean and one and a half: processes that have started together do not ask together.
fn pause() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    PAUSE / 2 + PAUSE.mul_f64(f64::from((random >> 32) as u32) / f64::from(u32::MAX))
}

/// Removes all that is old now. A service whose keys are always new leaves more than one statement removes.
async fn sweep(requests: &Requests) -> Result<(), StoreError> {
    loop {
        let rows = requests.ask_apart(Call::Sweep).await?;
        let removed = rows.first().and_then(|row| row.try_get(0).ok());
        if removed.is_none_or(|removed: i64| removed < BATCH) {
            return Ok(());
        }
        tokio::time::sleep(BREATH).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::ready};

    use dlock_net::Worker;
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::PostgresServer;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::{config::Config, schema::Schema};

    #[tokio::test]
    async fn a_sweep_removes_all_that_is_old() {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        let client = server.client(&name).await;
        let schema = Schema::new("dlock").unwrap();
        let migration = schema.migration(None).unwrap();
        client.batch_execute(&migration).await.unwrap();
        let fill = "INSERT INTO dlock.turn (key, granted_at) \
                    SELECT 'order:' || n, clock_timestamp() - interval '61 minutes' FROM generate_series(1, 2500) n;
                    INSERT INTO dlock.turn (key) VALUES ('new')";
        // Of a program that was killed.
        let crashed = "INSERT INTO dlock.holder (key, owner, fence, ends) \
                       SELECT 'new', 'old.' || n, 1, clock_timestamp() - interval '61 seconds' \
                       FROM generate_series(1, 4500) n;
                       INSERT INTO dlock.holder (key, owner, fence, ends) \
                       VALUES ('new', 'new.1', 1, clock_timestamp());
                       INSERT INTO dlock.waiter (key, owner, most, alive, since) \
                       SELECT 'new', 'old.' || n, 0, clock_timestamp() - interval '61 seconds', now() \
                       FROM generate_series(1, 6500) n;
                       INSERT INTO dlock.waiter (key, owner, most, alive, since) \
                       VALUES ('new', 'new.1', 0, clock_timestamp(), now())";
        client.batch_execute(fill).await.unwrap();
        client.batch_execute(crashed).await.unwrap();

        let url = server.url_of("postgres", &name);
        let mut options = StoreOptions::default();
        options.response_timeout = Duration::from_secs(30);
        let config = Arc::new(Config::parse(&url, &options).unwrap());
        let worker = Worker::start("dlock-postgres").unwrap();
        let requests = Requests::new(config, worker.tasks(), None);
        sweep(&requests).await.unwrap();
        for (left, expected) in [
            ("key FROM dlock.turn", "new"),
            ("owner FROM dlock.holder", "new.1"),
            ("owner FROM dlock.waiter", "new.1"),
        ] {
            let rows = client.query(&format!("SELECT {left}"), &[]).await.unwrap();
            let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(rows, [expected]);
        }
    }

    #[test]
    fn the_size_of_a_batch_is_that_of_the_schema() {
        let definition = include_str!("schema/functions.sql");
        let limit = format!("LIMIT {BATCH}");
        assert_eq!(definition.matches(&limit).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_sweeps_every_ten_minutes_in_the_mean_also_after_a_failure() {
        let last = Cell::new(Instant::now());
        let count = Cell::new(0_u32);
        let sweeping = from_time_to_time(|| {
            let pause = last.replace(Instant::now()).elapsed();
            assert!((PAUSE / 2..PAUSE * 2).contains(&pause), "{pause:?}");
            count.set(count.get() + 1);
            ready(Err(StoreError::timed_out(pause)))
        });
        timeout(100 * PAUSE, sweeping).await.unwrap_err();
        // A hundred, give or take six standard deviations.
        assert!((83..=117).contains(&count.get()), "{}", count.get());
    }

    #[test]
    fn pauses_differ() {
        let pauses: std::collections::BTreeSet<_> = (0..8).map(|_| pause()).collect();
        assert!(pauses.len() > 1);
        assert!(
            pauses
                .iter()
                .all(|it| (PAUSE / 2..=PAUSE * 3 / 2).contains(it))
        );
    }
}
