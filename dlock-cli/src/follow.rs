//! Reads locks again and again. A scan of all keys runs as fast as its share of the server's time allows; meanwhile the
//! known locks are read, and those that messages about grants name.

mod board;

use std::{
    collections::BTreeSet,
    convert::Infallible,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock::{LockKey, StoreError};
use dlock_admin::{Grants, Inspect, KeyPattern};
use dlock_admin_web::Server;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use self::board::{Board, FEW};
pub(crate) use self::board::{Pace, Picture, Seen};
use crate::pages::Wanted;

/// A scan that takes no longer counts as one reading, and known locks are not read more often than that.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before messages are asked for again after an outage, and after a refusal.
const PAUSE: Duration = Duration::from_secs(1);
const REFUSED: Duration = Duration::from_secs(60);

/// The locks with grants that no picture shows yet.
#[derive(Default)]
struct Heard {
    /// The pattern of the wanted keys. Without one, all are wanted.
    pattern: Option<KeyPattern>,
    keys: Mutex<BTreeSet<String>>,
    added: Notify,
}

/// Something that is heard about grants.
pub(crate) enum News {
    /// They are heard from now on.
    Hears,
    Grant,
    /// They are not heard, for this reason.
    Deaf(String),
}

pub(crate) struct Follower {
    inspector: Arc<dyn Inspect>,
    wanted: Wanted,
    interval: Duration,
    /// The clock of the locks' times.
    pub(crate) server: Server,
    heard: Arc<Heard>,
    board: Arc<Mutex<Board>>,
    /// The scan that is under way, if there is one. It continues between two calls.
    scan: JoinSet<Result<(), StoreError>>,
    /// The time when the last scan began.
    began: Option<Instant>,
    /// The time of the last picture, or of the last reading that has failed.
    shown: Instant,
    /// `true` after the first complete scan.
    knows_all: bool,
}

/// Receives the messages about grants, for a follower.
pub(crate) struct Listener {
    inspector: Arc<dyn Inspect>,
    heard: Arc<Heard>,
    grants: Option<Grants>,
    /// The time until messages are asked for again.
    pause: Duration,
}

impl Listener {
    /// Listens for ever.
    pub(crate) async fn listen(mut self) -> Infallible {
        loop {
            self.next().await;
        }
    }

    /// Waits for the next news.
    pub(crate) async fn next(&mut self) -> News {
        if let Some(grants) = &mut self.grants {
            if let Some(grant) = grants.next().await {
                self.heard.add(grant.key);
                return News::Grant;
            }
            self.grants = None;
            self.pause = PAUSE;
            return News::Deaf("the connection was lost".to_owned());
        }
        sleep(self.pause).await;
        match self.inspector.grants().await {
            Ok(grants) => {
                self.grants = Some(grants);
                News::Hears
            }
            Err(error) => {
                self.pause = if error.is_final() { REFUSED } else { PAUSE };
                News::Deaf(error.to_string())
            }
        }
    }
}

impl Heard {
    fn add(&self, key: String) {
        if self.pattern.as_ref().is_some_and(|it| !it.matches(&key)) {
            return;
        }
        let mut keys = lock(&self.keys);
        // The next scan finds those that are too many.
        if keys.len() < FEW {
            keys.insert(key);
        }
        self.added.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        mem::take(&mut lock(&self.keys))
    }
}

impl Follower {
    /// Returns a follower of the wanted locks. Of everything, it shows parts before the first scan has ended, and grants at the
    /// next interval; of other locks, it shows complete pictures only, and grants at once.
    pub(crate) fn new(inspector: Arc<dyn Inspect>, wanted: Wanted, interval: Duration) -> Self {
        let pattern = match &wanted {
            Wanted::Matching(Some(pattern)) => Some(KeyPattern::new(pattern)),
            _ => None,
        };
        let heard = Heard {
            pattern,
            ..Heard::default()
        };
        Self {
            inspector,
            wanted,
            interval,
            server: Server::default(),
            heard: Arc::new(heard),
            board: Arc::default(),
            scan: JoinSet::new(),
            began: None,
            shown: Instant::now(),
            knows_all: false,
        }
    }

    /// Returns the listener that has to run beside this.
    pub(crate) fn listener(&self) -> Listener {
        Listener {
            inspector: self.inspector.clone(),
            heard: self.heard.clone(),
            grants: None,
            pause: Duration::ZERO,
        }
    }

    /// Waits for the next picture: after a scan of all keys; during a scan that takes longer than both the interval and a
    /// second, after each reading of the known locks; and after a grant that no reading has seen.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the scan goes on. Grants that were heard may be shown after the next scan only.
    pub(crate) async fn next(&mut self) -> Result<Picture, StoreError> {
        let heard = self.heard.clone();
        let shows_parts = matches!(self.wanted, Wanted::Everything);
        loop {
            let is_scanning = !self.scan.is_empty();
            let due = match self.began {
                None => Instant::now(),
                Some(began) if is_scanning => began.max(self.shown) + self.patience(),
                Some(began) => began + self.interval,
            };
            tokio::select! {
                biased;
                Some(read) = self.scan.join_next() => {
                    read.expect("a scan does not panic and is not aborted")?;
                    self.knows_all = true;
                    return Ok(self.show());
                }
                () = heard.added.notified(), if self.knows_all && !shows_parts => {
                    // A lock with frequent grants must not cause constant readings.
                    sleep_until(self.shown + self.interval / 10).await;
                    let named = self.named();
                    if !named.is_empty() {
                        return self.read(&named).await;
                    }
                }
                () = sleep_until(due), if !is_scanning => self.begin_scan(),
                () = sleep_until(due), if self.knows_all || shows_parts => {
                    let named = self.named();
                    let all = lock(&self.board).all();
                    return self.read(&all.unwrap_or(named)).await;
                }
            }
        }
    }

    fn patience(&self) -> Duration {
        self.interval.max(PATIENCE)
    }

    fn begin_scan(&mut self) {
        self.began = Some(Instant::now());
        let (inspector, board) = (self.inspector.clone(), self.board.clone());
        let (wanted, server) = (self.wanted.clone(), self.server.clone());
        self.scan
            .spawn(async move { scan(&*inspector, &wanted, &server, &board).await });
    }

    /// Returns the keys of the locks with a grant, which are known from now on.
    fn named(&self) -> Vec<LockKey> {
        lock(&self.board).named(self.heard.take())
    }

    async fn read(&mut self, keys: &[LockKey]) -> Result<Picture, StoreError> {
        let began = Instant::now();
        let read = self.inspector.locks_of(keys).await;
        self.shown = Instant::now();
        lock(&self.board).replace(keys, &read?, began, self.server.now());
        Ok(self.show())
    }

    fn show(&mut self) -> Picture {
        self.shown = Instant::now();
        lock(&self.board).picture(self.patience())
    }
}

/// Reads all locks once.
pub(crate) async fn read_once(
    inspector: &dyn Inspect,
    server: &Server,
) -> Result<Picture, StoreError> {
    let board = Mutex::default();
    scan(inspector, &Wanted::Everything, server, &board).await?;
    // However long it took, it was one reading.
    Ok(lock(&board).picture(Duration::MAX))
}

async fn scan(
    inspector: &dyn Inspect,
    wanted: &Wanted,
    server: &Server,
    board: &Mutex<Board>,
) -> Result<(), StoreError> {
    let began = Instant::now();
    lock(board).begin();
    let mut since = began;
    let mut part = |locks: Vec<_>| {
        lock(board).add(&locks, since, server.now());
        since = Instant::now();
    };
    let rest = wanted.list(inspector, &mut part).await?;
    lock(board).end(rest.process_count, began.elapsed());
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use dlock::{LockManager, store::redis::RedisConfig};
    use dlock_admin::Inspector;
    use dlock_testkit::RedisServer;
    use tokio::time::timeout;

    use super::*;

    /// Longer than a busy machine needs for a reading.
    const LIMIT: Duration = Duration::from_secs(30);

    async fn follower(server: &RedisServer, pattern: Option<&str>) -> Follower {
        let config = RedisConfig::new(server.url()).response_timeout(LIMIT);
        let inspector = Inspector::connect(config).await.expect("it runs");
        let wanted = Wanted::Matching(pattern.map(str::to_owned));
        Follower::new(Arc::new(inspector), wanted, LIMIT)
    }

    fn keys(picture: &Picture) -> Vec<&str> {
        picture.locks.iter().map(|it| &*it.lock.key).collect()
    }

    /// The next grant is read without a pause.
    fn make_pictures_old(follower: &mut Follower) {
        let long_ago = Instant::now().checked_sub(LIMIT / 10);
        follower.shown = long_ago.expect("the machine runs for longer");
    }

    #[tokio::test]
    async fn a_grant_is_read_at_once_if_the_pattern_matches() {
        let server = RedisServer::start().await;
        let manager = LockManager::connect(&server.url()).await.expect("it runs");
        let mut follower = follower(&server, Some("a:*")).await;
        let first = follower.next().await.expect("the server answers");
        assert_eq!(keys(&first), [""; 0]);
        let guards = manager.lock_all(["a:1", "b:1"]).acquire().await;
        make_pictures_old(&mut follower);
        for key in ["a:1", "b:1"] {
            follower.heard.add(key.to_owned());
        }
        let began = Instant::now();
        let next = follower.next().await.expect("the server answers");
        assert_eq!(keys(&next), ["a:1"]);
        assert!(
            follower.began.is_some_and(|it| it < began),
            "no scan has begun"
        );
        drop(guards);
    }

    #[tokio::test]
    async fn grants_that_were_read_or_match_no_pattern_show_no_picture() {
        let server = RedisServer::start().await;
        let mut follower = follower(&server, Some("a:*")).await;
        follower.next().await.expect("the server answers");
        make_pictures_old(&mut follower);
        follower.heard.add("a:1".to_owned());
        // As a reading of the known locks does.
        assert_eq!(follower.heard.take().len(), 1);
        follower.heard.add("b:1".to_owned());
        let next = timeout(LIMIT / 100, follower.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}
