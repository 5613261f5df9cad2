//! Which connection a request about a key takes: the usual one, or that of requests that have to wait for the key's row.
//!
//! The server carries out the requests of a connection one after the other. While another session has locked the row of a key,
//! or many processes want it, a request for that key would hold up those for all others. So on the usual connection it
//! waits for a moment only. Then it is undone, and sent again on the second connection, where such requests take turns.
//! That one is made when it is needed, and ends when it is not. There is only one: a locked table delays all keys of all
//! processes, and would cost each of them several connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use dlock_net::Tasks;
use dlock_runtime::{LockKey, store::StoreError};
use tokio::sync::{Mutex as Turns, MutexGuard as Turn};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    calls::{Call, Failure},
    config::Config,
    errors,
    hints::Messages,
    line::Line,
    session::Session,
};

/// How long a request on the usual connection waits for a row. One turn of a hot key takes less.
const MOMENT: Duration = Duration::from_millis(50);

/// How long a request on the second connection waits for a row before the next one has its turn.
const TURN: Duration = Duration::from_millis(150);

/// Requests for a key that had to wait take the second connection at once, for this long.
const REMEMBERED: Duration = Duration::from_secs(5);

/// The second connection ends after this time without a request, which a task finds out at such intervals.
const IDLE: Duration = Duration::from_secs(10);

/// The connections of requests.
pub(crate) struct Requests {
    usual: Session,
    config: Arc<Config>,
    tasks: Tasks,
    /// Locked by the request that has its turn.
    second: Arc<Turns<Option<Second>>>,
    /// The keys that had to wait, and until when that is remembered.
    slow: Mutex<HashMap<LockKey, Instant>>,
}

struct Second {
    session: Session,
    used: Instant,
}

impl Requests {
    /// Begins to connect. The usual connection receives the messages, if they are passed.
    pub(crate) fn new(config: Arc<Config>, tasks: Tasks, messages: Option<Messages>) -> Self {
        let route = config.requests.clone();
        Self {
            usual: Session::start(&tasks, config.clone(), route, messages, MOMENT),
            config,
            tasks,
            second: Arc::default(),
            slow: Mutex::default(),
        }
    }

    pub(crate) fn usual(&self) -> &Session {
        &self.usual
    }

    /// Begins a request about a key.
    pub(crate) fn about<'a>(&'a self, key: &'a LockKey) -> Asked<'a> {
        Asked {
            requests: self,
            key,
            begun: Instant::now(),
            waits: self.is_slow(key),
            was_upgraded: false,
        }
    }

    fn slow(&self) -> MutexGuard<'_, HashMap<LockKey, Instant>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_slow(&self, key: &LockKey) -> bool {
        let mut slow = self.slow();
        if slow.is_empty() {
            return false;
        }
        let is_slow = slow.get(key).is_some_and(|until| Instant::now() < *until);
        if !is_slow {
            slow.remove(key);
        }
        is_slow
    }

    fn note_slow(&self, key: &LockKey) {
        let mut slow = self.slow();
        let now = Instant::now();
        if slow.len() == slow.capacity() {
            slow.retain(|_, until| now < *until);
        }
        slow.insert(key.clone(), now + REMEMBERED);
    }

    /// Waits for a turn on the second connection, which is made if it is not there.
    async fn turn(&self) -> Turn<'_, Option<Second>> {
        let mut second = self.second.lock().await;
        if second.is_none() {
            self.tasks
                .spawn(end_when_idle(Arc::downgrade(&self.second), IDLE));
        }
        let it = second.get_or_insert_with(|| Second {
            session: Session::start(
                &self.tasks,
                self.config.clone(),
                self.config.requests.clone(),
                None,
                TURN,
            ),
            used: Instant::now(),
        });
        it.used = Instant::now();
        second
    }

    /// Sends a request that is about no key, apart from those of callers.
    pub(crate) async fn ask_apart(&self, call: Call) -> Result<Vec<Row>, StoreError> {
        let turn = self.turn().await;
        session_of(&turn).ask(call, &[]).await
    }
}

fn session_of<'a>(turn: &'a Turn<'_, Option<Second>>) -> &'a Session {
    let second = turn.as_ref();
    &second.expect("it was made if it was not there").session
}

/// Ends the second connection when it has not been used for a while.
async fn end_when_idle(second: Weak<Turns<Option<Second>>>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let Some(second) = second.upgrade() else {
            return;
        };
        let mut second = second.lock().await;
        if second.take_if(|it| it.used.elapsed() >= idle).is_some() {
            return;
        }
    }
}

/// A request about a key, on its way to an answer.
pub(crate) struct Asked<'a> {
    requests: &'a Requests,
    key: &'a LockKey,
    begun: Instant,
    waits: bool,
    was_upgraded: bool,
}

