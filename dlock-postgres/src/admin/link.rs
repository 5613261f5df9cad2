//! A connection for operators, made when it is needed and again when it has broken.

use std::sync::Arc;

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{sync::Mutex, time::timeout};
use tokio_postgres::{
    Client, Error, Row, Socket,
    tls::{MakeTlsConnect, NoTls},
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    config::Config,
    dial::Tries,
    errors,
    schema::VERSION,
    trust::{self, Owner},
};

/// The settings of a reading connection for one transaction, for poolers. An earlier transaction may have been left open.
const READING: &str = "ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; \
                       SET LOCAL search_path = pg_catalog, pg_temp; \
                       SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Every transaction is read-only.
    Reading,
    /// Forced releases and migrations.
    Writing,
}

impl Purpose {
    /// The settings of the connection, whatever those of the role are. Poolers do not accept them.
    fn settings(self) -> &'static str {
        match self {
            // The statements read some rows by an index. A plan for tables of unknown size would read all.
            Self::Reading => {
                "-c search_path=pg_catalog,pg_temp \
                 -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=on \
                 -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"
            }
            Self::Writing => {
                "-c search_path=pg_catalog,pg_temp \
                 -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off"
            }
        }
    }
}

/// A new connection.
pub(super) struct Connected {
    pub(super) client: Client,
    /// `true` if a pooler has refused the settings of the connection.
    pub(super) is_pooled: bool,
    /// Locked for a transaction.
    turn: Mutex<()>,
}

impl Connected {
    /// Sends a statement that only reads, and returns its rows.
    pub(super) async fn read(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        if !self.is_pooled {
            return self.client.query_typed(statement, parameters).await;
        }
        let _turn = self.turn.lock().await;
        self.client.batch_execute(READING).await?;
        let rows = self.client.query_typed(statement, parameters).await;
        self.client.batch_execute("ROLLBACK").await?;
        rows
    }

    /// Asks whose the schema is.
    pub(super) async fn owner(&self, config: &Config) -> Result<Option<Owner>, StoreError> {
        let (schema, statement) = (&config.schema, trust::statement());
        let name = schema.name();
        let rows = within(config, self.read(&statement, &[(&name, Type::TEXT)])).await?;
        let row = rows.first().ok_or_else(|| unreadable("no owner"))?;
        Owner::of(row, schema)
    }

    /// Refuses a schema that is missing, or in which nothing may be called or read.
    pub(super) async fn trust(&self, config: &Config) -> Result<(), StoreError> {
        Owner::trusted(self.owner(config).await?, &config.schema).map(drop)
    }
}

/// Connects to the first host that is a primary server, otherwise to the first standby. Each host has the time limit of
/// `config`. The bytes are moved by a task of the current runtime, which ends when the client is dropped.
pub(super) async fn connect(config: &Config, purpose: Purpose) -> Result<Connected, StoreError> {
    let hosts = &config.requests.hosts;
    let (mut tries, mut standby) = (Tries::new(config.connect_limit), None);
    for host in hosts {
        // Boxed: it is large, and part of the futures of all commands.
        let connecting = Box::pin(connect_to(config, host, purpose));
        let Some(connected) = tries.connect(host, connecting).await else {
            continue;
        };
        if hosts.len() == 1 || !is_standby(config, &connected.client).await {
            return Ok(connected);
        }
        standby.get_or_insert(connected);
    }
    standby.ok_or_else(|| match &config.requests.tls {
        Some(tls) => tls.failed(tries.failed()),
        None => tries.failed(),
    })
}

async fn is_standby(config: &Config, client: &Client) -> bool {
    let asked = client.query_typed_one("SELECT pg_is_in_recovery()", &[]);
    let answer = within(config, asked).await;
    answer.is_ok_and(|row| row.try_get(0).unwrap_or_default())
}

async fn connect_to(
    config: &Config,
    host: &tokio_postgres::Config,
    purpose: Purpose,
) -> Result<Connected, StoreError> {
    let mut is_pooled = false;
    loop {
        let mut target = host.clone();
        if !is_pooled {
            let own = target.get_options().unwrap_or_default();
            target.options(format!("{} {own}", purpose.settings()));
        }
        let opened = match &config.requests.tls {
            Some(tls) => open(&target, MakeRustlsConnect::clone(&tls.get())).await,
            None => open(&target, NoTls).await,
        };
        match opened {
            Ok(client) => {
                return Ok(Connected {
                    client,
                    is_pooled,
                    turn: Mutex::default(),
                });
            }
            Err(error) if !is_pooled && errors::refuses_settings(&error) => is_pooled = true,
            Err(error) => return Err(errors::of_connecting(&error, host, config)),
        }
    }
}

async fn open<T>(target: &tokio_postgres::Config, tls: T) -> Result<Client, Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = target.connect(tls).await?;
    // Its error is also that of the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// The connection of an inspector, which only reads.
pub(super) struct Link {
    config: Config,
    /// `false` if a schema of any version will do, and a standby.
    checks: bool,
    connected: Mutex<Option<Arc<Connected>>>,
}

impl Link {
    pub(super) fn new(config: Config, checks: bool) -> Self {
        Self {
            config,
            checks,
            connected: Mutex::default(),
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the connection, after making it if there is none.
    pub(super) async fn connected(&self) -> Result<Arc<Connected>, StoreError> {
        let mut slot = self.connected.lock().await;
        if let Some(known) = slot.as_ref().filter(|it| !it.client.is_closed()) {
            return Ok(known.clone());
        }
        *slot = None;
        let made = Arc::new(connect(&self.config, Purpose::Reading).await?);
        if self.checks {
            self.check(&made).await.map_err(StoreError::unsent)?;
        }
        Ok(slot.insert(made).clone())
    }

    /// Sends one statement, whose parts `{schema}` are filled in, and returns its rows.
    pub(super) async fn ask(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        let connected = self.connected().await?;
        let answer = self.ask_on(&connected, statement, parameters).await;
        if let Err(error) = &answer
            && matches!(
                error.kind(),
                StoreErrorKind::TimedOut | StoreErrorKind::Disconnected
            )
        {
            *self.connected.lock().await = None;
        }
        answer
    }

    async fn ask_on(
        &self,
        connected: &Connected,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.config.schema.fill(statement);
        within(&self.config, connected.read(&statement, parameters)).await
    }

    /// Checks that the tables are there, are to be trusted, are of this version, and can be read.
    async fn check(&self, connected: &Connected) -> Result<(), StoreError> {
        connected.trust(&self.config).await?;
        let rows = self.ask_on(connected, errors::STATE, &[]).await?;
        let row = rows.first().ok_or_else(|| unreadable("no version"))?;
        let (schema, version) = (&self.config.schema, errors::version(row)?);
        // The tables of other versions are others.
        if version != VERSION {
            return Err(errors::of_version(schema, version));
        }
        errors::check(row)
    }
}

/// Waits for the answer of a request, but not longer than `config` allows.
pub(super) async fn within<T>(
    config: &Config,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    let limit = config.response_limit;
    match timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(errors::of_request(&error, config)),
        Err(_) => Err(StoreError::timed_out(limit)),
    }
}

/// Returns a field of a row.
pub(super) fn field<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
    name: &str,
) -> Result<T, StoreError> {
    let value = row.try_get(index);
    value.map_err(|error| unreadable(&format!("`{name}`: {error}")))
}

pub(super) fn unreadable(reason: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, reason)
}
