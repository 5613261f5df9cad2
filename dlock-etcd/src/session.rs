//! The connection of a store, which is replaced when it breaks or does not answer.
//!
//! Its tasks are on the thread of the store, which no other code uses. `near.rs` has a second one for callers, which ends with
//! this one.
//!
//! Requests take the connection as it is at that moment. While there is none and the last round over all members has
//! failed, they fail at once with the reason; during the first round they wait for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock_net::Worker;
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    config::{Config, Member},
    conn::{Conn, Ties, Tried},
    dial::dial,
    doubt::Doubt,
    errors,
    near::Near,
    raise, version,
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
    near: Arc<Near>,
    is_full: Arc<AtomicBool>,
}

impl Session {
    /// Starts to connect, on the thread of `worker`.
    pub(crate) fn start(worker: &Worker, config: Arc<Config>) -> Self {
        let (set_link, link) = watch::channel(Link::Connecting);
        let is_full = Arc::<AtomicBool>::default();
        let own = worker.handle().clone();
        let near = Arc::new(Near::new(own, config.clone(), is_full.clone()));
        let keeper = Keeper {
            config,
            link: set_link,
            near: near.clone(),
            doubt: Arc::default(),
            is_full: is_full.clone(),
            next: 0,
            number: 0,
        };
        worker.tasks().spawn(async move { keeper.keep().await });
        Self {
            link,
            near,
            is_full,
        }
    }

    /// Returns the connection that answers a caller soonest; waits for the first one.
    pub(crate) async fn nearest(&self) -> Result<Arc<Conn>, StoreError> {
        match self.near.conn() {
            Some(conn) => Ok(conn),
            None => self.conn().await,
        }
    }

    /// Returns the connection on the thread of the store; waits for the first one.
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

    /// Returns `true` if the database is full as far as is known.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }
}

