//! The record of a process in the server, for operators: its label, start and version.
//!
//! A task for each manager writes the record every ten seconds. The server removes it after thirty seconds, or
//! as soon as the manager has shut down. No lock depends on it, so a failed write is only repeated at the next
//! interval. When the task's runtime has ended, the task continues on the runtime of the next request.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime::Handle,
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::debug;

use crate::{
    owner::ClientId,
    store::{
        StoreErrorKind,
        redis::{
            RedisConfig,
            net::{
                home::Home,
                service::{Service, Work},
            },
            protocol::command::Command,
            topology::servers::Servers,
        },
    },
    telemetry::{TARGET, told},
};

const TTL: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_secs(10);

/// The tasks that write the records of a store's managers. They run while this value lives.
pub(crate) struct PresenceTasks {
    config: Arc<RedisConfig>,
    /// Weak, because the tasks must not keep the connections of a dropped store open.
    servers: Weak<Servers>,
    home: Arc<Home>,
    tasks: Mutex<Vec<PresenceTask>>,
    /// `true` if one of the tasks was interrupted.
    is_interrupted: Arc<AtomicBool>,
}

impl PresenceTasks {
    pub(crate) fn new(config: &Arc<RedisConfig>, servers: &Arc<Servers>, home: Arc<Home>) -> Self {
        Self {
            config: config.clone(),
            servers: Arc::downgrade(servers),
            home,
            tasks: Mutex::default(),
            is_interrupted: Arc::default(),
        }
    }

    /// Starts to write the record of a manager.
    pub(crate) fn begin(&self, client: ClientId) {
        let (last_word, ended) = watch::channel(());
        let introducing = PresenceWriter {
            config: self.config.clone(),
            servers: self.servers.clone(),
            client,
            text: Presence::of(&self.config).to_string(),
            was_told: false,
            _last_word: last_word,
        };
        let is_interrupted = self.is_interrupted.clone();
        let task = Service::start_watched(introducing, &self.home, is_interrupted);
        // Every change under the mutex is complete before a panic is possible.
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push(PresenceTask {
            client,
            task,
            ended,
        });
    }

    /// Ends the task of a manager that has shut down, and removes its record.
    pub(crate) async fn end(&self, client: ClientId) {
        let introduced = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            let place = tasks.iter().position(|it| it.client == client);
            place.map(|place| tasks.swap_remove(place))
        };
        let Some(mut introduced) = introduced else {
            return;
        };
        introduced.task.close();
        // Its last write must not come after the removal.
        while introduced.ended.changed().await.is_ok() {}
        if let Some(servers) = self.servers.upgrade() {
            // If this fails, the record expires.
            let command = Command::remove_presence(&self.config, client);
            servers.execute(&command).await.ok();
        }
    }

    /// Restarts a task on the current runtime if its own has ended. Otherwise it costs almost nothing.
    pub(crate) fn revive(&self) {
        if !self.is_interrupted.load(Ordering::Acquire) || Handle::try_current().is_err() {
            return;
        }
        self.is_interrupted.store(false, Ordering::SeqCst);
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(|it| it.task.revive_if_idle());
    }
}

/// A manager with its task.
struct PresenceTask {
    client: ClientId,
    task: Service<PresenceWriter>,
    /// Closed when the task has sent its last write.
    ended: watch::Receiver<()>,
}

/// The task of one manager.
struct PresenceWriter {
    config: Arc<RedisConfig>,
    servers: Weak<Servers>,
    client: ClientId,
    text: String,
    was_told: bool,
    _last_word: watch::Sender<()>,
}

impl Work for PresenceWriter {
    /// Ends with the store.
    async fn run(&mut self) {
        let mut due = interval(PERIOD);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            let Some(servers) = self.servers.upgrade() else {
                return;
            };
            let command = Command::write_presence(&self.config, self.client, &self.text, TTL);
            let Err(error) = servers.execute(&command).await else {
                continue;
            };
            // The connection reports outages.
            let is_refused = matches!(
                error.kind(),
                StoreErrorKind::Denied | StoreErrorKind::OutOfMemory | StoreErrorKind::Refused
            );
            if is_refused && !self.was_told {
                self.was_told = true;
                told(|| {
                    debug!(target: TARGET, %error, "process record not published: operators cannot identify this process");
                });
            }
        }
    }

    fn interrupted(&mut self, _panic: Option<&str>) {}
}

/// The record of a process: `label started version`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "admin"),
    expect(unreachable_pub, reason = "only operators read it")
)]
pub struct Presence {
    /// The same as in the process's locks.
    pub label: String,
    /// The creation time of its manager, in ms since 1970.
    pub started: u64,
    /// The version of dlock.
    pub version: String,
}

impl Presence {
    fn of(config: &RedisConfig) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = since.unwrap_or_default().as_millis();
        Self {
            label: config.label(),
            started: u64::try_from(started).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Parses the output of [`Display`](std::fmt::Display); returns `None` for any other text.
    #[cfg(any(feature = "admin", test))]
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

impl std::fmt::Display for Presence {
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
        let said = Presence::of(&config);
        assert_eq!(said.label, "a_b_@host/1");
        assert_eq!(Presence::read(said.to_string().as_bytes()), Some(said));
        let nameless = RedisConfig {
            name: String::new(),
            ..config
        };
        let said = Presence::of(&nameless);
        assert_eq!(Presence::read(said.to_string().as_bytes()), Some(said));
    }

    #[test]
    fn anything_else_is_left_out() {
        let long = format!("{} 1 0", "x".repeat(129));
        for text in ["", "a", "a 1", "a b 0", "a 1 0 x", " 1 0", "a\t 1 0", &long] {
            assert_eq!(Presence::read(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Presence::read(b"\xff 1 0"), None);
    }
}
