//! The session of a store: the client keeps it, a request a second proves it to be alive, and a new one follows it.

use std::{sync::Arc, time::Duration};

use dlock_net::Worker;
use dlock_runtime::{
    clock::{Clock, Moment, SystemClock},
    store::{StoreError, StoreErrorKind},
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use zookeeper_client::{Acls, Client, Connector, CreateMode, Error, MultiWriteError, SessionState};

use crate::{
    config::Config, dial, errors, fence::Known, leftovers::Leftovers, names, notices, proof::Proof,
    readers, sinks::Sinks,
};

/// The pause after the first failed try. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The code of ZooKeeper for a session without ephemeral nodes.
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

/// A session. Clones share it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) proof: Arc<Proof>,
    config: Arc<Config>,
    pub(crate) base: Arc<Known>,
    pub(crate) leftovers: Arc<Leftovers>,
}

impl Session {
    /// Returns the permissions of new nodes.
    pub(crate) fn acls(&self) -> Acls<'_> {
        self.config.acls()
    }

    /// Returns `true` if both are the same session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.client.session_id() == other.client.session_id()
    }

    /// Returns `true` if a server answers, as far as is known.
    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// Returns `true` if the session has ended, as far as is known.
    pub(crate) fn has_ended(&self) -> bool {
        self.client.state().is_terminated()
    }
}

/// The session as requests see it.
#[derive(Clone)]
pub(crate) enum Status {
    Connecting,
    Up(Session),
    Down(StoreError),
}

/// Starts to connect, on the thread of `worker`.
pub(crate) fn start(
    worker: &Worker,
    config: Arc<Config>,
    sinks: Arc<Sinks>,
) -> watch::Receiver<Status> {
    let (set_status, status) = watch::channel(Status::Connecting);
    let task = async move { keep(&config, set_status, &sinks).await };
    worker.tasks().spawn(task);
    status
}

/// Returns the session, or the reason why there is none.
pub(crate) async fn current(status: &watch::Receiver<Status>) -> Result<Session, StoreError> {
    let mut status = status.clone();
    loop {
        match &*status.borrow_and_update() {
            // One that has ended is about to be replaced.
            Status::Up(session) if !session.has_ended() => return Ok(session.clone()),
            Status::Down(error) => return Err(error.clone()),
            Status::Up(_) | Status::Connecting => {}
        }
        if status.changed().await.is_err() {
            let error = StoreError::new(StoreErrorKind::Unreachable, "the store was closed");
            return Err(error.unsent());
        }
    }
}

