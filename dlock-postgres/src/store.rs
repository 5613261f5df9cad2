//! The store: each request is one statement, a call of a function of the schema.
//!
//! # Rules
//!
//! - **Safety.** The row of `turn` is the mutex of a key; the clock is read after it was locked. A crash undoes no
//!   commit that gives a lease.
//! - **Safety.** A transaction that depends on a lease locks its row `FOR KEY SHARE`. A request removes the row only if
//!   it gets it `FOR UPDATE` without waiting, so no process waits for a user's transaction.
//!   (`nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended`)
//! - **Safety.** A lease that was passed to a transaction (`Lease::records`) is not handed over inside the process: the
//!   transaction may last longer than the body.
//!   (`a_lease_that_was_passed_to_a_transaction_goes_back_to_the_store`)
//! - **Safety.** Behind a pooler, requests have no name: it may meet another client's statement.
//!   (`a_pooler_that_ignores_settings_is_found_out`) They take turns, and each answer names its request: `pooled.rs` says
//!   why.
//! - A lock that ends with a transaction is a lease of three seconds whose row the transaction deletes: the commit frees
//!   it, and until then the row counts as held. (`a_commit_ends_the_lock_at_once`)
//! - The connections are on a thread of the store, which no body can block. If a request has no answer, its connection
//!   is tried, and replaced if it does not answer either.
//! - A request that waits for the row of its key holds up no request for another key: `requests.rs`.
//!   (`a_locked_row_delays_no_other_key`)
//! - No request walks the dead versions of the rows of its key, which an open snapshot keeps: `keys.sql` says how.
//!   (`an_open_snapshot_lets_no_request_read_more`)
//! - A release can overtake a request on a connection that was given up, and is repeated then: `releases.rs` says why.
//! - One process removes unused rows, every ten minutes and in batches. Only the size of the tables depends on it.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dlock_net::Worker;
use dlock_runtime::{
    ConnectError, LockKey, LockMode,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, Holder, LockModes,
        LockStore, Queue, ReleaseRequest, Released, RenewBatch, Renewal, StoreError,
        StoreErrorKind, StoreHooks, StoreOptions, StoreProperties,
    },
};
use tokio::time::timeout;
use tokio_postgres::{Row, types::ToSql};

use crate::{
    calls::Call,
    config::{Config, Listen},
    errors,
    hints::Hints,
    releases::Releases,
    requests::Requests,
    schema::Schema,
    session::Session,
    sweep,
};

/// Locks in a schema of a PostgreSQL database.
///
/// A manager makes one from a URL, see [`Postgres`](crate::Postgres). It has two connections: one for requests and
/// messages, and one for renewals, which is on a thread of its own. While other sessions have locked rows of keys, and in a
/// sweep of old rows, it has a third one.
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
    requests: Arc<Requests>,
    releases: Arc<Releases>,
    renewals: Session,
    hints: Hints,
    config: Arc<Config>,
    worker: Worker,
}

impl PostgresStore {
    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL or an option is invalid.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Arc::new(Config::parse(url, options)?);
        let worker =
            Worker::start("dlock-postgres").map_err(|error| ConnectError::Unavailable {
                url: config.shown.clone(),
                reason: StoreError::new(StoreErrorKind::Unreachable, format!("no thread: {error}")),
            })?;
        let (hints, messages) = Hints::start(&worker, config.listen);
        // They wake waiters, which are where the requests come from. A server of their own is that of the renewals.
        let (with_requests, with_renewals) = match config.listen {
            Listen::Always => (None, Some(messages)),
            Listen::Direct | Listen::Never => (Some(messages), None),
        };
        let tasks = worker.tasks();
        let requests = Arc::new(Requests::new(config.clone(), tasks.clone(), with_requests));
        let (route, limit) = (config.messages.clone(), config.lock_limit());
        let renewals = Session::start(&tasks, config.clone(), route, with_renewals, limit);
        sweep::start(&tasks, requests.clone());
        Ok(Self {
            releases: Releases::new(requests.clone(), worker.handle().clone()),
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
        self.requests.usual().ready().await.map_err(unavailable)?;
        self.renewals.ready().await.map_err(unavailable)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.config).finish()
    }
}

impl LockStore for PostgresStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let owner = request.owner.to_string();
        let parameters: [&(dyn ToSql + Sync); 7] = [
            &request.key.as_str(),
            &owner,
            &milliseconds(request.ttl),
            &most(request.mode)?,
            &(request.queue == Queue::ForLease),
            &request.label,
            &request.function,
        ];
        let mut asked = self.requests.about(request.key);
        let rows = loop {
            let way = asked.way().await?;
            let asking = self.releases.asking(&owner, way.line());
            let answered = way.send(Call::Acquire, &parameters).await;
            let Some(answer) = asked.judge(answered) else {
                asking.settle();
                continue;
            };
            if answer.as_ref().err().is_none_or(StoreError::has_no_effect) {
                asking.settle();
            }
            break answer?;
        };
        let row = rows.first().ok_or_else(errors::no_row)?;
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
        let parameters: [&(dyn ToSql + Sync); 5] = [&keys, &owners, &ttls, &labels, &functions];
        // Their connection may be down alone: it can have another way to the server.
        let session = if !self.renewals.is_up() && self.requests.usual().is_up() {
            self.requests.usual()
        } else {
            &self.renewals
        };
        let asked = session.ask(Call::Renew, &parameters);
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
            let index = row.try_get::<_, i64>(0).ok();
            let place = index.and_then(|index| usize::try_from(index - 1).ok());
            match place.and_then(|place| answers.get_mut(place)) {
                Some(answer) => *answer = Ok(Renewal::Renewed),
                None => return all(bad_answer("an index that no renewal has")),
            }
        }
        answers
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let owner = request.owner.to_string();
        self.releases.release(request.key, &owner).await
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
        let owed = Owed {
            releases: self.releases.clone(),
            key: request.key.clone(),
            owner: request.owner.to_string(),
        };
        let first = owed.clone();
        let mut released = Box::pin(async move { first.release().await });
        // The first poll puts it on the connection, before all requests that come after this call.
        let mut context = Context::from_waker(Waker::noop());
        let polled = released.as_mut().poll(&mut context);
        let limit = self.config.response_limit;
        self.worker.handle().spawn(async move {
            let answered = match polled {
                Poll::Ready(answered) => answered.is_ok(),
                Poll::Pending => matches!(timeout(limit, released).await, Ok(Ok(_))),
            };
            // The connection may have been lost, or given up.
            if !answered {
                owed.release().await.ok();
            }
        });
        true
    }
}

/// A release without a caller that waits for it.
#[derive(Clone)]
struct Owed {
    releases: Arc<Releases>,
    key: LockKey,
    owner: String,
}

impl Owed {
    async fn release(&self) -> Result<Released, StoreError> {
        self.releases.release(&self.key, &self.owner).await
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

fn bad_answer(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, what)
}
