//! One connection to the server, which is made again when it breaks or does not answer.
//!
//! Requests take the connection as it is at that moment. While there is none and the last try has failed, they fail at
//! once with the reason; during the first try they wait for it.

use std::{future::poll_fn, sync::Arc, time::Duration};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Notification, Row, Socket,
    tls::{MakeTlsConnect, NoTls, TlsStream},
    types::{ToSql, Type},
};

use crate::{
    config::{Config, Route},
    dial::Tries,
    errors,
    worker::Worker,
};

/// The pause after the first failed try. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection without traffic is tried this often.
const LOOK: Duration = Duration::from_secs(5);

/// The longest `lock_timeout` of PostgreSQL, in milliseconds. Zero would be none.
const LONGEST_LOCK_LIMIT: u128 = i32::MAX as u128;

/// The settings of dlock's connections, whatever those of the role are. Poolers do not accept them.
const SETTINGS: &str = "-c default_transaction_isolation=read\\ committed \
                        -c default_transaction_read_only=off \
                        -c statement_timeout=0 \
                        -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0";

/// The connection as requests see it.
#[derive(Clone)]
pub(crate) enum Link {
    Connecting,
    Up(Arc<Client>),
    Down(StoreError),
}

/// An event on a connection.
pub(crate) enum News {
    /// There is a new connection, to a pooler or directly.
    Connected {
        client: Arc<Client>,
        is_pooled: bool,
    },
    Notified(Notification),
}

/// One connection to the server.
pub(crate) struct Session {
    config: Arc<Config>,
    link: watch::Receiver<Link>,
    /// Notified when a request has not been answered.
    doubted: Arc<Notify>,
}

impl Session {
    /// Starts to connect, on the thread of `worker`.
    pub(crate) fn start(
        worker: &Worker,
        config: Arc<Config>,
        route: Route,
        news: Option<mpsc::UnboundedSender<News>>,
    ) -> Self {
        let (set_link, link) = watch::channel(Link::Connecting);
        let doubted = Arc::new(Notify::new());
        let keeper = Keeper {
            config: config.clone(),
            route,
            link: set_link,
            doubted: doubted.clone(),
            news,
            sends_settings: true,
        };
        let mut stopped = worker.stopped();
        worker.handle().spawn(async move {
            tokio::select! {
                () = keeper.keep() => {}
                _ = stopped.changed() => {}
            }
        });
        Self {
            config,
            link,
            doubted,
        }
    }

    /// Waits for the first connection.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.client().await.map(drop)
    }

    /// Returns `true` if there is a connection now, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(client) if !client.is_closed())
    }

    async fn client(&self) -> Result<Arc<Client>, StoreError> {
        let mut link = self.link.clone();
        loop {
            match &*link.borrow_and_update() {
                // A closed one is about to be replaced.
                Link::Up(client) if !client.is_closed() => return Ok(client.clone()),
                Link::Down(error) => return Err(error.clone()),
                Link::Up(_) | Link::Connecting => {}
            }
            if link.changed().await.is_err() {
                let error = StoreError::new(StoreErrorKind::Unreachable, "the store was closed");
                return Err(error.unsent());
            }
        }
    }

    /// Sends one statement and returns its rows.
    pub(crate) async fn ask(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.client().await?;
        // A caller that drops this future has waited as long as it can.
        let unanswered = Unanswered(&self.doubted);
        let answer = client.query_typed(statement, parameters).await;
        std::mem::forget(unanswered);
        answer.map_err(|error| {
            if error.as_db_error().is_none() {
                self.doubted.notify_one();
            }
            errors::of_request(&error, &self.config)
        })
    }
}

/// A request without an answer. Dropped, it has the connection tried.
struct Unanswered<'a>(&'a Notify);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Makes the connection, and makes it again.
struct Keeper {
    config: Arc<Config>,
    route: Route,
    link: watch::Sender<Link>,
    doubted: Arc<Notify>,
    news: Option<mpsc::UnboundedSender<News>>,
    /// `false` once a pooler has refused the settings.
    sends_settings: bool,
}

