//! The URLs `postgres://…`, for the table of URL schemes of a manager.

use dlock_runtime::{
    ConnectError,
    store::{StoreOptions, StoreScheme},
};

use crate::store::PostgresStore;

/// The scheme of URLs for PostgreSQL. Register it under the names that your URLs have.
///
/// ```
/// use dlock_postgres::Postgres;
/// use dlock_runtime::LockManager;
///
/// let builder = LockManager::builder()
///     .scheme("postgres", Postgres)
///     .scheme("postgresql", Postgres);
/// # drop(builder);
/// ```
///
/// The URL is that of libpq, `postgres://user:password@host:5432/database?option=value`, with the options of
/// [`tokio_postgres::Config`] and these. Of several
/// hosts, `postgres://shop@db-1,db-2/shop`, a manager uses the first one that answers and is not a standby. It tries them
/// in this order again when it has lost that one.
///
/// | option | meaning |
/// |---|---|
/// | `schema=locks` | the schema of the locks; without it, the manager's [namespace](dlock_runtime::LockManagerBuilder::namespace), which is `dlock` |
/// | `listen=db:5432` | the server for messages and renewals, if the host of the URL is a pooler |
/// | `listen=off` | no messages: waiters poll |
/// | `sslmode=require` | TLS; the server's certificate is verified. Without it, the connection is not encrypted |
/// | `sslrootcert=ca.pem` | trust only the authorities in this file, and not those of the machine |
/// | `sslcert=…`, `sslkey=…` | the client's certificate and its key |
#[derive(Clone, Copy, Debug, Default)]
pub struct Postgres;

impl StoreScheme for Postgres {
    type Store = PostgresStore;

    fn open(&self, url: &str, options: &StoreOptions) -> Result<PostgresStore, ConnectError> {
        PostgresStore::open(url, options)
    }

    async fn ready(&self, store: &PostgresStore, _: &StoreOptions) -> Result<(), ConnectError> {
        store.ready().await
    }
}
