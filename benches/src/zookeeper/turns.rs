//! A process that takes turns with another one, by locks of dlock, by watches, or by the usual recipe.

use dlock::{LockGuard, LockManager, Wait};
use zookeeper_client::{AddWatchMode, Client, CreateMode, EventType, PersistentWatcher};

use super::recipe::Recipe;
use super::{at, connect, manager, node};
use crate::Failure;
use crate::apart::turns::{TurnsByWay, take_turns};

/// The words that name a way.
pub(super) const DLOCK: &str = "dlock";
pub(super) const WATCH: &str = "watch";
pub(super) const RECIPE: &str = "recipe";

enum Way {
    Dlock(LockManager, Box<Option<LockGuard>>),
    /// No lock: the turn is passed on by a write that the other process watches. No hand-off can be faster.
    Watch {
        client: Client,
        watch: PersistentWatcher,
        other: String,
        /// The first process has the first turn.
        is_first: bool,
    },
    Recipe(Recipe),
}

fn turn(number: u32) -> String {
    format!("/turn-{number}")
}

/// Makes the nodes by which turns are passed on.
pub(super) async fn prepare(url: &str) -> Result<(), Failure> {
    let client = connect(url).await?;
    for number in 0..2 {
        let options = node(CreateMode::Persistent);
        client.create(&turn(number), b"", &options).await?;
    }
    Ok(())
}

pub(super) async fn run(way: &str, url: &str, number: u32) -> Result<(), Failure> {
    // Each process has a server of its own.
    let url = &at(url, usize::try_from(number)?)?;
    let way = match way {
        DLOCK => Way::Dlock(manager(url).await?, Box::default()),
        WATCH => {
            let client = connect(url).await?;
            let mode = AddWatchMode::Persistent;
            Way::Watch {
                watch: client.watch(&turn(number), mode).await?,
                client,
                other: turn(1 - number),
                is_first: number == 0,
            }
        }
        RECIPE => Way::Recipe(Recipe::new(connect(url).await?, "/recipe/turn").await?),
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
                if !std::mem::take(is_first)
                    && watch.changed().await.event_type != EventType::NodeDataChanged
                {
                    return Err("the session has ended".into());
                }
            }
            Self::Recipe(recipe) => recipe.acquire().await?,
        }
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), Failure> {
        match self {
            Self::Dlock(_, held) => held.take().ok_or("not held")?.release().await?,
            Self::Watch { client, other, .. } => {
                client.set_data(other, b"", None).await?;
            }
            Self::Recipe(recipe) => recipe.release().await?,
        }
        Ok(())
    }
}
