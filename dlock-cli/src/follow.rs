//! Looks at locks again and again: through all keys as fast as the budget of looks allows, and meanwhile at
//! the locks that are known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use dlock::{
    LockKey, StoreError,
    admin::{Inspector, LockInfo, Overview},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// The locks at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) locks: Vec<LockInfo>,
    /// The number of processes when all keys had been looked at.
    pub(crate) processes: usize,
    /// The time that a walk through all keys takes, if that is longer than the interval: a change without a message
    /// is seen that late.
    pub(crate) lag: Option<Duration>,
}

pub(crate) struct Follower {
    inspector: Arc<Inspector>,
    pattern: Option<String>,
    /// The walk that is under way, if one is; it goes on between two calls.
    /// It yields how long it took as well.
    walk: JoinSet<Result<(Overview, Duration), StoreError>>,
    /// The number of walks that have begun.
    walks: u64,
    /// Locks to look at meanwhile, by the last walk during which there was something to see.
    known: BTreeMap<LockKey, u64>,
    /// `true` if all keys have been looked at once.
    knows_all: bool,
    processes: usize,
    lag: Option<Duration>,
}

/// A look that takes no longer is none that has to be stretched.
const PATIENCE: Duration = Duration::from_secs(1);

/// If more than so many are known, those that are free are not looked at again until something is heard of
/// them: a look at them would take about a second, and locks may go from hand to hand faster than that.
const ENOUGH: usize = 1000;

impl Follower {
    /// Follows the locks whose keys match.
    pub(crate) fn new(inspector: Arc<Inspector>, pattern: Option<String>) -> Self {
        Self {
            inspector,
            pattern,
            walk: JoinSet::new(),
            walks: 0,
            known: BTreeMap::new(),
            knows_all: false,
            processes: 0,
            lag: None,
        }
    }

    /// Something happens to this lock.
    pub(crate) fn hear_of(&mut self, key: &str) {
        // The server interprets patterns.
        if self.pattern.is_none()
            && let Ok(key) = LockKey::new(key)
        {
            self.known.insert(key, self.walks);
        }
    }

    /// The locks, as soon as all keys have been read. If a walk takes longer than `interval` and a second, or `heard`
    /// names a lock before, only known locks are read; the first call always waits for the walk.
    pub(crate) async fn look(
        &mut self,
        interval: Duration,
        heard: impl Future<Output = Option<String>>,
    ) -> Result<Seen, StoreError> {
        let patience = interval.max(PATIENCE);
        if self.walk.is_empty() {
            self.set_out();
        }
        let (walked, took) = tokio::select! {
            biased;
            Some(walked) = self.walk.join_next() => {
                walked.expect("a walk does not panic, and nobody else ends it")?
            }
            // A short walk is about to find that lock anyway.
            key = heard, if self.knows_all && self.lag.is_some() => {
                if let Some(key) = key {
                    self.hear_of(&key);
                }
                return self.look_again().await;
            }
            () = sleep(patience), if self.knows_all => return self.look_again().await,
        };
        self.knows_all = true;
        self.processes = walked.processes.len();
        self.lag = (took > patience).then_some(took);
        self.know(&walked.locks);
        // A lock that comes and goes is kept for one more walk.
        self.known.retain(|_, walk| *walk + 1 >= self.walks);
        if self.lag.is_some() {
            // Some of these locks were read long ago.
            return self.look_again().await;
        }
        Ok(self.seen(walked.locks))
    }

    fn set_out(&mut self) {
        self.walks += 1;
        let (inspector, pattern) = (self.inspector.clone(), self.pattern.clone());
        self.walk.spawn(async move {
            let began = Instant::now();
            let found = match pattern {
                None => inspector.overview().await?,
                Some(pattern) => {
                    let mut found = Overview::default();
                    found.locks = inspector.locks(Some(&pattern)).await?;
                    found
                }
            };
            Ok((found, began.elapsed()))
        });
    }

    /// Looks at what is known.
    async fn look_again(&mut self) -> Result<Seen, StoreError> {
        let keys: Vec<_> = self.known.keys().cloned().collect();
        let locks = self.inspector.locks_of(&keys).await?;
        if self.known.len() > ENOUGH {
            self.known.clear();
        }
        self.know(&locks);
        Ok(self.seen(locks))
    }

    fn know(&mut self, locks: &[LockInfo]) {
        let keys = locks.iter().map(|lock| lock.key.as_str());
        let keys: BTreeSet<_> = keys.filter_map(|key| LockKey::new(key).ok()).collect();
        let walk = self.walks;
        self.known.extend(keys.into_iter().map(|key| (key, walk)));
    }

    fn seen(&self, locks: Vec<LockInfo>) -> Seen {
        Seen {
            locks,
            processes: self.processes,
            lag: self.lag,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use dlock::{LockManager, store::redis::RedisConfig};
    use dlock_testkit::RedisServer;

    use super::*;

    async fn follower(server: &RedisServer, pattern: Option<&str>) -> Follower {
        let config = RedisConfig::new(server.url());
        let inspector = Inspector::connect(config).await.expect("it runs");
        Follower::new(Arc::new(inspector), pattern.map(str::to_owned))
    }

    fn keys(seen: &Seen) -> Vec<&str> {
        seen.locks.iter().map(|lock| &*lock.key).collect()
    }

    #[tokio::test]
    async fn what_is_free_is_looked_at_again_unless_it_is_too_much() {
        let server = RedisServer::start().await;
        let manager = LockManager::connect(&server.url()).await.expect("it runs");
        let guard = manager.lock("n:1").acquire().await.expect("it is free");
        let mut follower = follower(&server, None).await;
        for (count, left) in [(10, 10), (ENOUGH + 1, 1)] {
            for number in 0..count {
                follower.hear_of(&format!("n:{number}"));
            }
            let seen = follower.look_again().await.expect("it tells");
            assert_eq!(keys(&seen), ["n:1"]);
            assert_eq!(follower.known.len(), left, "of {count}");
        }
        guard.release().await.expect("it was held");
    }

    #[tokio::test]
    async fn what_has_been_free_for_a_walk_is_forgotten() {
        let server = RedisServer::start().await;
        let mut follower = follower(&server, None).await;
        follower.hear_of("n:1");
        for left in [1, 0] {
            let look = follower.look(Duration::ZERO, pending());
            look.await.expect("it tells");
            assert_eq!(follower.known.len(), left);
        }
    }

    #[tokio::test]
    async fn a_pattern_is_for_servers_to_understand() {
        let server = RedisServer::start().await;
        let manager = LockManager::connect(&server.url()).await.expect("it runs");
        let guards = manager.lock_all(["a:1", "b:1"]).acquire().await;
        let mut follower = follower(&server, Some("a:*")).await;
        let look = follower.look(Duration::ZERO, pending());
        assert_eq!(keys(&look.await.expect("it tells")), ["a:1"]);
        follower.hear_of("b:1");
        let again = follower.look_again().await.expect("it tells");
        assert_eq!(keys(&again), ["a:1"]);
        drop(guards);
    }
}
