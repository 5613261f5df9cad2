//! A process that takes turns with another one, by locks of dlock, by messages, or by advisory locks.

use dlock::{LockGuard, LockManager, Wait};
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement, types::Type};

use super::queued::Queued;
use super::{connect, manager};
use crate::Failure;
use crate::apart::turns::{TurnsByWay, take_turns};

/// The words that name a way.
pub(super) const DLOCK: &str = "dlock";
pub(super) const NOTIFY: &str = "notify";
pub(super) const QUEUED: &str = "queued";
pub(super) const ADVISORY: &str = "advisory";

/// The key of the advisory lock.
const NUMBER: i64 = 42;

/// A row is written and a message sent in one statement, which commits by itself.
const PASS_ON: &str = "\
INSERT INTO lease AS l (key, owner, fence, ends) VALUES ('turn', $1, 1, 'infinity')
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, fence = l.fence + 1
RETURNING pg_notify('turn_' || $1, 'turn')";

enum Way {
    Dlock(LockManager, Option<LockGuard>),
    /// No lock: the turn is passed on with a message. No hand-off can be faster.
    Notify {
        client: Client,
        pass_on: Statement,
        messages: mpsc::UnboundedReceiver<()>,
        other: String,
    },
    /// A lock by hand that grants itself to the next waiter.
    Queued(Queued),
    /// A lock for which a connection waits inside the server.
    Advisory(Client),
}

pub(super) async fn run(way: &str, url: &str, number: u32) -> Result<(), Failure> {
    take_turns(Way::connect(way, url, number).await?).await
}

impl Way {
    async fn connect(way: &str, url: &str, number: u32) -> Result<Self, Failure> {
        match way {
            DLOCK => Ok(Self::Dlock(manager(url).await?, None)),
            QUEUED => Ok(Self::Queued(Queued::connect(url, number).await?)),
            ADVISORY => Ok(Self::Advisory(connect(url).await?)),
            NOTIFY => {
                let (told, messages) = listen(url, &format!("turn_{number}")).await?;
                if number == 0 {
                    // The first turn.
                    told.send(())?;
                }
                let client = connect(url).await?;
                let pass_on = client.prepare_typed(PASS_ON, &[Type::TEXT]).await?;
                Ok(Self::Notify {
                    client,
                    pass_on,
                    messages,
                    other: (1 - number).to_string(),
                })
            }
            _ => Err(format!("`{way}` is no way to take turns").into()),
        }
    }
}

impl TurnsByWay for Way {
    async fn enter(&mut self) -> Result<(), Failure> {
        match self {
            Self::Dlock(manager, held) => {
                *held = Some(manager.lock("turn").wait(Wait::Forever).acquire().await?);
            }
            Self::Notify { messages, .. } => {
                messages.recv().await.ok_or("the connection was lost")?;
            }
            Self::Queued(lock) => lock.acquire().await?,
            Self::Advisory(client) => {
                let key = [(&NUMBER as _, Type::INT8)];
                client
                    .query_typed("SELECT pg_advisory_lock($1)", &key)
                    .await?;
            }
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), Failure> {
        match self {
            Self::Dlock(_, held) => held.take().ok_or("not held")?.release().await?,
            Self::Notify {
                client,
                pass_on,
                other,
                ..
            } => drop(client.query(pass_on, &[other]).await?),
            Self::Queued(lock) => lock.release().await?,
            Self::Advisory(client) => {
                let key = [(&NUMBER as _, Type::INT8)];
                client
                    .query_typed("SELECT pg_advisory_unlock($1)", &key)
                    .await?;
            }
        }
        Ok(())
    }
}

type Messages = (mpsc::UnboundedSender<()>, mpsc::UnboundedReceiver<()>);

/// The messages on a channel, and where they come from.
pub(super) async fn listen(url: &str, channel: &str) -> Result<Messages, Failure> {
    let (told, messages) = mpsc::unbounded_channel();
    let tell = told.clone();
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        let mut all = poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = all.next().await {
            if matches!(message, AsyncMessage::Notification(_)) && tell.send(()).is_err() {
                return;
            }
        }
    });
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    // The connection ends with its client, and this one is to last as long as the process.
    std::mem::forget(client);
    Ok((told, messages))
}
