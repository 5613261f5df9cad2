//! Transactions of a task in PostgreSQL.

use std::{future::Future, time::Duration};

use dlock::LockManager;
use dlock_postgres::{Fence, FenceError, lock_in};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, IsolationLevel, NoTls, Transaction};

use super::{Failure, LIMIT, Posting, no_answer};

/// A transaction is open meanwhile, and takes a place in the pooler.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// The connection of one task to the database, which is made again after a failure.
pub(crate) struct InPostgres {
    url: String,
    /// Whether a transaction checks the lease on which it relies.
    is_fenced: bool,
    manager: LockManager,
    client: Mutex<Option<Client>>,
}

impl From<FenceError> for Failure {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::NotHeld { .. } => Self::Explained("lease not found".to_owned()),
            FenceError::Database(error) => error.into(),
            FenceError::Lock(error) => error.into(),
            other => panic!("no fault explains this: {other}"),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = error.code().map_or("disconnected", |code| code.code());
        Self::Explained(format!("transaction: {code}"))
    }
}

impl InPostgres {
    pub(super) fn new(url: &str, is_fenced: bool, manager: LockManager) -> Self {
        Self {
            url: database(url),
            is_fenced,
            manager,
            client: Mutex::new(None),
        }
    }

    /// Reads the accounts, works, and then writes those of keys that are held exclusively; the others must not have
    /// changed meanwhile. The work is done whatever becomes of the transaction.
    pub(super) async fn post(
        &self,
        posting: Posting<'_>,
        level: IsolationLevel,
        work: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        // The other levels notice by themselves that an account has changed.
        let level = if self.is_fenced {
            level
        } else {
            IsolationLevel::ReadCommitted
        };
        let mut work = Some(work);
        let mut client = self.client.lock().await;
        let posted = timeout(LIMIT, async {
            let tx = begin(&self.url, &mut client, level).await?;
            if let Some(lease) = posting.lease
                && self.is_fenced
            {
                lease.fence(&tx).await?;
            }
            let mut accounts = Vec::new();
            for (key, ..) in &posting.keys {
                accounts.push(account(&tx, key).await?);
            }
            if let Some(work) = work.take() {
                work.await;
            }
            for ((key, mode, token), before) in posting.keys.iter().zip(accounts) {
                if mode.is_shared() {
                    check(&tx, key, before).await?;
                } else {
                    write(&tx, key, before, (posting.who, *token, posting.cents)).await?;
                }
            }
            tx.commit().await.map_err(Failure::from)
        });
        let posted = posted.await.unwrap_or_else(|_| Err(no_answer()));
        forget_broken(&mut client, &posted);
        drop(client);
        if let Some(work) = work {
            work.await;
        }
        posted
    }

    /// The same under a lock that ends with the transaction.
    pub(super) async fn post_locked(
        &self,
        key: &str,
        (who, cents): ([u32; 2], i64),
        level: IsolationLevel,
        pace: Duration,
    ) -> Result<(), Failure> {
        let mut client = self.client.lock().await;
        let posted = timeout(LIMIT, async {
            let tx = begin(&self.url, &mut client, level).await?;
            let request = self.manager.lock(key).wait(SHORT_WAIT);
            let token = lock_in(request, &tx).await?;
            let before = account(&tx, key).await?;
            sleep(pace).await;
            write(&tx, key, before, (who, token.to_i64(), cents)).await?;
            tx.commit().await.map_err(Failure::from)
        });
        let posted = posted.await.unwrap_or_else(|_| Err(no_answer()));
        forget_broken(&mut client, &posted);
        posted
    }
}

/// A connection that has failed may be broken.
fn forget_broken(client: &mut Option<Client>, posted: &Result<(), Failure>) {
    if posted.is_err() {
        *client = None;
    }
}

/// The URL for transactions of the task's own.
fn database(url: &str) -> String {
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    // That is an option of dlock's alone.
    let options = options.split('&').filter(|it| !it.starts_with("listen="));
    let options = options.collect::<Vec<_>>().join("&");
    format!("{place}?{options}")
}

async fn begin<'a>(
    url: &str,
    client: &'a mut Option<Client>,
    level: IsolationLevel,
) -> Result<Transaction<'a>, Failure> {
    if client.as_ref().is_none_or(Client::is_closed) {
        let (new, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        *client = Some(new);
    }
    let client = client.as_mut().expect("it was made");
    let tx = client.build_transaction().isolation_level(level);
    Ok(tx.start().await?)
}

/// The number of the last entry, and the cents.
async fn account(tx: &Transaction<'_>, key: &str) -> Result<(i64, i64), Failure> {
    let read = "SELECT number, cents FROM account WHERE key = $1";
    let row = tx.query_typed_one(read, &[(&key, TEXT)]).await?;
    Ok((row.get(0), row.get(1)))
}

const TEXT: tokio_postgres::types::Type = tokio_postgres::types::Type::TEXT;
const INT8: tokio_postgres::types::Type = tokio_postgres::types::Type::INT8;

async fn write(
    tx: &Transaction<'_>,
    key: &str,
    (number, before): (i64, i64),
    (who, token, cents): ([u32; 2], i64, i64),
) -> Result<(), Failure> {
    let (number, after) = (number + 1, before + cents);
    let set = "UPDATE account SET number = $2, cents = $3 WHERE key = $1";
    tx.query_typed(set, &[(&key, TEXT), (&number, INT8), (&after, INT8)])
        .await?;
    let [process, task] = who.map(i64::from);
    let add = "INSERT INTO entry (key, number, process, task, token, cents) VALUES ($1, $2, $3, $4, $5, $6)";
    tx.query_typed(
        add,
        &[
            (&key, TEXT),
            (&number, INT8),
            (&process, INT8),
            (&task, INT8),
            (&token, INT8),
            (&cents, INT8),
        ],
    )
    .await?;
    Ok(())
}

/// No writer has come in since the account was read.
async fn check(tx: &Transaction<'_>, key: &str, before: (i64, i64)) -> Result<(), Failure> {
    let sum = "SELECT coalesce(max(number), 0), coalesce(sum(cents), 0)::bigint FROM entry WHERE key = $1";
    let row = tx.query_typed_one(sum, &[(&key, TEXT)]).await?;
    let entries: (i64, i64) = (row.get(0), row.get(1));
    if entries == before {
        return Ok(());
    }
    Err(Failure::Unbalanced(format!(
        "a reader of {key} saw the account at {before:?} and the entries at {entries:?}"
    )))
}
