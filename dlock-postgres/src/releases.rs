//! Releases, and which of them are repeated: those that a request may still come after.
//!
//! A connection that does not answer is given up. Its last requests may still be on their way: the server is paused, or
//! the network holds them back. A release takes the next connection, and can overtake an acquire request of its owner
//! there. That request then begins a lease, or takes a place in the queue, for an owner that is not there any more. So
//! the owner is released again, each time after a longer pause: a lease that begins late ends soon, and not with its TTL.
//!
//! # Rules
//!
//! - **Safety.** Only an owner that was released is released again. An owner that has repeated its request may hold the
//!   lease. (`a_repeated_request_that_arrives_after_the_release_is_released_again`)
//! - On one connection, no request overtakes another one. A call that is cancelled costs no more than its release.
//!   (`a_release_behind_its_request_is_not_repeated`)
//! - No process of the server is ended for it. That would also end its wait for a synchronous standby, and others would
//!   see a grant that the standby does not have.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use dlock_runtime::{
    LockKey,
    store::{Released, StoreError},
};
use tokio::runtime::Handle;

use crate::{calls::Call, errors, line::Line, requests::Requests};

/// The pauses before a release is repeated double from the first to the last: a lease that begins late lasts about as long as it
/// was late, and a network that was down for longer delivers later.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(64);

/// No network delivers a request so late.
const LONGEST_WAY: Duration = Duration::from_secs(3600);

pub(crate) struct Releases {
    requests: Arc<Requests>,
    /// The thread of the store.
    runtime: Handle,
    /// For each owner with an acquire request that has no answer: the connection of the first one.
    unanswered: Mutex<HashMap<String, Unanswered>>,
    /// Locked by the release that is repeated just now: many at once could overload a server that has just come back.
    turn: tokio::sync::Mutex<()>,
}

struct Unanswered {
    line: Weak<Line>,
    since: Instant,
}

impl Releases {
    pub(crate) fn new(requests: Arc<Requests>, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            requests,
            runtime,
            unanswered: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Returns what notes an acquire request of `owner` on this connection, unless it is answered.
    pub(crate) fn asking<'a>(&'a self, owner: &'a str, line: &'a Arc<Line>) -> Asking<'a> {
        Asking {
            releases: self,
            owner,
            line,
        }
    }

    /// Releases a lease, or a place in the queue.
    pub(crate) async fn release(
        self: &Arc<Self>,
        key: &LockKey,
        owner: &str,
    ) -> Result<Released, StoreError> {
        // Also if this is dropped.
        let mut repeated = self.repeated(key, owner);
        let (released, line) = self.send(key, owner).await?;
        if let Some(repeated) = repeated.take_if(|it| it.is_on(&line)) {
            repeated.cancel();
        }
        Ok(released)
    }

    /// Returns the answer, and the connection on which it came.
    async fn send(&self, key: &LockKey, owner: &str) -> Result<(Released, Arc<Line>), StoreError> {
        let parameters = [&key.as_str() as _, &owner as _];
        let mut asked = self.requests.about(key);
        loop {
            let way = asked.way().await?;
            let answered = way.send(Call::Release, &parameters).await;
            let Some(answer) = asked.judge(answered) else {
                continue;
            };
            let released = match answer?.first().map(|row| row.try_get(0)) {
                Some(Ok(true)) => Released::WasHeld,
                Some(Ok(false)) => Released::WasGone,
                _ => return Err(errors::no_row()),
            };
            return Ok((released, way.line().clone()));
        }
    }

    /// Returns the release of an owner with a request that may still come.
    fn repeated(self: &Arc<Self>, key: &LockKey, owner: &str) -> Option<Repeated> {
        let (owner, Unanswered { line, .. }) = self.unanswered().remove_entry(owner)?;
        let due = (self.clone(), key.clone(), owner);
        Some(Repeated {
            due: Some(due),
            line,
        })
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<String, Unanswered>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, owner: &str, line: &Arc<Line>) {
        let mut unanswered = self.unanswered();
        // A lease that is left to a transaction is never released.
        if unanswered.len() == unanswered.capacity() {
            unanswered.retain(|_, it| it.since.elapsed() < LONGEST_WAY);
        }
        unanswered
            .entry(owner.to_owned())
            .or_insert_with(|| Unanswered {
                line: Arc::downgrade(line),
                since: Instant::now(),
            });
    }

    async fn repeat(&self, key: &LockKey, owner: &str) {
        for pause in pauses() {
            tokio::time::sleep(pause).await;
            // As long as the server is away, no request arrives there either.
            while !self.requests.usual().is_up() {
                tokio::time::sleep(FIRST_PAUSE).await;
            }
            let _turn = self.turn.lock().await;
            self.send(key, owner).await.ok();
        }
    }
}

