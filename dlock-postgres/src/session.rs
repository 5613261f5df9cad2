//! One connection to the server, which is made again when it breaks or does not answer.
//!
//! Requests take the connection as it is at that moment. While there is none and the last try has failed, they fail at
//! once with the reason; during the first try they wait for it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{
    Client, Row,
    tls::NoTls,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    calls::{Call, Failure},
    config::{Config, Listen, Route},
    dial::Tries,
    errors::{self, MARK},
    hints::Messages,
    line::Line,
    pooled::Turns,
    pump::{self, Home, Pump, Pumped},
    schema::VERSION,
    trust::{self, Owner},
    worker::Tasks,
};

/// The pause after the first failed try. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection without traffic is tried this often.
const LOOK: Duration = Duration::from_secs(5);

/// The longest `lock_timeout` of PostgreSQL, in milliseconds. Zero would be none.
const LONGEST_LOCK_LIMIT: u128 = i32::MAX as u128;

/// The settings of dlock's connections, whatever those of the role are. Poolers do not accept them.
const SETTINGS: &str = "-c default_transaction_isolation=read\\ committed \
                        -c default_transaction_read_only=off \
                        -c search_path=pg_catalog,pg_temp \
                        -c statement_timeout=0 -c client_min_messages=notice \
                        -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0";

/// The connection as requests see it.
#[derive(Clone)]
pub(crate) enum Link {
    Connecting,
    Up {
        line: Arc<Line>,
        is_with_callers: bool,
    },
    Down(StoreError),
}

/// One connection to the server.
pub(crate) struct Session {
    config: Arc<Config>,
    link: watch::Receiver<Link>,
    /// Notified when a request has not been answered.
    doubted: Arc<Notify>,
    home: Arc<Home>,
}

impl Session {
    /// Starts to connect. The thread of the store watches over the connection, and `home` has it. It receives the messages,
    /// if they are passed. No request on it waits for a lock of others for longer than `lock_limit`, or
    /// than [`Config::lock_limit`].
    pub(crate) fn start(
        tasks: &Tasks,
        config: Arc<Config>,
        route: Route,
        home: Home,
        messages: Option<Messages>,
        lock_limit: Duration,
    ) -> Self {
        let (set_link, link) = watch::channel(Link::Connecting);
        let (doubted, home) = (Arc::new(Notify::new()), Arc::new(home));
        let keeper = Keeper {
            config: config.clone(),
            route,
            link: set_link,
            doubted: doubted.clone(),
            home: home.clone(),
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
            home,
        }
    }

