//! Makes a connection, checks what is at its other end, and makes it again when it breaks or does not answer.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use dlock_runtime::store::StoreError;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{
    Client,
    tls::NoTls,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    calls::Failure,
    config::{Config, Listen, Route},
    dial::Tries,
    errors::{self, MARK},
    hints::Messages,
    line::Line,
    pooled::Turns,
    pump::{self, Pump},
    schema::VERSION,
    trust::{self, Owner},
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

/// The pauses after tries that have failed, one after the other.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| {
        Some((2 * *pause).min(LONGEST_PAUSE))
    })
}

/// The connection as requests see it.
#[derive(Clone)]
pub(super) enum Link {
    Connecting,
    Up(Arc<Line>),
    Down(StoreError),
}

/// A connection that requests may use.
struct Connected {
    client: Arc<Client>,
    pump: Pump,
    line: Line,
    is_pooled: bool,
}

/// Makes the connection, and makes it again.
pub(super) struct Keeper {
    pub(super) config: Arc<Config>,
    pub(super) route: Route,
    pub(super) link: watch::Sender<Link>,
    pub(super) doubted: Arc<Notify>,
    pub(super) messages: Option<Messages>,
    pub(super) lock_limit: Duration,
    /// `false` once a pooler has refused the settings.
    pub(super) sends_settings: bool,
}

impl Keeper {
    pub(super) async fn keep(mut self) {
        let mut pauses = pauses();
        loop {
            match self.connect().await {
                Ok(connected) => {
                    let since = Instant::now();
                    self.watch_over(connected).await;
                    self.link.send_replace(Link::Connecting);
                    pauses = self::pauses();
                    // A server that ends each connection is not asked for the next one at once.
                    if since.elapsed() > LONGEST_PAUSE {
                        continue;
                    }
                }
                Err(error) => self.failed(error),
            }
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
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
                    pump::connect(&config, tls, sinks).await
                }
                None => pump::connect(&config, NoTls, sinks).await,
            };
            match connected {
                Err(error) if self.sends_settings && errors::refuses_settings(&error) => {
                    self.sends_settings = false;
                }
                Err(error) => return Err(errors::of_connecting(&error, host, &self.config)),
                Ok((client, pump)) => return self.try_out(client, pump, mark).await,
            }
        }
    }

    /// Checks what is at the other end, and prepares the requests. `mark` is what the connection was marked with.
    async fn try_out(
        &self,
        client: Arc<Client>,
        pump: Pump,
        mark: u64,
    ) -> Result<Connected, StoreError> {
        // Whether this is a pooler is not known yet. This is the runtime of the store.
        let turns = Turns::new(Handle::current(), mark);
        let found = self.check(&client, &turns).await?;
        // A URL says how to listen because of a pooler.
        let is_pooled = self.config.listen != Listen::Direct
            || found.as_deref() != Some(&format!("{mark:016x}"));
        let turns = is_pooled.then_some(turns);
        let line = Line::on(client.clone(), &self.config.schema, turns);
        let line = line.await.map_err(|error| self.unsent(&error.into()))?;
        Ok(Connected {
            client,
            pump,
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

    /// Offers the connection to requests, until it breaks or does not answer.
    async fn watch_over(&self, connected: Connected) {
        let Connected {
            client,
            mut pump,
            line,
            is_pooled,
        } = connected;
        if let Some(messages) = &self.messages {
            messages.come_on(client, is_pooled);
        }
        let line = Arc::new(line);
        self.link.send_replace(Link::Up(line.clone()));
        self.until_lost(&mut pump, &line).await;
        tracing::warn!(target: "dlock::store", url = %self.config.shown, "the connection to PostgreSQL was lost");
    }

    /// Waits until a connection breaks or does not answer.
    async fn until_lost(&self, pump: &mut Pump, line: &Line) {
        let mut looked = Instant::now();
        loop {
            // A doubted connection is tried at once, and a quiet one from time to time.
            tokio::select! {
                () = pump.ended() => return,
                () = self.doubted.notified() => {}
                () = tokio::time::sleep_until(looked + LOOK) => {}
            }
            if line.is_spent() {
                return;
            }
            let answer = timeout(self.config.response_limit, line.try_out()).await;
            looked = Instant::now();
            if !matches!(answer, Ok(Ok(()))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_away_is_asked_less_and_less_often_but_each_second() {
        let pauses: Vec<_> = pauses().take(7).map(|it| it.as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }
}