/// The pauses before each time that a release is repeated.
fn pauses() -> impl Iterator<Item = Duration> {
    let next = |pause: &Duration| Some(*pause * 2).filter(|it| *it <= LAST_PAUSE);
    std::iter::successors(Some(FIRST_PAUSE), next)
}

/// An acquire request that is under way. Dropped, it has no answer.
pub(crate) struct Asking<'a> {
    releases: &'a Releases,
    owner: &'a str,
    line: &'a Arc<Line>,
}

impl Asking<'_> {
    /// The server has answered, or has not got the request.
    pub(crate) fn settle(self) {
        std::mem::forget(self);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.releases.note(self.owner, self.line);
    }
}

/// A release that a request may come after. Dropped, it is repeated.
struct Repeated {
    due: Option<(Arc<Releases>, LockKey, String)>,
    /// The connection of the request.
    line: Weak<Line>,
}

impl Repeated {
    fn is_on(&self, line: &Arc<Line>) -> bool {
        std::ptr::eq(self.line.as_ptr(), Arc::as_ptr(line))
    }

    fn cancel(mut self) {
        self.due = None;
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        if let Some((releases, key, owner)) = self.due.take() {
            let runtime = releases.runtime.clone();
            runtime.spawn(async move { releases.repeat(&key, &owner).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_net::Worker;
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::PostgresServer;

    use super::*;
    use crate::{Schema, config::Config};

    const OWNER: &str = "somebody.1";

    /// Releases on the connection of a session, and on another one that has been given up.
    async fn world() -> (Arc<Releases>, Arc<Line>, Worker) {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        let schema = Schema::new("dlock").unwrap();
        let migration = schema.migration(None).unwrap();
        let client = Arc::new(server.client(&name).await);
        client.batch_execute(&migration).await.unwrap();
        let mut options = StoreOptions::default();
        options.response_timeout = Duration::from_secs(30);
        let config = Config::parse(&server.url_of("postgres", &name), &options);
        let config = Arc::new(config.unwrap());
        let worker = Worker::start("dlock-postgres").unwrap();
        let requests = Requests::new(config, worker.tasks(), None);
        let releases = Releases::new(Arc::new(requests), worker.handle().clone());
        let old = Line::on(client, &schema, None).await.unwrap();
        (releases, Arc::new(old), worker)
    }

    /// Releases, and returns whether that is to be repeated.
    async fn is_repeated(releases: &Arc<Releases>) -> bool {
        let key = LockKey::new("order:42").unwrap();
        let answer = releases.release(&key, OWNER).await;
        assert_eq!(answer.unwrap(), Released::WasGone);
        Arc::strong_count(releases) > 1
    }

    #[tokio::test]
    async fn a_release_behind_its_request_is_not_repeated() {
        let (releases, _old, _worker) = world().await;
        let line = releases.requests.usual().line().await.unwrap();
        drop(releases.asking(OWNER, &line));
        assert!(!is_repeated(&releases).await);
    }

    #[tokio::test]
    async fn a_release_after_an_answer_is_not_repeated() {
        let (releases, old, _worker) = world().await;
        releases.asking(OWNER, &old).settle();
        assert!(!is_repeated(&releases).await);
    }

    #[tokio::test]
    async fn a_release_is_repeated_if_any_request_was_on_another_connection() {
        let (releases, old, _worker) = world().await;
        let line = releases.requests.usual().line().await.unwrap();
        for line in [&old, &line] {
            drop(releases.asking(OWNER, line));
        }
        assert!(is_repeated(&releases).await);
    }

    #[tokio::test]
    async fn a_release_that_is_dropped_is_repeated() {
        let (releases, _old, _worker) = world().await;
        let line = releases.requests.usual().line().await.unwrap();
        drop(releases.asking(OWNER, &line));
        let key = LockKey::new("order:42").unwrap();
        drop(releases.repeated(&key, OWNER));
        assert!(Arc::strong_count(&releases) > 1);
    }

    #[test]
    fn a_release_is_repeated_for_two_minutes_after_longer_and_longer_pauses() {
        let seconds: Vec<_> = pauses().map(|it| it.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64]);
    }

    /// A lease that is left to a transaction is never released.
    #[tokio::test]
    async fn owners_without_an_answer_are_forgotten_after_an_hour_when_there_are_many() {
        let (releases, old, _worker) = world().await;
        let long_ago = Instant::now().checked_sub(LONGEST_WAY);
        let long_ago = long_ago.unwrap();
        for number in 0..10_000 {
            drop(releases.asking(&format!("somebody.{number}"), &old));
            let mut unanswered = releases.unanswered();
            unanswered.values_mut().for_each(|it| it.since = long_ago);
        }
        assert!(releases.unanswered().capacity() < 100);
        for number in 0..100 {
            drop(releases.asking(&format!("late.{number}"), &old));
        }
        let unanswered = releases.unanswered();
        assert!((0..100).all(|it| unanswered.contains_key(&format!("late.{it}"))));
    }
}
