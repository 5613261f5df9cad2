//! The scripts of dlock with nothing around them: the cost of its protocol without its runtime.
//!
//! Renewal is not among them: sections are shorter than a TTL. A task that finds the lock held asks again after a
//! while, so the numbers are about uncontended locks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::time::sleep;
use uuid::Uuid;

use super::{Locker, TTL_MS, by_hand};
use crate::Failure;
use crate::arguments::Settings;

#[allow(
    dead_code,
    reason = "of this, only the names of fences are needed here"
)]
#[path = "../../../dlock-runtime/src/store/redis/protocol/slot.rs"]
mod slot;

const ACQUIRE: &str = include_str!("../../../dlock-runtime/src/store/redis/protocol/acquire.lua");
const RELEASE: &str = include_str!("../../../dlock-runtime/src/store/redis/protocol/release.lua");

/// For so long a waiter counts as alive.
const ALIVE_MS: i64 = 3000;

/// From 1970 to 2024, when fences begin to count.
const FENCE_EPOCH: Duration = Duration::from_secs(1_704_067_200);

#[derive(Clone)]
pub(super) struct Scripts(Arc<Shared>);

struct Shared {
    connections: Vec<MultiplexedConnection>,
    acquire: String,
    release: String,
    client: Uuid,
    next: AtomicU64,
    label: String,
    poll: Duration,
    /// A fast hand would not write them anew each time.
    keys: Mutex<HashMap<String, Arc<Keys>>>,
}

struct Keys([String; 4]);

pub(super) struct Held {
    keys: Arc<Keys>,
    owner: String,
}

impl Scripts {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, Failure> {
        slot::prepare();
        let mut connections = Vec::new();
        let (mut acquire, mut release) = (String::new(), String::new());
        for url in settings.urls() {
            let mut connection = by_hand::connect(&url).await?;
            acquire = by_hand::load(&mut connection, ACQUIRE).await?;
            release = by_hand::load(&mut connection, RELEASE).await?;
            connections.push(connection);
        }
        Ok(Self(Arc::new(Shared {
            acquire,
            release,
            connections,
            client: Uuid::new_v4(),
            next: AtomicU64::new(1),
            label: format!("by-hand/{}", std::process::id()),
            poll: settings.poll(),
            keys: Mutex::default(),
        })))
    }
}

impl Shared {
    fn keys(&self, name: &str) -> Arc<Keys> {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = known.get(name) {
            return keys.clone();
        }
        let keys = Arc::new(Keys([
            format!("dlock:{{{name}}}"),
            format!("dlock:{{{name}}}:q"),
            format!("dlock:{{{name}}}:a"),
            format!("dlock:fence:{{{:x}}}", slot::tag(name)),
        ]));
        known.insert(name.to_owned(), keys.clone());
        keys
    }
}

impl Shared {
    /// Whether a majority answers so; the others are not waited for.
    async fn on_majority(
        &self,
        command: &Cmd,
        is_good: impl Fn(&Value) -> bool,
    ) -> Result<bool, Failure> {
        let count = self.connections.len();
        let ask = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move {
                connection
                    .send_packed_command(command)
                    .await?
                    .extract_error()
            }
        };
        let mut asked: FuturesUnordered<_> = self.connections.iter().map(ask).collect();
        let (mut good, mut answered) = (0, 0);
        while let Some(answer) = asked.next().await {
            good += usize::from(is_good(&answer?));
            answered += 1;
            if good > count / 2 || good + count - answered <= count / 2 {
                break;
            }
        }
        Ok(good > count / 2)
    }

    async fn give_back(&self, keys: &Keys, owner: &str) -> Result<bool, Failure> {
        let mut command = call(&self.release, keys);
        command.arg(owner);
        let was_held = |answer: &Value| matches!(answer, Value::Int(1 | 2));
        self.on_majority(&command, was_held).await
    }
}

impl Locker for Scripts {
    type Held = Held;

    async fn acquire(&self, key: &str) -> Result<Held, Failure> {
        let shared = &*self.0;
        let keys = shared.keys(key);
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}.{number}", shared.client.simple());
        let mut command = call(&shared.acquire, &keys);
        command.arg(&owner).arg(TTL_MS);
        // The servers of a quorum only notify a waiter, and count the client's proposal.
        let is_quorum = shared.connections.len() > 1;
        let alive = if is_quorum { -ALIVE_MS } else { ALIVE_MS };
        command.arg(alive).arg(&shared.label);
        if is_quorum {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let since_2024 = since_1970.saturating_sub(FENCE_EPOCH);
            command.arg(u64::try_from(since_2024.as_micros() / 10)?);
        }
        let is_granted = |answer: &Value| matches!(answer, Value::Int(_));
        while !shared.on_majority(&command, is_granted).await? {
            if is_quorum {
                shared.give_back(&keys, &owner).await?;
            }
            sleep(shared.poll).await;
        }
        Ok(Held { keys, owner })
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        if self.0.give_back(&held.keys, &held.owner).await? {
            Ok(())
        } else {
            Err("the lock was somebody else's".into())
        }
    }
}

fn call(script: &str, keys: &Keys) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(keys.0.len()).arg(&keys.0);
    command
}
