//! PostgreSQL behind a proxy: connections that are cut or silent.

use dlock::LockManager;
use dlock_testkit::Proxy;

use super::env::Postgres;
use crate::cut::{Proxied, cases_of_cut_connections};

/// The requests are known by the functions that they call.
impl Proxied for Postgres {
    const ACQUIRE: &str = ".acquire(";
    const RENEW: &str = ".renew(";
    const RELEASE: &str = ".release(";

    fn port(&self) -> u16 {
        self.server.port()
    }

    async fn manager_over(&self, proxy: &Proxy) -> LockManager {
        let (port, database) = (proxy.port(), &self.database);
        let url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
        Self::builder().connect(url).await.unwrap()
    }

    async fn held(&self) -> (String, u64) {
        let client = self.client().await;
        let row = client.query_one("SELECT owner, fence FROM dlock.holder", &[]);
        let row = row.await.unwrap();
        (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap())
    }
}

cases_of_cut_connections! { Postgres }
