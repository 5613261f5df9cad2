//! The stores that the command knows. A store is a row here, with what is different about its URLs and its inspector; everything
//! else is the same for any [`Inspect`].

use std::{borrow::Cow, env, future::ready, pin::Pin, sync::Arc};

use dlock::{ConnectError, LockManagerBuilder, store::redis::CredentialsProvider};
use dlock_admin::{Inspect, Inspector, RedisJudge, doctor::Judge};
#[cfg(feature = "etcd")]
use dlock_etcd::admin::EtcdInspector;
use dlock_postgres::admin::PostgresInspector;
#[cfg(feature = "zookeeper")]
use dlock_zookeeper::admin::ZooKeeperInspector;
use url::form_urlencoded;

use crate::{
    exit::{Exit, Failure},
    global::Global,
    login,
};

/// The inspector, or the reason why there is none. A mistake in the arguments is a failure of the command.
pub(crate) type Opening<'a> = Pin<
    Box<dyn Future<Output = Result<Result<Arc<dyn Inspect>, ConnectError>, Failure>> + Send + 'a>,
>;

/// The properties of one store.
pub(crate) trait Store: Sync {
    /// Returns the name for messages. In lower case, it is that of the feature which the store needs.
    fn name(&self) -> &'static str;

    /// Reads user and password from the environment, if the URL has none.
    fn read_login(&self, global: &mut Global) -> Result<(), Failure>;

    /// Connects, for commands that only inspect. The default is for a store that this program was built without.
    fn connect<'a>(&self, _: &'a Global) -> Opening<'a> {
        Box::pin(ready(Err(self.missing())))
    }

    /// Connects, also if the store lacks what locks need, or does not answer.
    fn examine<'a>(&self, global: &'a Global) -> Opening<'a> {
        self.connect(global)
    }

    /// Adds the store to the builder for commands that acquire locks. The default is for a store that the builder knows, and for
    /// one that this program was built without.
    fn register(&self, builder: LockManagerBuilder) -> LockManagerBuilder {
        builder
    }

    /// Returns `true` if this program was built with the store.
    fn is_built(&self) -> bool {
        true
    }

    /// Returns the namespace in a URL, of which `place` is before the query.
    fn namespace<'a>(&self, _place: &'a str, _query: &'a str) -> Option<Cow<'a, str>> {
        None
    }

    /// Returns the checks of the servers, if the arguments say more about them than an inspector knows.
    fn judge(&self, _: &Global) -> Result<Option<Arc<dyn Judge>>, Failure> {
        Ok(None)
    }

    /// The failure of a URL whose store this program was built without.
    fn missing(&self) -> Failure {
        let (store, feature) = (self.name(), self.name().to_lowercase());
        let text = format!(
            "this `dlock` was built without {store}. Install one with it, in a checkout of the repository: cargo install \
             --path dlock-cli --locked --features {feature}"
        );
        Failure::new(Exit::Usage, text)
    }
}

/// All of them.
pub(crate) const STORES: [&dyn Store; 4] = [&Redis, &Postgres, &Etcd, &ZooKeeper];

/// Returns the store of a URL. One with an unknown scheme is refused as one for Redis.
pub(crate) fn of_url(url: &str) -> &'static dyn Store {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "postgres" | "postgresql" => &Postgres,
        "etcd" => &Etcd,
        "zookeeper" => &ZooKeeper,
        _ => &Redis,
    }
}

fn opened<I: Inspect + 'static>(inspector: I) -> Arc<dyn Inspect> {
    Arc::new(inspector)
}

/// Also Valkey.
struct Redis;

impl Store for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn read_login(&self, global: &mut Global) -> Result<(), Failure> {
        global.login = CredentialsProvider::from_env(&global.url)?;
        Ok(())
    }

    fn connect<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move { Ok(Inspector::connect(global.config()).await.map(opened)) })
    }

    fn judge(&self, global: &Global) -> Result<Option<Arc<dyn Judge>>, Failure> {
        let mut judge = RedisJudge::of(&global.config())?;
        let named = env::var("DLOCK_USER").ok().filter(|it| !it.is_empty());
        if let Some(user) = named {
            judge = judge.user(user);
        }
        Ok(Some(Arc::new(judge)))
    }
}

struct Postgres;

impl Store for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn read_login(&self, global: &mut Global) -> Result<(), Failure> {
        global.url = login::of_environment(&global.url)?;
        Ok(())
    }

    fn connect<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            let inspector = PostgresInspector::connect(&global.url, &options).await;
            Ok(inspector.map(opened))
        })
    }

    fn examine<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            let inspector = PostgresInspector::connect_unchecked(&global.url, &options).await;
            Ok(inspector.map(opened))
        })
    }

    fn register(&self, builder: LockManagerBuilder) -> LockManagerBuilder {
        use dlock_postgres::Postgres;

        let builder = builder.scheme("postgres", Postgres);
        builder.scheme("postgresql", Postgres)
    }

    fn namespace<'a>(&self, _: &'a str, query: &'a str) -> Option<Cow<'a, str>> {
        let mut fields = form_urlencoded::parse(query.as_bytes());
        fields.find(|(name, _)| name == "schema").map(|it| it.1)
    }
}

struct Etcd;

impl Store for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn read_login(&self, global: &mut Global) -> Result<(), Failure> {
        global.url = login::before_hosts(&global.url)?;
        Ok(())
    }

    #[cfg(feature = "etcd")]
    fn connect<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            let inspector = EtcdInspector::connect(&global.url, &options).await;
            Ok(inspector.map(opened))
        })
    }

    #[cfg(feature = "etcd")]
    fn examine<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            Ok(EtcdInspector::open(&global.url, &options).map(opened))
        })
    }

    #[cfg(feature = "etcd")]
    fn register(&self, builder: LockManagerBuilder) -> LockManagerBuilder {
        builder.scheme("etcd", dlock_etcd::Etcd)
    }

    fn is_built(&self) -> bool {
        cfg!(feature = "etcd")
    }
}

struct ZooKeeper;

impl Store for ZooKeeper {
    fn name(&self) -> &'static str {
        "ZooKeeper"
    }

    fn read_login(&self, global: &mut Global) -> Result<(), Failure> {
        global.url = login::before_hosts(&global.url)?;
        Ok(())
    }

    #[cfg(feature = "zookeeper")]
    fn connect<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            let inspector = ZooKeeperInspector::connect(&global.url, &options).await;
            Ok(inspector.map(opened))
        })
    }

    #[cfg(feature = "zookeeper")]
    fn examine<'a>(&self, global: &'a Global) -> Opening<'a> {
        Box::pin(async move {
            let options = global.options()?;
            Ok(ZooKeeperInspector::open(&global.url, &options).map(opened))
        })
    }

    #[cfg(feature = "zookeeper")]
    fn register(&self, builder: LockManagerBuilder) -> LockManagerBuilder {
        builder.scheme("zookeeper", dlock_zookeeper::ZooKeeper)
    }

    fn is_built(&self) -> bool {
        cfg!(feature = "zookeeper")
    }

    fn namespace<'a>(&self, place: &'a str, _: &'a str) -> Option<Cow<'a, str>> {
        // A password can contain a slash.
        let hosts = place.rsplit(['@']).next().unwrap_or_default();
        let hosts = hosts.split_once("://").map_or(hosts, |(_, rest)| rest);
        hosts.split_once('/').map(|(_, path)| path.into())
    }
}
