//! A lock by hand with a queue, whose release grants it to the next waiter.
//!
//! Any lock that wakes a waiter as its holder has to do this much: find the waiter, remove it from the queue, write its
//! lease, and send a message. It leaves out what a lock needs beside: the mutex of the key, waiters that have died, other
//! modes, and a message that no other role can make up.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{Client, Statement, types::Type};

use super::{connect, turns::listen};
use crate::Failure;

/// A waiter asks again: the release may have come before its place in the queue.
const POLL: Duration = Duration::from_millis(100);

const TAKE: &str = "\
INSERT INTO lease AS l (key, owner, fence, ends) VALUES ('queued', $1, 1, clock_timestamp() + interval '30 seconds')
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, fence = l.fence + 1, ends = excluded.ends
    WHERE l.ends < clock_timestamp()
RETURNING fence";

/// Not if the lease was granted since: a holder in the queue would be granted it again, and not use it.
const QUEUE: &str = "\
INSERT INTO queue (key, owner) SELECT 'queued', $1
WHERE NOT EXISTS (SELECT FROM lease WHERE key = 'queued' AND owner = $1 AND ends > clock_timestamp())
ON CONFLICT DO NOTHING";

const LEAVE_QUEUE: &str = "DELETE FROM queue WHERE key = 'queued' AND owner = $1";

/// One statement, which commits by itself.
const PASS_ON: &str = "\
WITH next AS (SELECT owner FROM queue WHERE key = 'queued' ORDER BY place LIMIT 1),
    gone AS (DELETE FROM queue q USING next WHERE q.key = 'queued' AND q.owner = next.owner)
UPDATE lease l SET owner = next.owner, fence = l.fence + 1, ends = clock_timestamp() + interval '30 seconds'
FROM next WHERE l.key = 'queued' AND l.owner = $1
RETURNING pg_notify('queued_' || next.owner, l.fence::text)";

const RELEASE: &str =
    "UPDATE lease SET ends = '-infinity' WHERE key = 'queued' AND owner = $1 RETURNING fence";

/// A client of the lock.
pub(super) struct Queued {
    client: Client,
    owner: String,
    messages: mpsc::UnboundedReceiver<()>,
    take: Statement,
    queue: Statement,
    leave_queue: Statement,
    pass_on: Statement,
    release: Statement,
}

impl Queued {
    pub(super) async fn connect(url: &str, number: u32) -> Result<Self, Failure> {
        let (_, messages) = listen(url, &format!("queued_{number}")).await?;
        let client = connect(url).await?;
        let prepare = |text| client.prepare_typed(text, &[Type::TEXT]);
        Ok(Self {
            owner: number.to_string(),
            messages,
            take: prepare(TAKE).await?,
            queue: prepare(QUEUE).await?,
            leave_queue: prepare(LEAVE_QUEUE).await?,
            pass_on: prepare(PASS_ON).await?,
            release: prepare(RELEASE).await?,
            client,
        })
    }

    pub(super) async fn acquire(&mut self) -> Result<(), Failure> {
        loop {
            if !self.ask(&self.take).await?.is_empty() {
                self.ask(&self.leave_queue).await?;
                return Ok(());
            }
            self.ask(&self.queue).await?;
            if let Ok(message) = timeout(POLL, self.messages.recv()).await {
                return message.ok_or_else(|| "the connection was lost".into());
            }
        }
    }

    pub(super) async fn release(&self) -> Result<(), Failure> {
        if self.ask(&self.pass_on).await?.is_empty() && self.ask(&self.release).await?.is_empty() {
            return Err("the lease by hand was lost".into());
        }
        Ok(())
    }

    async fn ask(&self, statement: &Statement) -> Result<Vec<tokio_postgres::Row>, Failure> {
        Ok(self.client.query(statement, &[&self.owner]).await?)
    }
}