async fn keep(config: &Arc<Config>, status: watch::Sender<Status>, sinks: &Sinks) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(config).await {
            Ok(session) => {
                pause = FIRST_PAUSE;
                status.send_replace(Status::Up(session.clone()));
                sinks.look_again();
                tokio::select! {
                    () = beat(config, &session) => {}
                    () = dial::keep_trusted(config, &session.client) => {}
                    () = session.leftovers.remove(&session.client) => {}
                    _ = notices::listen(&session.client, &config.root, sinks) => {}
                }
                tracing::warn!(target: "dlock::store", url = %config.shown, "the session of ZooKeeper has ended");
                status.send_replace(Status::Connecting);
            }
            Err(error) => {
                tracing::warn!(target: "dlock::store", url = %config.shown, %error, "cannot connect to ZooKeeper");
                status.send_replace(Status::Down(error));
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn connect(config: &Arc<Config>) -> Result<Session, StoreError> {
    let connecting = SystemClock.now();
    // A lease with a `min_hold` outlives its process, for as long as the session does.
    let connector = connector(config).with_detached();
    let client = match dial::connect(config, connector, &config.hosts).await {
        Ok(client) => client,
        Err(failure) => {
            let failure = dial::explained(config, &config.hosts, failure).await;
            return Err(failure.into_error().unsent());
        }
    };
    match prepared(config, client.clone(), connecting).await {
        Ok(session) => Ok(session),
        Err(error) => {
            // Each try would leave a session at the servers until its time-out.
            if timeout(config.response_limit, close(config, client))
                .await
                .is_err()
            {
                tracing::debug!(target: "dlock::store", url = %config.shown, "a session was not closed in time");
            }
            Err(error.unsent())
        }
    }
}

fn connector(config: &Config) -> Connector {
    let connector = match &config.login {
        // Also for a session that is about to be closed: some servers carry out nothing without a login.
        Some(login) => Client::connector().with_auth("digest", login.as_bytes()),
        None => Client::connector(),
    };
    connector
        .with_session_timeout(config.session)
        .with_connection_timeout(config.connection_limit())
        .with_fail_eagerly()
}

/// Closes a session. The client closes only those that are not detached, so this one is taken over.
async fn close(config: &Config, client: Client) {
    let taken_over = connector(config).with_session(client.into_session());
    // Without an answer, the session ends by its time-out.
    if let Ok(client) = dial::connect_at_once(config, taken_over, &config.hosts).await {
        let mut state = client.state_watcher();
        drop(client);
        while !state.changed().await.is_terminated() {}
    }
}

/// Prepares a new session for requests.
async fn prepared(
    config: &Arc<Config>,
    client: Client,
    connecting: Moment,
) -> Result<Session, StoreError> {
    let time_out = client.session_timeout();
    if time_out < config.session {
        let message = format!(
            "the servers allow sessions of {time_out:?} at most; write `session={}ms` in the URL, or raise their \
             `maxSessionTimeout`",
            time_out.as_millis()
        );
        return Err(StoreError::new(StoreErrorKind::Unsupported, message).with_advice());
    }
    let directory = CreateMode::Persistent.with_acls(config.acls());
    let made = client.mkdir(&config.root, &directory).await;
    made.map_err(|error| errors::store_error(&error))?;
    if is_local(config, &client).await? {
        let message = "the servers keep sessions to themselves, and a session has no ephemeral nodes then, of which locks are \
                       made; set `localSessionsUpgradingEnabled=true`, or leave out `localSessionsEnabled`";
        return Err(StoreError::new(StoreErrorKind::Unsupported, message).with_advice());
    }
    if !config.readers().is_empty() {
        // These may be older than the option. All others are made again in time.
        for path in [config.root.clone(), names::bases(&config.root)] {
            let admitted = readers::admit(&client, config.readers(), &path).await;
            admitted.map_err(|error| errors::store_error(&error))?;
        }
    }
    let proof = Arc::new(Proof::new(time_out, config.tick, connecting));
    let base = Arc::new(Known::new(client.state_watcher()));
    Ok(Session {
        client,
        proof,
        config: config.clone(),
        base,
        leftovers: Arc::default(),
    })
}

/// Returns `true` if the session may have no ephemeral nodes, by making one and deleting it in one transaction.
async fn is_local(config: &Config, client: &Client) -> Result<bool, StoreError> {
    let path = format!("{}/session-{:x}", config.root, client.session_id().0);
    let options = CreateMode::Ephemeral.with_acls(config.acls());
    let mut writer = client.new_multi_writer();
    let added = writer.add_create(&path, b"", &options);
    let added = added.and_then(|()| writer.add_delete(&path, None));
    added.map_err(|error| errors::store_error(&error))?;
    let refusal = match writer.commit().await {
        Ok(_) => return Ok(false),
        Err(
            MultiWriteError::RequestFailed { source }
            | MultiWriteError::OperationFailed { source, .. },
        ) => source,
    };
    if refusal == Error::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) {
        return Ok(true);
    }
    let error = errors::store_error(&refusal);
    match error.kind() {
        // It is not known what the servers do.
        StoreErrorKind::Disconnected | StoreErrorKind::TimedOut => Err(error),
        // Another refusal comes back with a later request, or is about a permission that only this one needs.
        _ => Ok(false),
    }
}

/// Proves the session to be alive until it has ended.
async fn beat(config: &Config, session: &Session) {
    let mut state = session.client.state_watcher();
    let mut due = interval(config.beat());
    // After a silence one request proves as much as many.
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !session.has_ended() {
        tokio::select! {
            _ = due.tick() => {}
            _ = state.changed() => continue,
        }
        let sent = SystemClock.now();
        match session.client.sync(&config.root).await {
            Ok(()) => session.proof.note(sent, SystemClock.now()),
            Err(
                Error::SessionExpired
                | Error::ClientClosed
                | Error::AuthFailed
                // The client and the server disagree. With too many watches they do so after each reconnection.
                | Error::UnexpectedError(_),
            ) => return,
            // Without an answer, the server may have heard nothing.
            Err(_) => {}
        }
    }
}