    /// Waits for the first connection.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.line().await.map(drop)
    }

    /// Returns `true` if there is a connection now, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up { line, .. } if !line.client().is_closed())
    }

    /// Notes on which runtime a request is about to be sent.
    pub(crate) fn note_caller(&self) {
        self.home.note_caller();
    }

    /// Returns the connection that requests take now, or waits for it.
    pub(crate) async fn line(&self) -> Result<Arc<Line>, StoreError> {
        let mut link = self.link.clone();
        loop {
            match &*link.borrow_and_update() {
                Link::Up {
                    line,
                    is_with_callers,
                } => {
                    // Such a one is about to be replaced.
                    let is_left = *is_with_callers && self.home.callers().is_none();
                    if !is_left && !line.client().is_closed() {
                        return Ok(line.clone());
                    }
                }
                Link::Down(error) => return Err(error.clone()),
                Link::Connecting => {}
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

/// A connection that requests may use.
struct Connected {
    pumped: Pumped,
    line: Line,
    is_pooled: bool,
}

/// Makes the connection, and makes it again.
struct Keeper {
    config: Arc<Config>,
    route: Route,
    link: watch::Sender<Link>,
    doubted: Arc<Notify>,
    home: Arc<Home>,
    messages: Option<Messages>,
    lock_limit: Duration,
    /// `false` once a pooler has refused the settings.
    sends_settings: bool,
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(connected) => {
                    let since = Instant::now();
                    let is_lost = self.watch_over(connected).await;
                    self.link.send_replace(Link::Connecting);
                    pause = FIRST_PAUSE;
                    // A server that ends each connection is not asked for the next one at once.
                    if !is_lost || since.elapsed() > LONGEST_PAUSE {
                        continue;
                    }
                }
                Err(error) => self.failed(error),
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn failed(&self, error: StoreError) {
        let error = match &self.route.tls {
            Some(tls) => tls.failed(error),
            None => error,
        };
        tracing::warn!(target: "dlock::store", url = %self.config.shown, %error, "cannot connect to PostgreSQL");
        self.link.send_replace(Link::Down(error));
    }

    /// Connects to the first host that is a primary server.
    async fn connect(&mut self) -> Result<Connected, StoreError> {
        let mut tries = Tries::new(self.config.connect_limit);
        for host in self.route.hosts.clone() {
            if let Some(connected) = tries.connect(&host, self.connect_to(&host)).await {
                return Ok(connected);
            }
            if tries.has_timed_out() {
                // The host is silent, or the runtime of the callers is not polled.
                self.home.move_to_store();
            }
        }
        Err(tries.failed())
    }

    async fn connect_to(&mut self, host: &tokio_postgres::Config) -> Result<Connected, StoreError> {
        let mark = RandomState::new().build_hasher().finish();
        loop {
            let mut config = host.clone();
            if self.sends_settings {
                let own = config.get_options().unwrap_or_default();
                let lock_limit = self.lock_limit.min(self.config.lock_limit()).as_millis();
                let lock_limit = lock_limit.clamp(1, LONGEST_LOCK_LIMIT);
                config.options(format!(
                    "{SETTINGS} -c lock_timeout={lock_limit} -c {MARK}={mark:016x} {own}"
                ));
            }
            let sinks = self.messages.as_ref().map(Messages::sinks);
            let connected = match &self.route.tls {
                Some(tls) => {
                    let tls = MakeRustlsConnect::clone(&tls.get());
                    pump::connect(&config, tls, &self.home, sinks).await
                }
                None => pump::connect(&config, NoTls, &self.home, sinks).await,
            };
            match connected {
                Err(error) if self.sends_settings && errors::refuses_settings(&error) => {
                    self.sends_settings = false;
                }
                Err(error) => return Err(errors::of_connecting(&error, &self.config)),
                Ok(pumped) => {
                    let is_with_callers = pumped.is_with_callers;
                    tokio::select! {
                        connected = self.try_out(pumped, mark) => return connected,
                        // That runtime may not be polled.
                        () = self.home.moved(), if is_with_callers => {}
                    }
                }
            }
        }
    }

    /// Checks what is at the other end, and prepares the requests. `mark` is what the connection was marked with.
    async fn try_out(&self, pumped: Pumped, mark: u64) -> Result<Connected, StoreError> {
        // Whether this is a pooler is not known yet. This is the runtime of the store.
        let turns = Turns::new(Handle::current(), mark);
        let found = self.check(&pumped.client, &turns).await?;
        // A URL says how to listen because of a pooler.
        let is_pooled = self.config.listen != Listen::Direct
            || found.as_deref() != Some(&format!("{mark:016x}"));
        let turns = is_pooled.then_some(turns);
        let line = Line::on(pumped.client.clone(), &self.config.schema, turns);
        let line = line.await.map_err(|error| self.unsent(&error.into()))?;
        Ok(Connected {
            pumped,
            line,
            is_pooled,
        })
    }

    fn unsent(&self, failure: &Failure) -> StoreError {
        errors::of_failure(failure, &self.config).unsent()
    }

    /// Checks that the server has what requests need. Returns the mark of the connection.
    async fn check(
        &self,
        client: &Arc<Client>,
        turns: &Turns,
    ) -> Result<Option<String>, StoreError> {
        let schema = &self.config.schema;
        let first = async |statement: &str, parameters: &[&(dyn ToSql + Sync)], types: &[Type]| {
            let rows = turns.ask(client, statement, parameters, types).await;
            let rows = rows.map_err(|failure| self.unsent(&failure))?;
            Ok(rows.into_iter().next().expect("an answer has a row"))
        };
        let row = first(&trust::numbered(), &[&schema.name()], &[Type::TEXT]).await?;
        Owner::trusted(Owner::of(&row, schema)?, schema)?;
        let row = first(&(schema.fill(errors::STATE) + ", $1"), &[], &[]).await?;
        let version = errors::version(&row)?;
        let oldest = if version > VERSION {
            let asked = schema.fill(errors::OLDEST_PROGRAM) + ", $1";
            Some(errors::version(&first(&asked, &[], &[]).await?)?)
        } else {
            None
        };
        errors::check_version(schema, version, oldest)?;
        errors::check(&row)?;
        errors::check_level(&row, &self.config)?;
        errors::mark(&row)
    }

    /// Offers the connection to requests, until it breaks, does not answer, or has to move. Returns `false` if it moves.
    async fn watch_over(&self, connected: Connected) -> bool {
        let Pumped {
            client,
            pump,
            is_with_callers,
        } = connected.pumped;
        let mut pump = pump.into_used();
        if let Some(messages) = &self.messages {
            messages.come_on(client, connected.is_pooled);
        }
        let line = Arc::new(connected.line);
        self.link.send_replace(Link::Up {
            line: line.clone(),
            is_with_callers,
        });
        let is_lost = tokio::select! {
            () = self.until_lost(&mut pump, &line, is_with_callers) => true,
            () = self.home.moved(), if is_with_callers => false,
        };
        if is_lost {
            tracing::warn!(target: "dlock::store", url = %self.config.shown, "the connection to PostgreSQL was lost");
            // Requests on a silent connection end now, and not with it.
            pump.end();
        } else {
            // Requests that are under way are answered before the old connection ends.
            tokio::spawn(pump.run_out(self.config.response_limit));
        }
        is_lost
    }

    /// Waits until a connection breaks or does not answer.
    async fn until_lost(&self, pump: &mut Pump, line: &Line, is_with_callers: bool) {
        let mut looked = Instant::now();
        loop {
            // A doubted connection is tried at once, and a quiet one from time to time.
            tokio::select! {
                ended = pump.ended() => {
                    if ended.is_err() && is_with_callers {
                        // Their runtime has ended.
                        self.home.move_to_store();
                    }
                    return;
                }
                () = self.doubted.notified() => {}
                () = tokio::time::sleep_until(looked + LOOK) => {}
            }
            let limit = self.config.response_limit;
            if line.is_spent() {
                return;
            }
            let answer = timeout(limit, line.try_out()).await;
            looked = Instant::now();
            if answer.is_err() {
                self.home.move_to_store();
            }
            if !matches!(answer, Ok(Ok(()))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{PgBouncer, PostgresServer, eventually};

    use super::*;
    use crate::worker::Worker;

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
        let worker = Worker::start().unwrap();
        let (route, limit) = (config.requests.clone(), config.lock_limit());
        let home = Home::of_callers();
        let session = Session::start(&worker.tasks(), config, route, home, None, limit);
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
