//! A connection for operators, made when it is needed and again when it has broken. It writes nothing by itself.

use std::sync::Arc;

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use crate::{
    config::{Config, Member},
    conn::{Conn, Ties},
    dial, errors,
    proto::Answer,
    version,
};

/// A connection, and the value that keeps it open.
pub(super) struct Connected {
    pub(super) conn: Conn,
    _given_up: watch::Sender<()>,
}

/// The connection of an inspector.
pub(super) struct Link {
    config: Arc<Config>,
    connected: Mutex<Option<Arc<Connected>>>,
}

impl Link {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config: Arc::new(config),
            connected: Mutex::default(),
        }
    }

    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(super) fn namespace(&self) -> &str {
        &self.config.namespace
    }

    /// Returns the connection, after making it if there is none: to the first member that answers and has a leader. Each
    /// member has the time limit of the configuration.
    pub(super) async fn connected(&self) -> Result<Arc<Connected>, StoreError> {
        let mut slot = self.connected.lock().await;
        if let Some(known) = &*slot {
            return Ok(known.clone());
        }
        let limit = self.config.connect_limit;
        let mut failures = Vec::new();
        for member in &self.config.members {
            let opened = timeout(limit, open(&self.config, member)).await;
            match opened.unwrap_or_else(|_| Err(StoreError::timed_out(limit).unsent())) {
                Ok(connected) => return Ok(slot.insert(Arc::new(connected)).clone()),
                Err(error) => failures.push((&*member.place, error)),
            }
        }
        Err(errors::of_members(&failures))
    }

    /// Sends a request that only reads. If the connection has broken, the request is sent over a new one.
    pub(super) async fn ask<Q, A>(&self, path: &'static str, request: &Q) -> Result<A, StoreError>
    where
        Q: prost::Message + Default + Clone + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        // A request makes a large future, and is part of those of all commands.
        let first = Box::pin(self.ask_once(path, request)).await;
        let is_broken = |error: &StoreError| error.kind() == StoreErrorKind::Disconnected;
        let answer = match first {
            Err(error) if is_broken(&error) => Box::pin(self.ask_once(path, request)).await,
            other => other,
        };
        answer.map_err(|error| self.of_reading(error))
    }

    async fn ask_once<Q, A>(&self, path: &'static str, request: &Q) -> Result<A, StoreError>
    where
        Q: prost::Message + Default + Clone + 'static,
        A: prost::Message + Default + Answer + 'static,
    {
        let connected = self.connected().await?;
        let asked = connected.conn.call(path, request.clone());
        self.within(&connected, asked).await
    }

    /// Waits for an answer as long as the configuration allows. A connection that has failed is not used again.
    pub(super) async fn within<T, E: Into<StoreError>>(
        &self,
        connected: &Arc<Connected>,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StoreError> {
        let limit = self.config.response_limit;
        let answer = match timeout(limit, asked).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(StoreError::timed_out(limit)),
        };
        if let Err(error) = &answer {
            use StoreErrorKind::{Disconnected, TimedOut};
            let mut slot = self.connected.lock().await;
            let is_same = slot.as_ref().is_some_and(|it| Arc::ptr_eq(it, connected));
            if is_same && matches!(error.kind(), Disconnected | TimedOut) {
                *slot = None;
            }
        }
        answer
    }

    /// The advice for a user who may not read. That of the store is for users who lock.
    fn of_reading(&self, error: StoreError) -> StoreError {
        if error.kind() != StoreErrorKind::Denied {
            return error;
        }
        let text = format!(
            "permission denied; grant it with: {}",
            rule(self.namespace(), "read")
        );
        StoreError::new(StoreErrorKind::Denied, text)
            .with_advice()
            .without_effect()
    }
}

/// Connects to one member.
pub(super) async fn open(config: &Arc<Config>, member: &Member) -> Result<Connected, StoreError> {
    let opened = try_open(config, member).await;
    opened.map_err(|error| member.failed(error))
}

