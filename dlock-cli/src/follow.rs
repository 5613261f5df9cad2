//! Reads locks repeatedly. A scan of all keys runs as fast as its share of the server's time allows; meanwhile the
//! known locks are read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use dlock::{LockKey, StoreError};
use dlock_admin::{Inspect, LockInfo};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// The locks at one time.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) locks: Vec<LockInfo>,
    /// The time that a scan of all keys takes, if it is longer than the interval. A change without a message
    /// is noticed with this delay.
    pub(crate) lag: Option<Duration>,
}

pub(crate) struct Follower {
    inspector: Arc<dyn Inspect>,
    pattern: Option<String>,
    /// The scan that is under way, if there is one. It continues between two calls, and returns its duration too.
    walk: JoinSet<Result<(Vec<LockInfo>, Duration), StoreError>>,
    /// The number of scans that have started.
    walks: u64,
    /// The locks to read during a scan, with the last scan in which each of them was held or waited for.
    known: BTreeMap<LockKey, u64>,
    /// `true` after the first complete scan.
    knows_all: bool,
    lag: Option<Duration>,
}

/// A scan that takes no longer counts as one reading.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// With more known locks than this, free ones are not read again before the next message about them. Reading them
/// would take about a second, and grants may come faster than that.
const ENOUGH: usize = 1000;

impl Follower {
    /// Returns a follower of the locks whose keys match `pattern`.
    pub(crate) fn new(inspector: Arc<dyn Inspect>, pattern: Option<String>) -> Self {
        Self {
            inspector,
            pattern,
            walk: JoinSet::new(),
            walks: 0,
            known: BTreeMap::new(),
            knows_all: false,
            lag: None,
        }
    }

    /// Adds a lock to the known ones, after a message about it.
    pub(crate) fn hear_of(&mut self, key: &str) {
        // Only the server can match patterns.
        if self.pattern.is_none()
            && let Ok(key) = LockKey::new(key)
        {
            self.known.insert(key, self.walks);
        }
    }

    /// Returns the locks after a scan of all keys. It reads only the known locks if the scan takes longer than both
    /// `interval` and one second, or if `heard` names a lock before. The first call always waits for the scan.
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
                walked.expect("a scan does not panic and is not aborted")?
            }
            // A short scan will find that lock anyway.
            key = heard, if self.knows_all && self.lag.is_some() => {
                if let Some(key) = key {
                    self.hear_of(&key);
                }
                return self.look_again().await;
            }
            () = sleep(patience), if self.knows_all => return self.look_again().await,
        };
        self.knows_all = true;
        self.lag = (took > patience).then_some(took);
        self.know(&walked);
        // A lock that is free at the moment is kept for one more scan.
        self.known.retain(|_, walk| *walk + 1 >= self.walks);
        if self.lag.is_some() {
            // Some of these locks were read at the start of a long scan.
            return self.look_again().await;
        }
        Ok(self.seen(walked))
    }

    fn set_out(&mut self) {
        self.walks += 1;
        let (inspector, pattern) = (self.inspector.clone(), self.pattern.clone());
        self.walk.spawn(async move {
            let began = Instant::now();
            let found = inspector.locks(pattern.as_deref()).await?;
            Ok((found, began.elapsed()))
        });
    }

    /// Reads the known locks.
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
            lag: self.lag,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use dlock::{LockManager, store::redis::RedisConfig};
    use dlock_admin::Inspector;
    use dlock_testkit::RedisServer;

    use super::*;

    /// Longer than a busy machine needs for a reading.
    const LIMIT: Duration = Duration::from_secs(30);

    async fn follower(server: &RedisServer, pattern: Option<&str>) -> Follower {
        let config = RedisConfig::new(server.url()).response_timeout(LIMIT);
        let inspector = Inspector::connect(config).await.expect("it runs");
        Follower::new(Arc::new(inspector), pattern.map(str::to_owned))
    }

    fn keys(seen: &Seen) -> Vec<&str> {
        seen.locks.iter().map(|lock| &*lock.key).collect()
    }

    #[tokio::test]
    async fn known_free_locks_are_read_again_up_to_a_limit() {
        let server = RedisServer::start().await;
        let manager = LockManager::connect(&server.url()).await.expect("it runs");
        let guard = manager.lock("n:1").acquire().await.expect("it is free");
        let mut follower = follower(&server, None).await;
        for (count, left) in [(10, 10), (ENOUGH + 1, 1)] {
            for number in 0..count {
                follower.hear_of(&format!("n:{number}"));
            }
            let seen = follower.look_again().await.expect("the server answers");
            assert_eq!(keys(&seen), ["n:1"]);
            assert_eq!(follower.known.len(), left, "of {count}");
        }
        guard.release().await.expect("it was held");
    }

    #[tokio::test]
    async fn a_lock_that_was_free_for_a_whole_scan_is_forgotten() {
        let server = RedisServer::start().await;
        let mut follower = follower(&server, None).await;
        follower.hear_of("n:1");
        for left in [1, 0] {
            let look = follower.look(LIMIT, pending());
            look.await.expect("the server answers");
            assert_eq!(follower.known.len(), left);
        }
    }

    #[tokio::test]
    async fn patterns_are_matched_by_the_server() {
        let server = RedisServer::start().await;
        let manager = LockManager::connect(&server.url()).await.expect("it runs");
        let guards = manager.lock_all(["a:1", "b:1"]).acquire().await;
        let mut follower = follower(&server, Some("a:*")).await;
        let look = follower.look(LIMIT, pending());
        assert_eq!(keys(&look.await.expect("the server answers")), ["a:1"]);
        follower.hear_of("b:1");
        let again = follower.look_again().await.expect("the server answers");
        assert_eq!(keys(&again), ["a:1"]);
        drop(guards);
    }
}
