//! Managers over stores of other crates, selected by the URL's scheme.

use super::LockManagerBuilder;
use crate::store::StoreScheme;

impl LockManagerBuilder {
    /// Registers a store for URLs with the scheme `name`, such as `mongodb` for `mongodb://…`.
    ///
    /// [`connect`](Self::connect), [`connect_lazy`](Self::connect_lazy) and
    /// [`connect_env`](Self::connect_env) then accept these URLs. Schemes are case-insensitive. If `name` is
    /// not a valid URL scheme, connecting fails with [`InvalidOption`](crate::ConnectError::InvalidOption).
    ///
    /// A later registration replaces an earlier one with the same name, including dlock's own schemes. See
    /// [`StoreScheme`] for an example.
    ///
    /// Options that only a Redis server supports are refused for these URLs:
    /// [`min_replicas`](Self::min_replicas), [`raw_keys`](Self::raw_keys), `credentials` and `tls`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManagerBuilder, store::StoreScheme};
    ///
    /// fn with_mongodb(builder: LockManagerBuilder, scheme: impl StoreScheme) -> LockManagerBuilder {
    ///     builder.scheme("mongodb", scheme)
    /// }
    /// # let _ = |builder, scheme: Never| with_mongodb(builder, scheme);
    /// # enum Never {}
    /// # impl StoreScheme for Never {
    /// #     type Store = dlock::store::memory::MemoryStore;
    /// #     fn open(&self, _: &str, _: &dlock::store::StoreOptions) -> Result<Self::Store, dlock::ConnectError> { match *self {} }
    /// # }
    /// ```
    pub fn scheme(mut self, name: impl Into<String>, scheme: impl StoreScheme) -> Self {
        self.schemes.register(name.into(), scheme);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use super::*;
    #[cfg(feature = "tls")]
    use crate::store::redis::Tls;
    use crate::{
        api::manager::LockManager,
        error::ConnectError,
        store::{StoreError, StoreErrorKind, StoreOptions, memory::MemoryStore},
    };

    /// A memory store for each name, as in `shelf://name`.
    #[derive(Clone, Default)]
    struct Shelf(Arc<Content>);

    #[derive(Default)]
    struct Content {
        stores: Mutex<HashMap<String, MemoryStore>>,
        waits: AtomicUsize,
        options: Mutex<Option<StoreOptions>>,
    }

    impl StoreScheme for Shelf {
        type Store = MemoryStore;

        fn open(&self, url: &str, options: &StoreOptions) -> Result<MemoryStore, ConnectError> {
            *self.0.options.lock().unwrap() = Some(options.clone());
            let (_, name) = url.split_once("://").unwrap();
            if name.is_empty() {
                return Err(ConnectError::InvalidUrl {
                    url: "shelf://".to_owned(),
                    reason: "it has no name".to_owned(),
                });
            }
            let mut stores = self.0.stores.lock().unwrap();
            Ok(stores.entry(name.to_owned()).or_default().clone())
        }

        async fn ready(&self, _: &MemoryStore, _: &StoreOptions) -> Result<(), ConnectError> {
            if self.0.waits.fetch_add(1, Ordering::Relaxed) < 2 {
                return Ok(());
            }
            Err(ConnectError::Unavailable {
                url: "shelf://".to_owned(),
                reason: StoreError::new(StoreErrorKind::Unreachable, "it is too high"),
            })
        }
    }

    #[tokio::test]
    async fn a_url_leads_to_the_store_of_its_scheme() {
        let shelf = Shelf::default();
        let builder = LockManager::builder().scheme("shelf", shelf.clone());
        let one = builder.clone().connect("shelf://a").await.unwrap();
        let same = builder.clone().connect("SHELF://a").await.unwrap();
        let other = builder.clone().connect_lazy("shelf://b").unwrap();
        assert_eq!(
            shelf.0.waits.load(Ordering::Relaxed),
            2,
            "lazily none waits"
        );
        let guard = one.lock("k").acquire().await.unwrap();
        assert!(same.lock("k").try_acquire().await.unwrap().is_none());
        assert!(other.lock("k").try_acquire().await.unwrap().is_some());
        guard.release().await.unwrap();

        let absent = builder.connect("shelf://a").await;
        assert!(
            matches!(absent, Err(ConnectError::Unavailable { .. })),
            "{absent:?}"
        );
    }

    #[tokio::test]
    async fn a_scheme_gets_the_options_of_the_builder() {
        let shelf = Shelf::default();
        let builder = LockManager::builder()
            .application("billing")
            .namespace("own")
            .response_timeout(Duration::from_millis(70))
            .connect_timeout(Duration::from_millis(80))
            .scheme("shelf", shelf.clone());
        drop(builder.connect_lazy("shelf://a").unwrap());
        let options = shelf.0.options.lock().unwrap().clone().unwrap();
        assert!(options.label.starts_with("billing@"), "{options:?}");
        assert_eq!(options.namespace, "own");
        assert_eq!(options.response_timeout, Duration::from_millis(70));
        assert_eq!(options.connect_timeout, Duration::from_millis(80));
    }

    #[tokio::test]
    async fn what_a_scheme_cannot_do_is_refused() {
        let builder = LockManager::builder().scheme("shelf", Shelf::default());
        let refused = builder.clone().connect("shelf://").await;
        assert!(
            matches!(refused, Err(ConnectError::InvalidUrl { .. })),
            "{refused:?}"
        );
        let cases = [
            (builder.clone().min_replicas(1), "min_replicas"),
            (builder.clone().raw_keys(true), "raw_keys"),
            (builder.clone().ttl(Duration::ZERO), "ttl"),
            #[cfg(feature = "redis")]
            (
                builder.clone().credentials(async || Err("not asked")),
                "credentials",
            ),
            #[cfg(feature = "tls")]
            (builder.clone().tls(Tls::new()), "tls"),
        ];
        for (builder, name) in cases {
            for refused in [
                builder.clone().connect("shelf://a").await,
                builder.connect_lazy("shelf://a"),
            ] {
                assert!(
                    matches!(&refused, Err(ConnectError::InvalidOption { option, .. }) if *option == name),
                    "{refused:?}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_never_ready_is_waited_for_within_the_limit() {
        struct Never;
        impl StoreScheme for Never {
            type Store = MemoryStore;

            fn open(&self, _: &str, _: &StoreOptions) -> Result<MemoryStore, ConnectError> {
                Ok(MemoryStore::new())
            }

            async fn ready(&self, _: &MemoryStore, _: &StoreOptions) -> Result<(), ConnectError> {
                std::future::pending().await
            }
        }

        let limit = Duration::from_secs(7);
        let builder = LockManager::builder().scheme("never", Never);
        let begun = tokio::time::Instant::now();
        let late = builder
            .connect_timeout(limit)
            .connect("never://s3cret")
            .await;
        assert_eq!(begun.elapsed(), limit);
        let text = late.unwrap_err().to_string();
        assert!(text.contains("`never://…`"), "{text}");
        assert!(text.contains("did not answer within 7s"), "{text}");
    }

    #[tokio::test]
    async fn a_name_that_no_url_begins_with_is_refused() {
        for name in ["", "shelf://", "my shelf", "7up", "sch\u{e4}lf", "a_b"] {
            let builder = LockManager::builder().scheme(name, Shelf::default());
            let refused = builder.connect_lazy("memory://").unwrap_err();
            assert!(
                matches!(
                    refused,
                    ConnectError::InvalidOption {
                        option: "scheme",
                        ..
                    }
                ),
                "{name}: {refused:?}"
            );
        }
        for name in ["a", "s3+x.y-z", "SHELF"] {
            let builder = LockManager::builder().scheme(name, Shelf::default());
            drop(builder.connect_lazy(format!("{name}:a://b")).unwrap());
        }
    }

    #[tokio::test]
    async fn an_unknown_scheme_is_refused_with_all_that_are_registered() {
        let builder = LockManager::builder().scheme("shelf", Shelf::default());
        for (url, shown) in [
            (
                "shelves://s3cret",
                "`…` is not a valid store URL: its scheme is unknown",
            ),
            (
                "http://s3cret",
                "`http://…` is not a valid store URL: `http://` is not supported",
            ),
            (
                "postgres://s3cret",
                "`postgres://…` is not a valid store URL: `postgres://` needs the package `dlock-postgres`, and \
                 `.scheme(\"postgres\", dlock_postgres::Postgres)` before `connect`",
            ),
            (
                "etcd://s3cret",
                "`etcd://…` is not a valid store URL: `etcd://` needs the package `dlock-etcd`, and \
                 `.scheme(\"etcd\", dlock_etcd::Etcd)` before `connect`",
            ),
        ] {
            for unknown in [
                builder.clone().connect(url).await,
                builder.clone().connect_lazy(url),
            ] {
                let error = unknown.unwrap_err();
                assert!(matches!(error, ConnectError::InvalidUrl { .. }), "{error}");
                let text = error.to_string();
                assert!(text.starts_with(shown), "{text}");
                assert!(!text.contains("s3cret"), "{text}");
                let own = ["memory"].into_iter();
                #[cfg(feature = "redis")]
                let own = own.chain(crate::store::redis::schemes());
                for name in own.chain(["shelf"]) {
                    assert!(text.contains(&format!("`{name}://`")), "{name}: {text}");
                }
            }
        }
        let nothing_follows = builder.connect("memory://s3cret").await.unwrap_err();
        assert_eq!(
            nothing_follows.to_string(),
            "`memory://…` is not a valid store URL: nothing may follow `memory://`; remove the rest"
        );
    }

    #[tokio::test]
    async fn a_later_scheme_replaces_an_earlier_one() {
        let (first, second) = (Shelf::default(), Shelf::default());
        let builder = LockManager::builder().scheme("memory", first.clone());
        let builder = builder.scheme("Memory", second.clone());
        drop(builder.connect("memory://a").await.unwrap());
        assert!(first.0.options.lock().unwrap().is_none());
        assert!(second.0.options.lock().unwrap().is_some());
    }
}
