//! The store: each request is one statement, a call of a function of the schema.
//!
//! # Rules
//!
//! - **Safety.** The row of `lock` is the mutex of a key; the clock is read after it was locked. A crash undoes no
//!   commit that gives a lease.
//! - **Safety.** A transaction that depends on a lease locks its row `FOR KEY SHARE`. A request removes the row only if
//!   it gets it `FOR UPDATE` without waiting, so no process waits for a user's transaction.
//!   (`nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended`)
//! - **Safety.** A lease that was passed to a transaction (`Lease::records`) is not handed over inside the process: the
//!   transaction may last longer than the body.
//!   (`a_lease_that_was_passed_to_a_transaction_goes_back_to_the_store`)
//! - A statement about a lease has no name: behind a pooler, a name may meet another client's statement.
//! - A lock that ends with a transaction is a lease of three seconds whose row the transaction deletes: the commit frees
//!   it, and until then the row counts as held. (`a_commit_ends_the_lock_at_once`)
//! - The two connections are on a thread of the store. If a request has no answer, its connection is tried, and replaced
//!   if it does not answer either.
//! - Unused rows are removed every ten minutes, in batches. Only the size of the tables depends on it.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use dlock_runtime::{
    ConnectError, LockMode,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, Holder, LockModes,
        LockStore, Queue, ReleaseRequest, Released, RenewBatch, Renewal, StoreError,
        StoreErrorKind, StoreHooks, StoreOptions, StoreProperties,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_postgres::{Row, types::Type};

use crate::{
    config::Config, hints::Hints, schema::Schema, session::Session, sweep, worker::Worker,
};

/// Locks in a schema of a PostgreSQL database.
///
/// A manager makes one from a URL, see [`Postgres`](crate::Postgres). It has a thread of its own with two connections:
/// one for requests, and one for renewals and messages.
///
/// ```no_run
/// use dlock_postgres::PostgresStore;
/// use dlock_runtime::{LockManager, store::StoreOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::open("postgres://shop@db.internal/shop", &StoreOptions::default())?;
/// let manager = LockManager::builder().build_with_store(store)?;
/// # Ok(()) }
/// ```
pub struct PostgresStore {
    requests: Arc<Session>,
    renewals: Session,
    hints: Hints,
    statements: Arc<Statements>,
    config: Arc<Config>,
    worker: Worker,
}

struct Statements {
    acquire: String,
    release: String,
    renew: String,
}

impl PostgresStore {
    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL or an option is invalid.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Arc::new(Config::parse(url, options)?);
        let worker = Worker::start().map_err(|error| ConnectError::Unavailable {
            url: config.shown.clone(),
            reason: StoreError::new(StoreErrorKind::Unreachable, format!("no thread: {error}")),
        })?;
        let (tell, news) = mpsc::unbounded_channel();
        let requests = Session::start(&worker, config.clone(), config.requests.clone(), None);
        let requests = Arc::new(requests);
        let messages = config.messages.clone();
        let renewals = Session::start(&worker, config.clone(), messages, Some(tell));
        let hints = Hints::start(&worker, config.listen, news);
        sweep::start(&worker, requests.clone(), &config.schema);
        Ok(Self {
            statements: Arc::new(Statements::of(&config.schema)),
            requests,
            renewals,
            hints,
            config,
            worker,
        })
    }

    /// Returns the schema with the locks.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.config.schema
    }

    /// Waits until the server answers.
    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let unavailable = |reason| ConnectError::Unavailable {
            url: self.config.shown.clone(),
            reason,
        };
        self.requests.ready().await.map_err(unavailable)?;
        self.renewals.ready().await.map_err(unavailable)
    }
}

impl Statements {
    fn of(schema: &Schema) -> Self {
        let fill = |statement| schema.fill(statement);
        Self {
            acquire: fill("SELECT * FROM {schema}.acquire($1, $2, $3, $4, $5, $6, $7)"),
            release: fill("SELECT {schema}.release($1, $2)"),
            renew: fill("SELECT {schema}.renew($1, $2, $3, $4, $5)"),
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.config).finish()
    }
}

