//! A PostgreSQL server, its standby, its pooler and its connections, broken.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::{LOOK, Nemesis};
use crate::{fault::Kind, postgres::Database, worker::TTL};

/// The backends of the crowd and of the pooler.
const OTHERS: &str =
    "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

impl Nemesis<'_> {
    /// Makes the fault, and returns whether anything has felt it.
    pub(super) async fn break_postgres(&mut self, kind: Kind, database: &Database) -> bool {
        match kind {
            Kind::ServerStopped => {
                let were_there = database.number(&format!("SELECT count(*) {OTHERS}")).await > 0;
                database.primary().pause();
                self.keep().await;
                database.primary().resume();
                were_there
            }
            Kind::ServerKilled => {
                let were_there = database.number(&format!("SELECT count(*) {OTHERS}")).await > 0;
                database.primary().kill();
                sleep(self.random.millis(700)).await;
                database.primary().restart().await;
                were_there
            }
            Kind::PoolerKilled => {
                let pooler = database.pooler.as_ref().expect("this set-up has one");
                pooler.kill();
                sleep(self.random.millis(700)).await;
                pooler.restart().await;
                true
            }
            Kind::BackendsTerminated => {
                // All, or about every second one.
                let which = ["true", "random() < 0.5"][self.random.below(2)];
                let end = format!(
                    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) {OTHERS} AND {which}"
                );
                let mut ended = 0;
                for _ in 0..=self.random.below(6) {
                    ended += database.number(&end).await;
                    sleep(self.random.millis(150)).await;
                }
                ended > 0
            }
            Kind::StatementsCancelled => {
                let cancel = format!(
                    "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) {OTHERS} AND state = 'active'"
                );
                let mut cancelled = 0;
                let end = Instant::now() + self.some_time();
                while Instant::now() < end {
                    cancelled += database.number(&cancel).await;
                    sleep(LOOK).await;
                }
                cancelled > 0 || cancel_one_that_waits(database, &cancel).await
            }
            Kind::StandbyKilled | Kind::StandbyStopped => self.break_standby(kind, database).await,
            Kind::PrimaryKilled => {
                let were_there = database.number(&format!("SELECT count(*) {OTHERS}")).await > 0;
                let old = database.primary();
                if database.is_asynchronous {
                    // Until all leases are younger than what the standby has.
                    database.standby().stop_following().await;
                    sleep(TTL).await;
                    old.kill();
                } else {
                    old.kill();
                    sleep(self.random.millis(700)).await;
                }
                database.promote().await;
                old.restart_as_standby_of(database.primary()).await;
                were_there
            }
            Kind::PrimaryReplaced => {
                let were_there = database.number(&format!("SELECT count(*) {OTHERS}")).await > 0;
                let old = database.primary();
                old.pause();
                sleep(self.random.millis(700)).await;
                database.promote().await;
                // No standby confirms its commits any more.
                old.resume();
                self.keep().await;
                old.restart_as_standby_of(database.primary()).await;
                were_there
            }
            _ => self.lock_tables(database).await,
        }
    }

    /// As long as the standby is away, no commit is confirmed.
    async fn break_standby(&mut self, kind: Kind, database: &Database) -> bool {
        let standby = database.standby();
        if kind == Kind::StandbyKilled {
            standby.kill();
        } else {
            standby.pause();
        }
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let end = Instant::now() + self.some_time();
        let mut have_waited = false;
        while Instant::now() < end {
            have_waited |= database.number(waits).await > 0;
            sleep(Duration::from_millis(50)).await;
        }
        if kind == Kind::StandbyKilled {
            standby.restart().await;
        } else {
            standby.resume();
        }
        have_waited
    }

    /// As long as an operator's change of a table, nobody reads the leases.
    async fn lock_tables(&mut self, database: &Database) -> bool {
        let Some(client) = locked(database).await else {
            return false;
        };
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let end = Instant::now() + self.some_time();
        let mut have_waited = false;
        while Instant::now() < end {
            have_waited |= database.number(waits).await > 0;
            sleep(Duration::from_millis(50)).await;
        }
        unlock(&client).await;
        have_waited
    }
}

/// A client that has locked the table of leases; `None` if another one does not give it away.
async fn locked(database: &Database) -> Option<Client> {
    let client = database.primary().client("postgres").await;
    let lock = "SET lock_timeout = '5s'; BEGIN; LOCK TABLE dlock.holder IN ACCESS EXCLUSIVE MODE";
    // A transaction that relies on a lease may be that of a process that was stopped.
    client.batch_execute(lock).await.is_ok().then_some(client)
}

async fn unlock(client: &Client) {
    let unlocked = client.batch_execute("COMMIT").await;
    unlocked.expect("the server is up");
}

/// Makes statements wait, and cancels them: most others are over before they are met.
async fn cancel_one_that_waits(database: &Database, cancel: &str) -> bool {
    let Some(client) = locked(database).await else {
        return false;
    };
    let end = Instant::now() + TTL;
    let mut cancelled = 0;
    while cancelled == 0 && Instant::now() < end {
        sleep(LOOK).await;
        cancelled = database.number(cancel).await;
    }
    unlock(&client).await;
    cancelled > 0
}
