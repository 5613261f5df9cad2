//! Connects commands to the store in the arguments.

use std::{sync::Arc, time::Duration};

use dlock::{
    ConnectError, LockManager, LockManagerBuilder,
    admin::{Inspect, Inspector},
    store::{
        StoreOptions,
        redis::{CredentialsProvider, RedisConfig},
    },
};
#[cfg(feature = "etcd")]
use dlock_etcd::{Etcd, admin::EtcdInspector};
use dlock_postgres::{Postgres, admin::PostgresInspector};
#[cfg(feature = "zookeeper")]
use dlock_zookeeper::{ZooKeeper, admin::ZooKeeperInspector};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    login,
};

/// The time limit of a request to another store than Redis. An operator prefers a late answer to none.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store that the command knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// Also Valkey, and a URL with an unknown scheme, which is refused as one for Redis.
    Redis,
    Postgres,
    Etcd,
    ZooKeeper,
}

impl Product {
    fn of(url: &str) -> Self {
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Self::Postgres,
            "etcd" => Self::Etcd,
            "zookeeper" => Self::ZooKeeper,
            _ => Self::Redis,
        }
    }
}

/// The failure of a URL whose store this program was built without.
fn missing(store: &str, feature: &str) -> Failure {
    let text = format!(
        "this `dlock` was built without {store}. Install one with it, in a checkout of the repository: cargo install \
         --path dlock-cli --locked --features {feature}"
    );
    Failure::new(Exit::Usage, text)
}

impl Global {
    /// Reads user and password from the environment, if the URL has none.
    pub(crate) fn read_login(&mut self) -> Result<(), Failure> {
        match self.product() {
            Product::Redis => self.login = CredentialsProvider::from_env(&self.url)?,
            Product::Postgres => self.url = login::of_environment(&self.url)?,
            Product::Etcd | Product::ZooKeeper => self.url = login::before_hosts(&self.url)?,
        }
        Ok(())
    }

    /// Returns the store of the URL.
    pub(crate) fn product(&self) -> Product {
        Product::of(&self.url)
    }

    /// Connects to the store, for commands that only inspect it.
    pub(crate) async fn inspector(&self) -> Result<Arc<dyn Inspect>, Failure> {
        Ok(match self.product() {
            Product::Redis => Arc::new(Inspector::connect(self.config()).await?),
            Product::Postgres => {
                let options = self.options()?;
                Arc::new(PostgresInspector::connect(&self.url, &options).await?)
            }
            #[cfg(feature = "etcd")]
            Product::Etcd => Arc::new(EtcdInspector::connect(&self.url, &self.options()?).await?),
            #[cfg(not(feature = "etcd"))]
            Product::Etcd => return Err(missing("etcd", "etcd")),
            #[cfg(feature = "zookeeper")]
            Product::ZooKeeper => {
                Arc::new(ZooKeeperInspector::connect(&self.url, &self.options()?).await?)
            }
            #[cfg(not(feature = "zookeeper"))]
            Product::ZooKeeper => return Err(missing("ZooKeeper", "zookeeper")),
        })
    }

    /// Connects to the store, also if it lacks what locks need, or does not answer.
    pub(crate) async fn examiner(&self) -> Result<Result<Arc<dyn Inspect>, ConnectError>, Failure> {
        let connected: Result<Arc<dyn Inspect>, ConnectError> = match self.product() {
            Product::Redis => {
                let inspector = Inspector::connect(self.config()).await;
                inspector.map(|it| Arc::new(it) as Arc<dyn Inspect>)
            }
            Product::Postgres => {
                let options = self.options()?;
                let inspector = PostgresInspector::connect_unchecked(&self.url, &options).await;
                inspector.map(|it| Arc::new(it) as Arc<dyn Inspect>)
            }
            #[cfg(feature = "etcd")]
            Product::Etcd => {
                let inspector = EtcdInspector::open(&self.url, &self.options()?);
                inspector.map(|it| Arc::new(it) as Arc<dyn Inspect>)
            }
            #[cfg(not(feature = "etcd"))]
            Product::Etcd => return Err(missing("etcd", "etcd")),
            #[cfg(feature = "zookeeper")]
            Product::ZooKeeper => {
                let inspector = ZooKeeperInspector::open(&self.url, &self.options()?);
                inspector.map(|it| Arc::new(it) as Arc<dyn Inspect>)
            }
            #[cfg(not(feature = "zookeeper"))]
            Product::ZooKeeper => return Err(missing("ZooKeeper", "zookeeper")),
        };
        Ok(connected)
    }

    /// Returns the options for stores other than Redis.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        if self.raw_keys {
            let name = match self.product() {
                Product::Etcd => "etcd",
                Product::ZooKeeper => "ZooKeeper",
                _ => "PostgreSQL",
            };
            let text = format!("invalid option `--raw-keys`: {name} has no raw keys. Remove it");
            return Err(Failure::new(Exit::Usage, text));
        }
        let mut options = StoreOptions::default();
        options.namespace.clone_from(&self.namespace);
        options.response_timeout = PATIENCE;
        Ok(options)
    }

    /// Returns the configuration for commands that only inspect Redis.
    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig::new(&self.url)
            .namespace(self.namespace.clone())
            .raw_keys(self.raw_keys)
            .credentials(self.login.clone())
    }

    /// Returns the builder for commands that acquire locks.
    pub(crate) fn builder(&self) -> Result<LockManagerBuilder, Failure> {
        if cfg!(not(feature = "etcd")) && self.product() == Product::Etcd {
            return Err(missing("etcd", "etcd"));
        }
        if cfg!(not(feature = "zookeeper")) && self.product() == Product::ZooKeeper {
            return Err(missing("ZooKeeper", "zookeeper"));
        }
        let builder = LockManager::builder()
            .application("dlock")
            .scheme("postgres", Postgres)
            .scheme("postgresql", Postgres)
            .namespace(&self.namespace)
            .raw_keys(self.raw_keys);
        #[cfg(feature = "etcd")]
        let builder = builder.scheme("etcd", Etcd);
        #[cfg(feature = "zookeeper")]
        let builder = builder.scheme("zookeeper", ZooKeeper);
        Ok(match &self.login {
            Some(login) => builder.credentials_provider(login.clone()),
            None => builder,
        })
    }

    /// Returns a connected manager.
    pub(crate) async fn manager(&self) -> Result<LockManager, Failure> {
        Ok(self.builder()?.connect(&self.url).await?)
    }
}