impl<'a> Asked<'a> {
    /// Returns the connection that the request takes now.
    ///
    /// # Errors
    ///
    /// That there is none.
    pub(crate) async fn way(&self) -> Result<Way<'a>, StoreError> {
        if self.waits {
            let turn = self.requests.turn().await;
            // The server may have no connection left for it.
            if let Ok(line) = session_of(&turn).line().await {
                return Ok(Way {
                    usual: &self.requests.usual,
                    turn: Some(turn),
                    line,
                });
            }
        }
        Ok(Way {
            usual: &self.requests.usual,
            turn: None,
            line: self.requests.usual.line().await?,
        })
    }

    /// Returns the answer; `None` if the request was undone because the row is locked or the tables were upgraded, and is to be
    /// sent again.
    pub(crate) fn judge(
        &mut self,
        answered: Result<Vec<Row>, Failure>,
    ) -> Option<Result<Vec<Row>, StoreError>> {
        let failure = match answered {
            Ok(rows) => return Some(Ok(rows)),
            Err(failure) => failure,
        };
        if errors::is_lock_limit(&failure) {
            self.requests.note_slow(self.key);
            self.waits = true;
            if self.begun.elapsed() < self.requests.config.lock_limit() {
                return None;
            }
        }
        // It was under way with the functions of the version before. Now it calls the new ones.
        if !self.was_upgraded && errors::is_of_upgrade(&failure) {
            self.was_upgraded = true;
            return None;
        }
        Some(Err(errors::of_failure(&failure, &self.requests.config)))
    }
}

/// A connection for one request. On the second one, others wait until it is dropped.
pub(crate) struct Way<'a> {
    usual: &'a Session,
    turn: Option<Turn<'a, Option<Second>>>,
    line: Arc<Line>,
}

impl Way<'_> {
    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub(crate) async fn send(
        &self,
        call: Call,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let session = self.turn.as_ref().map_or(self.usual, session_of);
        session.send_on(&self.line, call, parameters).await
    }
}

#[cfg(test)]
mod tests {
    use dlock_net::Worker;
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{PostgresServer, eventually};

    use super::*;
    use crate::schema::Schema;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn requests() -> (Requests, tokio_postgres::Client, Worker) {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        let client = server.client(&name).await;
        let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
        client.batch_execute(&migration).await.unwrap();
        let mut options = StoreOptions::default();
        options.response_timeout = DEADLINE;
        let config = Config::parse(&server.url_of("postgres", &name), &options);
        let worker = Worker::start("dlock-postgres").unwrap();
        let requests = Requests::new(Arc::new(config.unwrap()), worker.tasks(), None);
        (requests, client, worker)
    }

    async fn others(client: &tokio_postgres::Client) -> i64 {
        let statement = "SELECT count(*) FROM pg_stat_activity \
                         WHERE datname = current_database() AND pid <> pg_backend_pid()";
        client.query_one(statement, &[]).await.unwrap().get(0)
    }

    /// Otherwise each request for it would hold up those for other keys for a moment.
    #[tokio::test]
    async fn a_key_that_had_to_wait_is_remembered_for_a_while() {
        let (requests, client, _worker) = requests().await;
        let [key, other] = ["order:42", "order:7"].map(|key| LockKey::new(key).unwrap());
        for lock in [
            "INSERT INTO dlock.turn (key) VALUES ('order:42')",
            "BEGIN; SELECT FROM dlock.turn FOR UPDATE",
        ] {
            client.batch_execute(lock).await.unwrap();
        }
        let mut asked = requests.about(&key);
        let way = asked.way().await.unwrap();
        let parameters: [&(dyn ToSql + Sync); 2] = [&"order:42", &"none.1"];
        let answered = way.send(Call::Release, &parameters).await;
        assert!(asked.judge(answered).is_none(), "it is sent again");
        assert!(asked.waits && requests.about(&key).waits);
        assert!(!requests.about(&other).waits);
        *requests.slow().get_mut(&key).unwrap() = Instant::now();
        assert!(!requests.about(&key).waits);
        assert!(requests.slow().is_empty(), "it is forgotten");
    }

    #[tokio::test]
    async fn the_second_connection_is_there_while_it_is_used() {
        let (requests, client, _worker) = requests().await;
        let key = LockKey::new("order:42").unwrap();
        requests.usual.ready().await.unwrap();
        assert_eq!(others(&client).await, 1);
        requests.note_slow(&key);
        let way = requests.about(&key).way().await.unwrap();
        assert!(way.turn.is_some());
        assert_eq!(others(&client).await, 2);
        drop(way);
        let long = end_when_idle(Arc::downgrade(&requests.second), DEADLINE);
        let brief = end_when_idle(Arc::downgrade(&requests.second), Duration::from_millis(1));
        tokio::select! {
            () = long => unreachable!("it was used a moment ago"),
            () = brief => {}
        }
        let ended = async || others(&client).await == 1;
        eventually(DEADLINE, "the second connection ends", ended).await;
        assert!(requests.about(&key).way().await.unwrap().turn.is_some());
    }

    /// Keys that are used once each would otherwise fill the memory.
    #[tokio::test]
    async fn keys_that_had_to_wait_are_forgotten_when_there_are_many() {
        let (requests, _client, _worker) = requests().await;
        let key = |number: u32| LockKey::new(format!("order:{number}")).unwrap();
        for number in 0..10_000 {
            requests.note_slow(&key(number));
            let now = Instant::now();
            requests.slow().values_mut().for_each(|until| *until = now);
        }
        assert!(requests.slow().capacity() < 100);
        let remembered: Vec<_> = (0..100).map(key).collect();
        for key in &remembered {
            requests.note_slow(key);
        }
        assert!(remembered.iter().all(|key| requests.about(key).waits));
    }
}
