//! The independent servers of one URL, which form a quorum.

use std::{future::Future, sync::Arc, time::Duration};

use ::redis::Value;
use futures_util::future::join_all;

use super::source::Source;
use crate::{
    error::ConnectError,
    store::{
        StoreError,
        quorum::{self, Quorum},
        redis::{
            RedisConfig, RedisStore,
            config::url::{Endpoint, Location, UrlLayout},
            net::{events::Events, hints::Hints, session},
        },
    },
};

/// The servers of a `redlock://` URL.
pub(crate) struct Independent {
    shown: String,
    stores: Vec<RedisStore>,
    endpoints: Vec<Endpoint>,
    response_timeout: Duration,
}

impl Independent {
    /// Starts to connect to all servers in the background. Returns `None` for another kind of URL.
    ///
    /// # Errors
    ///
    /// The errors of [`RedisStore::connect_lazy`].
    pub(crate) fn start(config: &RedisConfig) -> Result<Option<Self>, ConnectError> {
        Self::start_with(config, Hints::new)
    }

    /// Does the same for inspection only.
    #[cfg(feature = "admin")]
    pub(crate) fn for_inspection(config: &RedisConfig) -> Result<Option<Self>, ConnectError> {
        Self::start_with(config, |_| Hints::unwanted())
    }

    fn start_with(
        config: &RedisConfig,
        hints: fn(bool) -> Hints,
    ) -> Result<Option<Self>, ConnectError> {
        let location = Location::parse(&config.url)?;
        if *location.layout() != UrlLayout::Independent {
            return Ok(None);
        }
        if config.min_replicas > 0 {
            return Err(ConnectError::InvalidOption {
                option: "min_replicas",
                reason: "the servers of a quorum are independent, and their replicas do not count; set it to 0"
                    .into(),
            });
        }
        let location = config.location()?;
        crate::store::redis::assemble::current_runtime(&location.to_string())?;
        let addresses = location.addresses().iter().cloned();
        let endpoints: Vec<_> = addresses.map(|it| location.endpoint(it)).collect();
        let stores = endpoints.iter().map(|endpoint| {
            // A quorum sends two requests in that time.
            let config = RedisConfig {
                response_timeout: config.response_timeout / 2,
                ..config.clone()
            };
            let source = Source::Fixed(endpoint.clone());
            RedisStore::over(
                source,
                endpoint.to_string(),
                Arc::new(config),
                0,
                Events::new,
                hints,
            )
        });
        Ok(Some(Self {
            shown: location.to_string(),
            stores: stores.collect(),
            endpoints,
            response_timeout: config.response_timeout,
        }))
    }

    /// Returns the quorum, whether its servers are reachable or not.
    pub(crate) fn into_quorum(self) -> Result<Quorum, ConnectError> {
        Ok(Quorum::of(self.stores)?.node_timeout(self.response_timeout / 2))
    }

    /// Returns the stores as soon as a majority is ready, or else those that are ready in time.
    #[cfg(feature = "admin")]
    pub(crate) async fn into_stores(
        self,
        limit: Duration,
    ) -> Result<Vec<RedisStore>, ConnectError> {
        if let Err(error) = self.ready(limit).await {
            let some = self.stores.iter();
            let some = join_all(some.map(|store| store.ready(Duration::ZERO))).await;
            if matches!(error, ConnectError::InvalidUrl { .. }) || some.iter().all(Result::is_err) {
                return Err(error);
            }
        }
        Ok(self.stores)
    }

    /// Waits until a majority is ready. The others may become ready later.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), ConnectError> {
        let unavailable = |reason| ConnectError::Unavailable {
            url: self.shown.clone(),
            reason,
        };
        let ready = self
            .stores
            .iter()
            .enumerate()
            .map(|(number, store)| async move { (number, store.ready(limit).await) });
        first_majority(ready).await.map_err(unavailable)?;
        self.check_identities().await
    }

    /// Detects a server with two addresses, which would have two votes. Some users may not read the identity, and a
    /// late answer does not count, so this finds mistakes but proves nothing.
    async fn check_identities(&self) -> Result<(), ConnectError> {
        let mut question = ::redis::cmd("INFO");
        question.arg("server");
        let limit = self.response_timeout;
        let asked = self.endpoints.iter();
        let asked = asked.map(|endpoint| session::ask(endpoint, &question, limit));
        let answers = join_all(asked).await;
        let known: Vec<_> = answers
            .iter()
            .map(|it| it.as_ref().ok().and_then(run_id))
            .collect();
        for (at, id) in known.iter().enumerate() {
            let before = known[..at].iter().position(|it| it.is_some() && it == id);
            if let Some(before) = before {
                let [one, other] = [before, at].map(|at| &self.endpoints[at]);
                return Err(ConnectError::InvalidUrl {
                    url: self.shown.clone(),
                    reason: format!(
                        "`{one}` and `{other}` are the same server; name independent servers"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Returns as soon as a majority is ready, or with the reason why it cannot become ready.
async fn first_majority(
    ready: impl ExactSizeIterator<Item = impl Future<Output = (usize, Result<(), StoreError>)>>,
) -> Result<(), StoreError> {
    use futures_util::stream::{FuturesUnordered, StreamExt as _};

    let count = ready.len();
    let mut waiting: FuturesUnordered<_> = ready.collect();
    let (mut there, mut failures) = (0, Vec::new());
    while let Some((number, outcome)) = waiting.next().await {
        match outcome {
            Ok(()) => there += 1,
            Err(error) => failures.push((number, error)),
        }
        if let Some(outcome) = quorum::outcome_of_connecting(count, there, &failures) {
            return outcome;
        }
    }
    unreachable!("every server is ready or has failed, so a majority did one or the other")
}

/// Returns the id of a server since its start.
fn run_id(info: &Value) -> Option<String> {
    let text: String = ::redis::from_redis_value_ref(info).ok()?;
    let mut lines = text.lines();
    let id = lines.find_map(|line| line.strip_prefix("run_id:"))?.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_run_id() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\ntcp_port:1\r\n";
        assert_eq!(
            run_id(&Value::BulkString(info.into())).as_deref(),
            Some("abc")
        );
        assert_eq!(run_id(&Value::BulkString(b"run_id:\r\n".into())), None);
        assert_eq!(run_id(&Value::Nil), None);
    }
}
