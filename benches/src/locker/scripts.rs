//! The scripts of dlock with nothing around them: what its protocol costs without its runtime.
//!
//! Of the three, renewal is not among them: sections are shorter than a TTL. Who finds the lock
//! held asks again after a while, so it says something about locks that nobody else wants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
#[path = "../../../dlock-runtime/src/store/redis/slot.rs"]
mod slot;

const ACQUIRE: &str = include_str!("../../../dlock-runtime/src/store/redis/acquire.lua");
const RELEASE: &str = include_str!("../../../dlock-runtime/src/store/redis/release.lua");

/// For so long a waiter counts as alive.
const ALIVE_MS: u64 = 3000;

#[derive(Clone)]
pub(super) struct Scripts(Arc<Shared>);

struct Shared {
    connection: MultiplexedConnection,
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
        let mut connection = by_hand::connect(&settings.url).await?;
        Ok(Self(Arc::new(Shared {
            acquire: by_hand::load(&mut connection, ACQUIRE).await?,
            release: by_hand::load(&mut connection, RELEASE).await?,
            connection,
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

impl Locker for Scripts {
    type Held = Held;

    async fn acquire(&self, key: &str) -> Result<Held, Failure> {
        let shared = &*self.0;
        let keys = shared.keys(key);
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}.{number}", shared.client.simple());
        let mut command = call(&shared.acquire, &keys);
        command.arg(&owner).arg(TTL_MS).arg(ALIVE_MS);
        command.arg(&shared.label);
        let mut connection = shared.connection.clone();
        loop {
            let answer: Value = command.query_async(&mut connection).await?;
            match answer {
                Value::Int(_) => return Ok(Held { keys, owner }),
                Value::Array(_) => sleep(shared.poll).await,
                other => return Err(format!("no answer of `acquire`: {other:?}").into()),
            }
        }
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        let shared = &*self.0;
        let mut command = call(&shared.release, &held.keys);
        command.arg(&held.owner);
        if command
            .query_async::<i64>(&mut shared.connection.clone())
            .await?
            == 0
        {
            return Err("the lock was somebody else's".into());
        }
        Ok(())
    }
}

fn call(script: &str, keys: &Keys) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(keys.0.len()).arg(&keys.0);
    command
}
