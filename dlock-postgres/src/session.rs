//! One connection to the server, as requests use it.
//!
//! Requests take the connection as it is at that moment. While there is none and the last try has failed, they fail at
//! once with the reason; during the first try they wait for it.

mod keeper;

use std::{sync::Arc, time::Duration};

use dlock_net::Tasks;
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::sync::{Notify, watch};
use tokio_postgres::{Row, types::ToSql};

use self::keeper::{Keeper, Link};
use crate::{
    calls::{Call, Failure},
    config::{Config, Route},
    errors,
    hints::Messages,
    line::Line,
};

/// One connection to the server.
pub(crate) struct Session {
    config: Arc<Config>,
    link: watch::Receiver<Link>,
    /// Notified when a request has not been answered.
    doubted: Arc<Notify>,
}

impl Session {
    /// Starts to connect. The connection receives the messages, if they are passed. No request on it waits for a lock of
    /// others for longer than `lock_limit`, or than [`Config::lock_limit`].
    pub(crate) fn start(
        tasks: &Tasks,
        config: Arc<Config>,
        route: Route,
        messages: Option<Messages>,
        lock_limit: Duration,
    ) -> Self {
        let (set_link, link) = watch::channel(Link::Connecting);
        let doubted = Arc::new(Notify::new());
        let keeper = Keeper {
            config: config.clone(),
            route,
            link: set_link,
            doubted: doubted.clone(),
            messages,
            lock_limit,
            sends_settings: true,
        };
        let unused = keeper.link.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = keeper.keep() => {}
                () = unused.closed() => {}
            }
        });
        Self {
            config,
            link,
            doubted,
        }
    }

    /// Waits for the first connection.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.line().await.map(drop)
    }

    /// Returns `true` if there is a connection now, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(it) if !it.client().is_closed())
    }

    /// Returns the connection that requests take now, or waits for it.
    pub(crate) async fn line(&self) -> Result<Arc<Line>, StoreError> {
        let mut link = self.link.clone();
        loop {
            match &*link.borrow_and_update() {
                Link::Up(it) if !it.client().is_closed() => return Ok(it.clone()),
                Link::Down(error) => return Err(error.clone()),
                Link::Up(_) | Link::Connecting => {}
            }
            if link.changed().await.is_err() {
                let error = StoreError::new(StoreErrorKind::Unreachable, "the store was closed");
                return Err(error.unsent());
            }
        }
    }

    /// Sends a request and returns its rows.
    pub(crate) async fn ask(
        &self,
        call: Call,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let line = self.line().await?;
        let answer = self.send_on(&line, call, parameters).await;
        answer.map_err(|failure| errors::of_failure(&failure, &self.config))
    }

    /// Sends a request on this connection, which [`line`](Self::line) has returned.
    pub(crate) async fn send_on(
        &self,
        line: &Line,
        call: Call,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        // A caller that drops this future has waited as long as it can.
        let unanswered = Unanswered(&self.doubted);
        let answer = line.ask(call, parameters).await;
        std::mem::forget(unanswered);
        answer.inspect_err(|failure| {
            if !failure.is_of_server() {
                self.doubted.notify_one();
            }
        })
    }
}

/// A request without an answer. Dropped, it has the connection tried.
struct Unanswered<'a>(&'a Notify);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use dlock_net::Worker;
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{PgBouncer, PostgresServer, eventually};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn database(server: &PostgresServer) -> String {
        let name = server.database().await;
        let migration = crate::Schema::new("dlock").unwrap().migration(None);
        let client = server.client(&name).await;
        client.batch_execute(&migration.unwrap()).await.unwrap();
        name
    }

    fn session(url: &str) -> (Session, Worker) {
        let mut options = StoreOptions::default();
        options.response_timeout = DEADLINE;
        options.connect_timeout = DEADLINE;
        let config = Arc::new(Config::parse(url, &options).unwrap());
        let worker = Worker::start("dlock-postgres").unwrap();
        let (route, limit) = (config.requests.clone(), config.lock_limit());
        let session = Session::start(&worker.tasks(), config, route, None, limit);
        (session, worker)
    }

    /// A name may meet another client's statement there, and messages reach another client.
    #[tokio::test]
    async fn a_pooler_that_ignores_settings_is_found_out() {
        let server = PostgresServer::shared().await;
        let name = database(server).await;
        let refuses = PgBouncer::start(server).await;
        let ignores = PgBouncer::start_ignoring_settings(server).await;
        for (url, is_direct) in [
            (server.url_of("postgres", &name), true),
            (refuses.url_of("postgres", &name), false),
            (ignores.url_of("postgres", &name), false),
            (server.url_of("postgres", &name) + "?listen=off", false),
        ] {
            let (session, _worker) = session(&url);
            let line = session.line().await.unwrap();
            assert_eq!(line.is_prepared(Call::Acquire), is_direct, "{url}");
        }
    }

    #[tokio::test]
    async fn an_answer_about_the_server_that_a_pooler_has_mixed_up_is_not_believed() {
        let server = PostgresServer::shared().await;
        let name = database(server).await;
        let pooler = PgBouncer::start_with_pool(server, 1).await;
        let gate = server.client(&name).await;
        let close = "SELECT pg_advisory_lock(7)";
        gate.batch_execute(close).await.unwrap();
        // A schema that dlock would refuse.
        let forged = "SELECT 2, false, 'read committed', NULL FROM pg_advisory_xact_lock_shared(7)";
        pooler.leave_an_answer(&name, forged).await;
        let (session, _worker) = session(&pooler.url_of("postgres", &name));
        let is_passed_on = eventually(DEADLINE, "the check is at the server", async || {
            pooler.used_connections(&name).await > 0
        });
        let answered = tokio::select! {
            // A pooler that mixes up nothing gives it a connection of its own.
            answered = session.ready() => answered,
            () = is_passed_on => {
                drop(gate);
                session.ready().await
            }
        };
        if let Err(error) = answered {
            assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
        }
    }
}
