//! A process that takes turns with another one, by locks of dlock, by watches, or by etcd's own locks.

use dlock::{LockGuard, LockManager, Wait};

use super::api::{Client, Watch};
use super::manager;
use crate::Failure;
use crate::apart::turns::{TurnsByWay, take_turns};

/// The words that name a way.
pub(super) const DLOCK: &str = "dlock";
pub(super) const WATCH: &str = "watch";
pub(super) const LOCK: &str = "lock";

const TTL: i64 = 3600;

enum Way {
    Dlock(LockManager, Box<Option<LockGuard>>),
    /// No lock: the turn is passed on by a write that the other process watches. No hand-off can be faster.
    Watch {
        client: Client,
        watch: Box<Watch>,
        other: String,
        /// The first process has the first turn.
        is_first: bool,
    },
    /// The lock of etcd itself, for which a request waits inside the server.
    Lock {
        client: Client,
        lease: i64,
        held: Option<Vec<u8>>,
    },
}

pub(super) async fn run(way: &str, url: &str, number: u32) -> Result<(), Failure> {
    let way = match way {
        DLOCK => Way::Dlock(manager(url).await?, Box::default()),
        WATCH => {
            let client = Client::connect(url).await?;
            Way::Watch {
                watch: Box::new(client.watch(&format!("turn/{number}")).await?),
                client,
                other: format!("turn/{}", 1 - number),
                is_first: number == 0,
            }
        }
        LOCK => {
            let client = Client::connect(url).await?;
            let lease = client.grant(TTL).await?;
            Way::Lock {
                client,
                lease,
                held: None,
            }
        }
        _ => return Err(format!("`{way}` is no way to take turns").into()),
    };
    take_turns(way).await
}

impl TurnsByWay for Way {
    async fn enter(&mut self) -> Result<(), Failure> {
        match self {
            Self::Dlock(manager, held) => {
                **held = Some(manager.lock("turn").wait(Wait::Forever).acquire().await?);
            }
            Self::Watch {
                watch, is_first, ..
            } => {
                if !std::mem::take(is_first) {
                    watch.event().await?;
                }
            }
            Self::Lock {
                client,
                lease,
                held,
            } => *held = Some(client.lock("own/turn", *lease).await?),
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), Failure> {
        match self {
            Self::Dlock(_, held) => held.take().ok_or("not held")?.release().await?,
            Self::Watch { client, other, .. } => client.put(other).await?,
            Self::Lock { client, held, .. } => {
                client.unlock(held.take().ok_or("not held")?).await?;
            }
        }
        Ok(())
    }
}