/// A connection, and the task that moves its bytes.
struct Connected {
    client: Arc<Client>,
    serving: JoinHandle<()>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(connected) => {
                    let since = Instant::now();
                    self.watch_over(connected).await;
                    self.link.send_replace(Link::Connecting);
                    pause = FIRST_PAUSE;
                    // A server that ends each connection is not asked for the next one at once.
                    if since.elapsed() > LONGEST_PAUSE {
                        continue;
                    }
                }
                Err(error) => self.failed(error),
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn failed(&self, error: StoreError) {
        tracing::warn!(target: "dlock::store", url = %self.config.shown, %error, "cannot connect to PostgreSQL");
        self.link.send_replace(Link::Down(error));
    }

    /// Connects to the first host that is a primary server.
    async fn connect(&mut self) -> Result<Connected, StoreError> {
        let mut tries = Tries::new(self.config.connect_limit);
        for host in self.route.hosts.clone() {
            if let Some(connected) = tries.connect(&host, self.connect_to(&host)).await {
                return Ok(connected);
            }
        }
        Err(tries.failed())
    }

    async fn connect_to(&mut self, host: &tokio_postgres::Config) -> Result<Connected, StoreError> {
        loop {
            let mut config = host.clone();
            if self.sends_settings {
                let own = config.get_options().unwrap_or_default();
                // A request that waits for a lock of others is undone before its caller gives the connection up.
                // Otherwise a process of the server would wait on for each of these connections.
                let lock_limit = self.config.response_limit.as_millis() * 2 / 3;
                let lock_limit = lock_limit.clamp(1, LONGEST_LOCK_LIMIT);
                config.options(format!("{SETTINGS} -c lock_timeout={lock_limit} {own}"));
            }
            let connected = match &self.route.tls {
                Some(tls) => self.connect_by(&config, tls.clone()).await,
                None => self.connect_by(&config, NoTls).await,
            };
            match connected {
                Err(error) if self.sends_settings && errors::refuses_settings(&error) => {
                    self.sends_settings = false;
                }
                Err(error) => return Err(errors::of_connecting(&error, &self.config)),
                Ok(connected) => {
                    self.check(&connected.client).await?;
                    return Ok(connected);
                }
            }
        }
    }

    async fn connect_by<T>(
        &self,
        config: &tokio_postgres::Config,
        tls: T,
    ) -> Result<Connected, tokio_postgres::Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = config.connect(tls).await?;
        let serving = tokio::spawn(serve(connection, self.news.clone()));
        Ok(Connected {
            client: Arc::new(client),
            serving,
        })
    }

    /// Checks that the server has what requests need.
    async fn check(&self, client: &Client) -> Result<(), StoreError> {
        let statement = self.config.schema.fill(errors::STATE);
        let row = client.query_typed_one(&statement, &[]).await;
        let row = row.map_err(|error| errors::of_request(&error, &self.config).unsent())?;
        errors::check(&row, &self.config.schema)?;
        errors::check_level(&row, &self.config)
    }

    /// Offers the connection to requests, until it breaks or does not answer.
    async fn watch_over(&self, connected: Connected) {
        let Connected {
            client,
            mut serving,
        } = connected;
        if let Some(news) = &self.news {
            let is_pooled = !self.sends_settings;
            news.send(News::Connected {
                client: client.clone(),
                is_pooled,
            })
            .ok();
        }
        self.link.send_replace(Link::Up(client.clone()));
        let mut looked = Instant::now();
        loop {
            // A doubted connection is tried at once, and a quiet one from time to time.
            tokio::select! {
                _ = &mut serving => break,
                () = self.doubted.notified() => {}
                () = tokio::time::sleep_until(looked + LOOK) => {}
            }
            let limit = self.config.response_limit;
            let answer = timeout(limit, client.check_connection()).await;
            looked = Instant::now();
            if !matches!(answer, Ok(Ok(()))) {
                break;
            }
        }
        tracing::warn!(target: "dlock::store", url = %self.config.shown, "the connection to PostgreSQL was lost");
        // Requests on a silent connection end now, and not with it.
        serving.abort();
    }
}

/// Moves the bytes of a connection until it ends, and passes on its messages.
async fn serve<S, T>(mut connection: Connection<S, T>, news: Option<mpsc::UnboundedSender<News>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: TlsStream + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(news) = &news {
                    news.send(News::Notified(notification)).ok();
                }
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(target: "dlock::store", message = notice.message(), "PostgreSQL says");
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}
