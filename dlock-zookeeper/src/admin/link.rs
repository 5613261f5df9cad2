//! A session for operators, made when it is needed and again when it has ended. It writes nothing by itself.

use std::{sync::Arc, time::Duration};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{sync::Mutex, time::timeout};
use zookeeper_client::{Acl, Client, Error, MultiReadResult, SessionState, Stat};

use crate::{
    config::Config,
    dial,
    errors::{self, Failure},
};

/// The session of an inspector. Clones share it.
#[derive(Clone)]
pub(super) struct Link {
    config: Arc<Config>,
    /// The time limit of a connection to one server.
    connect_limit: Duration,
    client: Arc<Mutex<Option<Client>>>,
}

impl Link {
    pub(super) fn new(config: Config, connect_limit: Duration) -> Self {
        Self {
            config: Arc::new(config),
            connect_limit,
            client: Arc::default(),
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn root(&self) -> &str {
        &self.config.root
    }

    pub(super) fn connect_limit(&self) -> Duration {
        self.connect_limit
    }

    /// Returns the session, after making one if there is none.
    pub(super) async fn client(&self) -> Result<Client, StoreError> {
        let mut slot = self.client.lock().await;
        if let Some(known) = slot.as_ref().filter(|it| !it.state().is_terminated()) {
            if known.state() != SessionState::SyncConnected
                && let Some(trust) = &self.config.tls
            {
                // The session reconnects with the newest certificates.
                trust.refresh().await;
            }
            return Ok(known.clone());
        }
        let hosts = &self.config.hosts;
        let servers = u32::try_from(hosts.split(',').count()).unwrap_or(u32::MAX);
        let limit = self.connect_limit.saturating_mul(servers);
        let client = open(&self.config, hosts, limit).await?;
        Ok(slot.insert(client).clone())
    }

    /// Reads the names of a node's children; `None` if the node is not there.
    pub(super) async fn children(&self, path: &str) -> Result<Option<Vec<String>>, StoreError> {
        let asked = self.ask(|client| {
            let path = path.to_owned();
            async move { client.list_children(&path).await }
        });
        asked.await
    }

    /// Reads the names of the children of several nodes in one request. A node that is not there has none.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`] from servers before ZooKeeper 3.6, which have no such request.
    pub(super) async fn children_of_each(
        &self,
        paths: &[String],
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let asked = self.ask(|client| async move {
            let mut reader = client.new_multi_reader();
            for path in paths {
                reader.add_get_children(path)?;
            }
            let answers = reader.commit().await?.into_iter();
            answers
                .map(|answer| match answer {
                    MultiReadResult::Children { children } => Ok(children),
                    MultiReadResult::Error { err: Error::NoNode } => Ok(Vec::new()),
                    MultiReadResult::Error { err } => Err(err),
                    other => Err(Error::UnexpectedError(format!("no children: {other:?}"))),
                })
                .collect()
        });
        let read = asked.await?.filter(|it: &Vec<_>| it.len() == paths.len());
        read.ok_or_else(|| {
            let text = "ZooKeeper: a request for many nodes has an answer for others";
            StoreError::new(StoreErrorKind::BadAnswer, text)
        })
    }

    /// Reads the text of a node; `None` if it is not there.
    pub(super) async fn text(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, StoreError> {
        let asked = self.ask(|client| {
            let path = path.to_owned();
            async move { client.get_data(&path).await }
        });
        asked.await
    }

    /// Reads the ACL of the root; empty if it is not there.
    pub(super) async fn acls(&self) -> Result<Vec<Acl>, StoreError> {
        let asked = self.ask(|client| {
            let root = self.root().to_owned();
            async move { client.get_acl(&root).await }
        });
        Ok(asked.await?.map(|(acls, _)| acls).unwrap_or_default())
    }

    /// Waits until the server has heard of all that was written before. A server may be behind the others.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let asked = self.ask(|client| {
            let root = self.root().to_owned();
            async move { client.sync(&root).await }
        });
        asked.await.map(drop)
    }

    /// Sends a request that only reads. If the connection has broken, the request is sent once more. `None` if the node is not
    /// there.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl Fn(Client) -> F,
    ) -> Result<Option<T>, StoreError> {
        let first = self.ask_once(&request).await;
        let is_broken = |error: &StoreError| error.kind() == StoreErrorKind::Disconnected;
        let answer = match first {
            Err(error) if is_broken(&error) => self.ask_once(&request).await,
            other => other,
        };
        answer.map_err(|error| self.of_reading(error))
    }

    async fn ask_once<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: &impl Fn(Client) -> F,
    ) -> Result<Option<T>, StoreError> {
        let client = self.client().await?;
        let asked = request(client.clone());
        let answer = async {
            match asked.await {
                Ok(answer) => Ok(Some(answer)),
                Err(Error::NoNode) => Ok(None),
                Err(error) => Err(errors::store_error(&error)),
            }
        };
        self.within(&client, answer).await
    }

    /// Waits for an answer as long as the configuration allows. A session without an answer is not used again.
    pub(super) async fn within<T>(
        &self,
        client: &Client,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.config.response_limit;
        if let Ok(answer) = timeout(limit, asked).await {
            return answer;
        }
        let mut slot = self.client.lock().await;
        slot.take_if(|it| it.session_id() == client.session_id());
        Err(StoreError::timed_out(limit))
    }

    /// The advice for a user who may not read.
    fn of_reading(&self, error: StoreError) -> StoreError {
        if error.kind() != StoreErrorKind::Denied {
            return error;
        }
        let text = format!("permission denied; {}", rule(self.root(), "READ"));
        StoreError::new(StoreErrorKind::Denied, text)
            .with_advice()
            .without_effect()
    }
}

/// Connects to one of these servers.
pub(super) async fn open(
    config: &Config,
    hosts: &str,
    limit: Duration,
) -> Result<Client, StoreError> {
    let mut connector = Client::connector()
        .with_session_timeout(config.session)
        .with_connection_timeout(config.connection_limit())
        .with_fail_eagerly();
    if let Some(login) = &config.login {
        connector = connector.with_auth("digest", login.as_bytes());
    }
    let connected = timeout(limit, dial::connect(config, connector, hosts)).await;
    let failure = match connected {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(failure)) => dial::explained(config, hosts, failure).await,
        Err(_) => return Err(StoreError::timed_out(limit).unsent()),
    };
    match failure {
        // A server without a majority refuses connections, so this is all that can be told.
        Failure::Client(Error::NoHosts) => {
            let text = "no server answers, or those that do have no majority";
            Err(StoreError::new(StoreErrorKind::Unreachable, text).unsent())
        }
        other => Err(other.into_error().unsent()),
    }
}

/// The remedy for a missing permission on the nodes of the locks.
pub(super) fn rule(root: &str, permission: &str) -> String {
    format!(
        "use the login of the processes that lock, or have their user grant you {permission} on `{root}` and the nodes in it"
    )
}
