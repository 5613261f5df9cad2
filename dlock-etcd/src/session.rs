//! The connection of a store, which is replaced when it breaks or does not answer.
//!
//! Requests take the connection as it is at that moment. While there is none and the last round over all members has
//! failed, they fail at once with the reason; during the first round they wait for it.

use std::{sync::Arc, time::Duration};

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    base,
    config::{Config, Member},
    conn::Conn,
    errors, raise, version,
    worker::Worker,
};

/// The pause after the first failed round. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection without traffic is tried this often.
const LOOK: Duration = Duration::from_secs(5);

/// The connection as requests see it.
#[derive(Clone)]
enum Link {
    Connecting,
    Up(Arc<Conn>),
    Down(StoreError),
}

/// The connection of a store.
#[derive(Clone)]
pub(crate) struct Session {
    link: watch::Receiver<Link>,
}

impl Session {
    /// Starts to connect, on the thread of `worker`.
    pub(crate) fn start(worker: &Worker, config: Arc<Config>) -> Self {
        let (set_link, link) = watch::channel(Link::Connecting);
        let keeper = Keeper {
            config,
            link: set_link,
            doubted: Arc::default(),
            next: 0,
        };
        let mut stopped = worker.stopped();
        worker.handle().spawn(async move {
            tokio::select! {
                () = keeper.keep() => {}
                _ = stopped.changed() => {}
            }
        });
        Self { link }
    }

    /// Returns the connection; waits for the first one.
    pub(crate) async fn conn(&self) -> Result<Arc<Conn>, StoreError> {
        let mut link = self.link.clone();
        loop {
            match &*link.borrow_and_update() {
                Link::Up(conn) => return Ok(conn.clone()),
                Link::Down(error) => return Err(error.clone()),
                Link::Connecting => {}
            }
            if link.changed().await.is_err() {
                let error = StoreError::new(StoreErrorKind::Unreachable, "the store was closed");
                return Err(error.unsent());
            }
        }
    }

    /// Returns `true` if the database is full as far as the present connection knows.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(conn) if conn.is_full())
    }
}

/// Makes the connection, and makes the next one.
struct Keeper {
    config: Arc<Config>,
    link: watch::Sender<Link>,
    doubted: Arc<Notify>,
    /// The member to try first: the one after the last that failed.
    next: usize,
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok((conn, give_up)) => {
                    let since = Instant::now();
                    self.watch_over(&conn).await;
                    self.link.send_replace(Link::Connecting);
                    // Requests and watches on it end now, and not with it.
                    drop(give_up);
                    pause = FIRST_PAUSE;
                    self.next += 1;
                    // A member that ends each connection is not asked for the next one at once.
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
        tracing::warn!(target: "dlock::store", url = %self.config.shown, %error, "cannot connect to etcd");
        self.link.send_replace(Link::Down(error));
    }

    /// Connects to the first member that reaches a majority. Each has the whole limit: the first one may be silent.
    async fn connect(&mut self) -> Result<(Arc<Conn>, watch::Sender<()>), StoreError> {
        let config = self.config.clone();
        let limit = config.connect_limit;
        let count = config.members.len();
        let mut failures = Vec::new();
        for number in 0..count {
            let index = (self.next + number) % count;
            let member = &config.members[index];
            let connected = match timeout(limit, self.connect_to(member)).await {
                Ok(connected) => connected,
                Err(_) => Err(StoreError::timed_out(limit).unsent()),
            };
            match connected {
                Ok(connected) => {
                    self.next = index;
                    return Ok(connected);
                }
                Err(error) => failures.push((&*member.place, error)),
            }
        }
        Err(errors::of_members(&failures))
    }

    async fn connect_to(
        &self,
        member: &Member,
    ) -> Result<(Arc<Conn>, watch::Sender<()>), StoreError> {
        let (give_up, ended) = watch::channel(());
        let (config, doubted) = (self.config.clone(), self.doubted.clone());
        let (conn, welcome) = Conn::open(config, member, doubted, ended).await?;
        version::check(&welcome.version, &member.place)?;
        if !welcome.has_leader {
            let text =
                "the member has no leader; a majority of the members must be up and reachable";
            return Err(StoreError::new(StoreErrorKind::Unreachable, text)
                .with_advice()
                .unsent());
        }
        match raise::raise(&conn).await {
            Ok(raised) => raise::note(&conn, raised),
            // Leases can be renewed and released over it, and no claim is created.
            Err(failure) if failure.is_full => {}
            Err(failure) => return Err(failure.error.unsent()),
        }
        Ok((Arc::new(conn), give_up))
    }

    /// Offers the connection to requests, until it breaks or does not answer.
    async fn watch_over(&self, conn: &Arc<Conn>) {
        self.link.send_replace(Link::Up(conn.clone()));
        loop {
            // A doubted connection is tried at once, and a quiet one from time to time.
            tokio::select! {
                () = self.doubted.notified() => {}
                () = sleep(LOOK) => {}
            }
            let request = base::read_request(&self.config.namespace);
            if !conn.is_usable(request, self.config.response_limit).await {
                break;
            }
        }
        tracing::warn!(
            target: "dlock::store", url = %self.config.shown, member = %conn.place, "the connection to etcd was lost"
        );
    }
}