impl LockStore for PostgresStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
            (&request.key.as_str(), Type::TEXT),
            (&request.owner.to_string(), Type::TEXT),
            (&milliseconds(request.ttl), Type::INT8),
            (&most(request.mode)?, Type::INT4),
            (&(request.queue == Queue::ForLease), Type::BOOL),
            (&request.label, Type::TEXT),
            (&request.function, Type::TEXT),
        ];
        let rows = self
            .requests
            .ask(&self.statements.acquire, &parameters)
            .await?;
        let row = rows.first().ok_or_else(no_answer)?;
        answer_to_acquire(row).map_err(|error| bad_answer(&error))
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let requests = batch.requests;
        let all = |error: StoreError| vec![Err(error); requests.len()];
        let keys: Vec<_> = requests.iter().map(|it| it.key.as_str()).collect();
        let owners: Vec<_> = requests.iter().map(|it| it.owner.to_string()).collect();
        let ttls: Vec<_> = requests.iter().map(|it| milliseconds(it.ttl)).collect();
        let labels: Vec<_> = requests.iter().map(|it| it.label).collect();
        let functions: Vec<_> = requests.iter().map(|it| it.function).collect();
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
            (&keys, Type::TEXT_ARRAY),
            (&owners, Type::TEXT_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&functions, Type::TEXT_ARRAY),
        ];
        // Their connection may be down alone: it can have another way to the server.
        let session = if !self.renewals.is_up() && self.requests.is_up() {
            &*self.requests
        } else {
            &self.renewals
        };
        let asked = session.ask(&self.statements.renew, &parameters);
        let answered = match batch.limit {
            Some(limit) => match timeout(limit, asked).await {
                Ok(answered) => answered,
                Err(_) => return all(StoreError::timed_out(limit)),
            },
            None => asked.await,
        };
        let rows = match answered {
            Ok(rows) => rows,
            Err(error) => return all(error),
        };
        let mut answers = vec![Ok(Renewal::NotOwner); requests.len()];
        for row in &rows {
            let held = row.try_get::<_, i64>(0).map(usize::try_from);
            let Ok(Ok(index)) = held else {
                return all(bad_answer("no index of a renewal"));
            };
            match answers.get_mut(index.wrapping_sub(1)) {
                Some(answer) => *answer = Ok(Renewal::Renewed),
                None => return all(bad_answer("an index beyond the renewals")),
            }
        }
        answers
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let key = request.key.as_str();
        release(
            &self.requests,
            &self.statements.release,
            key,
            &request.owner.to_string(),
        )
        .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .modes(LockModes::ALL)
            .hooks(self)
            .extension(self)
    }
}

impl StoreHooks for PostgresStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.hints.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.hints.detach(client);
        Box::pin(std::future::ready(()))
    }

    /// The thread of the store outlives the runtimes of its users.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let (session, statements) = (self.requests.clone(), self.statements.clone());
        let (key, owner) = (request.key.clone(), request.owner.to_string());
        let mut released =
            Box::pin(
                async move { release(&session, &statements.release, key.as_str(), &owner).await },
            );
        // The first poll puts it on the connection, before all requests that come after this call.
        let mut context = Context::from_waker(Waker::noop());
        if released.as_mut().poll(&mut context).is_pending() {
            self.worker.handle().spawn(released);
        }
        true
    }
}

async fn release(
    session: &Session,
    statement: &str,
    key: &str,
    owner: &str,
) -> Result<Released, StoreError> {
    let rows = session
        .ask(statement, &[(&key, Type::TEXT), (&owner, Type::TEXT)])
        .await?;
    let was_held = rows.first().map(|row| row.try_get(0));
    match was_held {
        Some(Ok(true)) => Ok(Released::WasHeld),
        Some(Ok(false)) => Ok(Released::WasGone),
        _ => Err(no_answer()),
    }
}

fn answer_to_acquire(row: &Row) -> Result<AcquireOutcome, String> {
    let text = |error: tokio_postgres::Error| error.to_string();
    let number = |name: &str| -> Result<Option<u64>, String> {
        let found: Option<i64> = row.try_get(name).map_err(text)?;
        found
            .map(u64::try_from)
            .transpose()
            .map_err(|_| format!("`{name}` is negative"))
    };
    let fence = number("fence")?.unwrap_or_default();
    if row.try_get("is_granted").map_err(text)? {
        return Ok(AcquireOutcome::granted(fence));
    }
    let mut holder = Holder::new(number("last_fence")?.unwrap_or_default())
        .fence(fence)
        .others(number("others")?.unwrap_or_default());
    holder.label = row.try_get("label").map_err(text)?;
    holder.function = row.try_get("function").map_err(text)?;
    holder.position = number("place")?;
    holder.ttl = number("rest_ms")?.map(Duration::from_millis);
    Ok(AcquireOutcome::busy(holder))
}

/// The mode as the functions know it: 0 for exclusive, -1 for shared, otherwise the number of permits.
fn most(mode: LockMode) -> Result<i32, StoreError> {
    match mode {
        LockMode::Exclusive => Ok(0),
        LockMode::Shared => Ok(-1),
        LockMode::Permits(most) => Ok(i32::try_from(most).unwrap_or(i32::MAX)),
        other => {
            let text = format!("PostgreSQL has no locks with `{other}`");
            Err(StoreError::new(StoreErrorKind::Unsupported, text).unsent())
        }
    }
}

/// A fraction of a millisecond is not cut off.
fn milliseconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}

fn no_answer() -> StoreError {
    bad_answer("the function returned no row")
}

fn bad_answer(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, what)
}