async fn try_open(config: &Arc<Config>, member: &Member) -> Result<Connected, StoreError> {
    let (given_up, ended) = watch::channel(());
    let ties = Ties {
        doubt: Arc::default(),
        given_up: ended,
        is_full: Arc::default(),
        number: 0,
    };
    let channel = dial::dial(member).await?;
    let conn = Conn::open(config.clone(), member.place.clone(), channel, ties).await?;
    version::check(&conn.welcome().await?.version, &member.place)?;
    Ok(Connected {
        conn,
        _given_up: given_up,
    })
}

/// The command that grants a permission on the keys of a namespace.
pub(super) fn rule(namespace: &str, permission: &str) -> String {
    let prefix = crate::keys::prefix(namespace, "");
    format!(
        "etcdctl role grant-permission ROLE {permission} {} --prefix",
        String::from_utf8_lossy(&prefix)
    )
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        time::Duration,
    };

    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{EtcdServer, Proxy};

    use super::*;
    use crate::{
        admin::messages::{PageRequest, PageResponse, RANGE},
        scene::LONG,
    };

    /// A link that waits for an answer until this limit.
    fn link(url: &str, limit: Duration) -> Link {
        let mut options = StoreOptions::default();
        options.response_timeout = limit;
        options.connect_timeout = LONG;
        Link::new(Config::parse(url, &options).unwrap())
    }

    #[tokio::test]
    async fn a_connection_is_used_until_it_has_failed() {
        let server = EtcdServer::start().await;
        let link = link(&server.url(), Duration::from_millis(50));
        let fail = async |connected: &Arc<Connected>, kind: StoreErrorKind| {
            let failed = ready(Err::<(), _>(StoreError::new(kind, "why")));
            let error = link.within(connected, failed).await.unwrap_err();
            assert_eq!(error.kind(), kind);
        };
        let is_used = async |connected: &Arc<Connected>| {
            let next = link.connected().await.unwrap();
            Arc::ptr_eq(&next, connected)
        };
        let first = link.connected().await.unwrap();
        let answered = link.within(&first, ready(Ok::<_, StoreError>(7))).await;
        assert_eq!(answered, Ok(7));
        fail(&first, StoreErrorKind::Refused).await;
        assert!(is_used(&first).await, "it has answered");
        fail(&first, StoreErrorKind::Disconnected).await;
        let second = link.connected().await.unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        // Another request over the first one fails later.
        fail(&first, StoreErrorKind::Disconnected).await;
        assert!(is_used(&second).await);
        let silent = pending::<Result<(), StoreError>>();
        let error = link.within(&second, silent).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TimedOut);
        assert!(!is_used(&second).await, "it does not answer");
    }

    #[tokio::test]
    async fn a_request_is_sent_to_a_member_that_answers_and_once_more_if_its_connection_ends() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        let place = format!("127.0.0.1:{}", proxy.port());
        let both = link(&format!("etcd://127.0.0.1:1,{place}"), LONG);
        let first = both.connected().await.unwrap();
        assert_eq!(first.conn.place, place);
        let request = PageRequest {
            key: b"one".to_vec(),
            range_end: Vec::new(),
            limit: 1,
            revision: 0,
        };
        for _ in 0..2 {
            let answer = both.ask::<_, PageResponse>(RANGE, &request).await;
            assert_eq!(answer.map(|it| it.kvs.len()), Ok(0));
            proxy.cut();
        }
        let next = both.connected().await.unwrap();
        assert!(!Arc::ptr_eq(&first, &next), "the first one was cut");
        let gone = link("etcd://127.0.0.1:1", LONG).connected().await;
        let error = gone.map(drop).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    }

    #[test]
    fn a_user_who_may_not_read_learns_the_permission_for_that() {
        let mut options = StoreOptions::default();
        options.namespace = "shop/eu".to_owned();
        let link = Link::new(Config::parse("etcd://a", &options).unwrap());
        let error = |kind| link.of_reading(StoreError::new(kind, "why"));
        let denied = error(StoreErrorKind::Denied);
        assert_eq!(
            denied.to_string(),
            "permission denied; grant it with: etcdctl role grant-permission ROLE read shop%2Feu/ --prefix"
        );
        assert!(denied.kind() == StoreErrorKind::Denied && denied.has_no_effect());
        assert_eq!(error(StoreErrorKind::Refused).message(), "why");
    }
}