/// Makes the connection, and makes the next one.
struct Keeper {
    config: Arc<Config>,
    link: watch::Sender<Link>,
    near: Arc<Near>,
    doubt: Arc<Doubt>,
    is_full: Arc<AtomicBool>,
    /// The member to try first: the one after the last that failed.
    next: usize,
    /// The number of connections that were tried.
    number: u64,
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
            self.number += 1;
            let connected = match timeout(limit, self.connect_to(member)).await {
                Ok(connected) => connected,
                Err(_) => Err(StoreError::timed_out(limit).unsent()),
            };
            match connected {
                Ok(connected) => {
                    self.next = index;
                    return Ok(connected);
                }
                Err(error) => failures.push((&*member.place, member.failed(error))),
            }
        }
        Err(errors::of_members(&failures))
    }

    async fn connect_to(
        &self,
        member: &Member,
    ) -> Result<(Arc<Conn>, watch::Sender<()>), StoreError> {
        let (give_up, ended) = watch::channel(());
        let ties = Ties {
            doubt: self.doubt.clone(),
            given_up: ended,
            is_full: self.is_full.clone(),
            number: self.number,
        };
        let channel = dial(member).await?;
        let place = member.place.clone();
        let conn = Conn::open(self.config.clone(), place, channel, ties).await?;
        let welcome = conn.welcome().await?;
        version::check(&welcome.version, &member.place)?;
        conn.met(&welcome.version);
        if !welcome.has_leader {
            let text =
                "the member has no leader; a majority of the members must be up and reachable";
            return Err(StoreError::new(StoreErrorKind::Unreachable, text)
                .with_advice()
                .unsent());
        }
        raise::begin(&conn).await?;
        Ok((Arc::new(conn), give_up))
    }

    /// Offers the connection to requests, until it breaks or does not answer.
    async fn watch_over(&self, conn: &Arc<Conn>) {
        self.link.send_replace(Link::Up(conn.clone()));
        let member = &self.config.members[self.next];
        tokio::select! {
            () = self.until_lost(conn) => {}
            never = self.near.keep(member, conn) => match never {},
        }
        tracing::warn!(
            target: "dlock::store", url = %self.config.shown, member = %conn.place, "the connection to etcd was lost"
        );
    }

    async fn until_lost(&self, conn: &Conn) {
        loop {
            // A doubted connection is tried at once, and a quiet one from time to time.
            tokio::select! {
                () = self.doubt.raised() => {}
                () = sleep(LOOK) => {}
            }
            if conn.try_out().await != Tried::Answers {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::{EtcdServer, Proxy, eventually, log, within};
    use futures_util::FutureExt;
    use tokio::runtime::Handle;

    use super::*;
    use crate::{
        EtcdStore,
        scene::{LONG, Scene},
    };

    fn place(proxy: &Proxy) -> String {
        format!("127.0.0.1:{}", proxy.port())
    }

    #[tokio::test]
    async fn the_next_member_follows_one_that_fails_and_the_log_says_why() {
        log::begin();
        let server = EtcdServer::start().await;
        let [first, second] = [Proxy::start(server.port()), Proxy::start(server.port())];
        let places = [place(&first), place(&second)];
        let url = format!("etcd://{},{}", places[0], places[1]);
        first.refuse();
        let store = EtcdStore::open(&url, &StoreOptions::default()).unwrap();
        let session = &store.core.session;
        let conn = session.conn().await.unwrap();
        assert_eq!((&conn.place, conn.number()), (&places[1], 2));

        second.refuse();
        second.cut();
        conn.doubt().raise();
        within(LONG, conn.is_given_up()).await.expect("it ends");
        let mut reason = None;
        eventually(LONG, "requests fail", async || {
            reason = session.conn().await.err();
            reason.is_some()
        })
        .await;
        let reason = reason.unwrap();
        assert!(reason.has_no_effect(), "{reason}");
        for place in &places {
            let text = reason.to_string();
            assert!(text.contains(&format!("{place}: ")), "{text}");
        }
        let is_logged = |words: &str, also: &str| {
            let lines = log::with(&format!("url={url} "));
            let mut lines = lines.iter().filter(|line| line.starts_with(words));
            lines.any(|line| line.contains(also))
        };
        assert!(is_logged("WARN cannot connect to etcd", "refused"));
        let member = format!("member={}", places[1]);
        assert!(is_logged("WARN the connection to etcd was lost", &member));

        first.accept();
        let mut next = None;
        eventually(LONG, "there is a connection again", async || {
            next = session.conn().await.ok();
            next.is_some()
        })
        .await;
        let next = next.unwrap();
        assert_eq!(next.place, places[0]);
        assert!(next.number() > conn.number());
    }

    /// The one that was lost may be the slowest to come back.
    #[tokio::test]
    async fn the_next_connection_is_to_another_member() {
        let server = EtcdServer::start().await;
        let proxies = [Proxy::start(server.port()), Proxy::start(server.port())];
        let places = [0, 1].map(|it: usize| place(&proxies[it]));
        let url = format!("etcd://{},{}", places[0], places[1]);
        let store = EtcdStore::open(&url, &StoreOptions::default()).unwrap();
        let session = &store.core.session;
        for expected in [0, 1, 0] {
            let mut conn = None;
            eventually(LONG, "there is a connection", async || {
                conn = session.conn().await.ok();
                conn.is_some()
            })
            .await;
            let conn = conn.unwrap();
            assert_eq!(conn.place, places[expected]);
            proxies[expected].cut();
            conn.doubt().raise();
            within(LONG, conn.is_given_up()).await.expect("it ends");
        }
    }

    #[tokio::test]
    async fn requests_wait_for_the_first_connection_until_the_store_is_closed() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        proxy.freeze();
        let scene = Scene::with(proxy.port(), |options| options.connect_timeout = LONG);
        let session = scene.store.core.session.clone();
        let mut conn = Box::pin(session.conn());
        assert!(conn.as_mut().now_or_never().is_none());
        drop(scene);
        let Some(Err(error)) = within(LONG, conn).await else {
            panic!("there is no connection");
        };
        assert_eq!(error.message(), "the store was closed");
        assert!(error.has_no_effect());
    }

    /// Without members, a round over all of them takes no time.
    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_rounds_that_fail_double_up_to_a_second() {
        let mut config = Config::parse("etcd://a", &StoreOptions::default()).unwrap();
        config.members.clear();
        let (config, is_full) = (Arc::new(config), Arc::<AtomicBool>::default());
        let (set_link, mut link) = watch::channel(Link::Connecting);
        let near = Near::new(Handle::current(), config.clone(), is_full.clone());
        let keeper = Keeper {
            config,
            link: set_link,
            near: Arc::new(near),
            doubt: Arc::default(),
            is_full,
            next: 0,
            number: 0,
        };
        let begin = Instant::now();
        let rounds = async {
            let mut times = Vec::new();
            for _ in 0..8 {
                link.changed().await.unwrap();
                let is_down = matches!(&*link.borrow(), Link::Down(_));
                assert!(is_down, "requests fail at once meanwhile");
                // A timer may be late by a millisecond.
                times.push(begin.elapsed().as_millis() / 10 * 10);
            }
            times
        };
        let times = tokio::select! {
            () = keeper.keep() => unreachable!("it goes on for good"),
            times = rounds => times,
        };
        assert_eq!(times, [0, 50, 150, 350, 750, 1550, 2550, 3550]);
    }

    #[tokio::test]
    async fn a_silent_member_is_given_up_after_the_limit() {
        let server = EtcdServer::start().await;
        let proxy = Proxy::start(server.port());
        proxy.freeze();
        let limit = Duration::from_millis(200);
        let scene = Scene::with(proxy.port(), |options| options.connect_timeout = limit);
        let session = &scene.store.core.session;
        let Some(Err(error)) = within(LONG, session.conn()).await else {
            panic!("there is no connection");
        };
        assert_eq!(error.kind(), StoreErrorKind::TimedOut);
        assert!(error.has_no_effect(), "no request was sent");
    }
}
