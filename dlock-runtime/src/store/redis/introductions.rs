//! What a process says of itself in the server, for operators: who it is, since when, and which version.
//!
//! A task for each manager writes that down every ten seconds, and the server forgets it after thirty.
//! No lock depends on it: what fails is tried again the next time.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tracing::debug;

use super::{RedisConfig, script::Call, servers::Servers};
use crate::{owner::ClientId, store::StoreErrorKind};

const TTL: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_secs(10);

/// The tasks that introduce the managers of a store, for as long as it lives.
pub(super) struct Introductions {
    config: Arc<RedisConfig>,
    /// The tasks must not keep the connections of a store that is gone.
    servers: Weak<Servers>,
    home: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Introductions {
    /// For a store that is made in the current runtime.
    pub(super) fn new(config: &Arc<RedisConfig>, servers: &Arc<Servers>) -> Self {
        Self {
            config: config.clone(),
            servers: Arc::downgrade(servers),
            home: Handle::current(),
            tasks: Mutex::default(),
        }
    }

    /// Introduces a manager, from now on.
    pub(super) fn begin(&self, client: ClientId) {
        let text = Introduction::of(&self.config).to_string();
        let (config, servers) = (self.config.clone(), self.servers.clone());
        let task = self.home.spawn(go_on(config, servers, client, text));
        // Nothing under the mutex can panic half-way.
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push(task);
    }
}

impl Drop for Introductions {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in tasks {
            task.abort();
        }
    }
}

async fn go_on(config: Arc<RedisConfig>, servers: Weak<Servers>, client: ClientId, text: String) {
    let mut due = interval(PERIOD);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_told = false;
    loop {
        due.tick().await;
        let Some(servers) = servers.upgrade() else {
            return;
        };
        let call = Call::introduce(&config, client, &text, TTL);
        let Err(error) = servers.run(&call).await else {
            continue;
        };
        // Of an outage the connection tells.
        let is_refused = matches!(
            error.kind(),
            StoreErrorKind::Denied | StoreErrorKind::OutOfMemory | StoreErrorKind::Refused
        );
        if is_refused && !was_told {
            was_told = true;
            debug!(target: "dlock", %error, "operators cannot see what this process is");
        }
    }
}

/// What a process says of itself: `label started version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// As in the process's locks.
    pub(crate) label: String,
    /// When its manager was made, in ms since 1970.
    pub(crate) started: u64,
    /// The version of dlock.
    pub(crate) version: String,
}

impl Introduction {
    fn of(config: &RedisConfig) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = since.unwrap_or_default().as_millis();
        Self {
            label: config.label(),
            started: u64::try_from(started).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Reads what [`Display`](std::fmt::Display) writes; `None` for anything else.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        const LONGEST: usize = 128;
        let text = str::from_utf8(text).ok()?;
        let mut words = text.split(' ');
        let mut word = || {
            let word = words.next()?;
            let is_plain = word.bytes().all(|byte| byte.is_ascii_graphic());
            (is_plain && (1..=LONGEST).contains(&word.len())).then(|| word.to_owned())
        };
        let read = Self {
            label: word()?,
            started: word()?.parse().ok()?,
            version: word()?,
        };
        words.next().is_none().then_some(read)
    }
}

impl std::fmt::Display for Introduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.label, self.started, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_reads_back() {
        let config = RedisConfig {
            name: "a b\n@host/1".into(),
            ..RedisConfig::new("redis://localhost")
        };
        let said = Introduction::of(&config);
        assert_eq!(said.label, "a_b_@host/1");
        assert_eq!(Introduction::read(said.to_string().as_bytes()), Some(said));
        let nameless = RedisConfig {
            name: String::new(),
            ..config
        };
        let said = Introduction::of(&nameless);
        assert_eq!(Introduction::read(said.to_string().as_bytes()), Some(said));
    }

    #[test]
    fn anything_else_is_left_out() {
        let long = format!("{} 1 0", "x".repeat(129));
        for text in ["", "a", "a 1", "a b 0", "a 1 0 x", " 1 0", "a\t 1 0", &long] {
            assert_eq!(Introduction::read(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Introduction::read(b"\xff 1 0"), None);
    }
}
