//! The connection on the runtime of the callers.
//!
//! A request is answered sooner if it does not change threads on its way. So a store has a second connection to the same
//! member, whose tasks are on the runtime of the first caller, and whose socket is in the reactor of that runtime. Only
//! `acquire` and `release` use it, and they can do without. All else, and requests for a place in a queue, have the store's own
//! connection, see `session.rs`.
//!
//! # Rules
//!
//! - **Safety.** A lease does not depend on a runtime that may be blocked or end: renewals, the places of waiters, watches, and
//!   releases without a caller never use this connection. (`a_body_that_blocks_its_thread_keeps_the_leases_of_its_store`)
//! - **Safety.** It is a connection like any other. It reads and raises the base itself, knows only terms that it has seen
//!   itself, and a keep-alive and its confirmation are over one connection. So the rules of `base.rs` and `calls.rs` hold over
//!   it, as they do for two processes.
//! - A request uses it only on its own runtime, which is polled when the request is. Every other one takes the store's own
//!   connection. (`requests_of_other_runtimes_do_not_wait_for_that_of_the_first_caller`)
//! - When a request has got no answer, others take the store's own connection until this one has answered. It is tried when
//!   its runtime is polled again. So an idle runtime keeps its connection, and so does one that is polled only briefly.
//!   (`a_connection_in_doubt_waits_for_its_runtime_to_be_polled`, `an_answer_that_was_not_read_is_no_silence`)
//! - A connection that is silent then is made again. If that happens a second time, and the store's own connection answers, its
//!   tasks are stuck behind bodies that block, and it is left for good. (`a_connection_that_is_stuck_on_its_runtime_is_left`)
//! - When its runtime has ended, the next caller's is used. (`the_runtime_of_the_next_caller_follows_one_that_has_ended`) dlock
//!   pauses first: a connection costs a login and a new base of fences, and a program may have a runtime for each call.
//!   (`runtimes_that_end_soon_have_no_connection_each`)

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use dlock_runtime::store::StoreError;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
    task::{JoinError, JoinSet},
    time::{Instant, sleep, timeout},
};
use tonic::transport::Channel;

use crate::{
    config::{Config, Member},
    conn::{Conn, Ties, Tried},
    dial::dial,
    doubt::Doubt,
    raise,
};

/// The pause before the connection is made again. It doubles up to [`LONGEST_PAUSE`]: requests can do without.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connection without traffic is tried this often.
const LOOK: Duration = Duration::from_secs(5);

/// The connection on the runtime of the callers, if there is one now.
pub(crate) struct Near {
    config: Arc<Config>,
    is_full: Arc<AtomicBool>,
    /// The thread of the store, which is no caller's.
    own: Handle,
    state: Mutex<State>,
    /// Notified when there is a runtime.
    found: Notify,
}

#[derive(Default)]
struct State {
    home: Home,
    up: Option<Up>,
    /// How often it was silent although the store's own connection was not. Once may be the end of an outage.
    silences: u8,
}

/// The runtime of the callers.
#[derive(Default)]
enum Home {
    /// No request has come yet.
    #[default]
    Unknown,
    Of(Handle),
    /// There is no connection on it any more.
    Left,
}

struct Up {
    conn: Arc<Conn>,
    doubt: Arc<Doubt>,
}

/// The reason for which a connection is there no more.
enum Lost {
    /// It has broken.
    Broken,
    /// It does not answer.
    Silent,
    /// Its runtime has ended.
    Ended,
    /// Its runtime has no sockets.
    Unfit,
}

impl Near {
    pub(crate) fn new(own: Handle, config: Arc<Config>, is_full: Arc<AtomicBool>) -> Self {
        Self {
            config,
            is_full,
            own,
            state: Mutex::default(),
            found: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before any code can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, if the request that calls this is on its runtime and there is no doubt about it.
    pub(crate) fn conn(&self) -> Option<Arc<Conn>> {
        let caller = Handle::try_current().ok()?;
        let mut state = self.state();
        match &state.home {
            Home::Of(home) if home.id() == caller.id() => {
                let up = state.up.as_ref().filter(|up| !up.doubt.is_open());
                up.map(|up| up.conn.clone())
            }
            Home::Unknown if caller.id() != self.own.id() => {
                state.home = Home::Of(caller);
                self.found.notify_one();
                None
            }
            _ => None,
        }
    }

    /// Has a connection to `member` as long as `main`, the store's own one to the same member, is there.
    pub(crate) async fn keep(&self, member: &Member, main: &Conn) -> Infallible {
        let mut pause = PAUSE;
        loop {
            let (home, since) = (self.home().await, Instant::now());
            match self.serve(&home, member, main).await {
                Lost::Ended => self.state().home = Home::Unknown,
                Lost::Unfit => self.state().home = Home::Left,
                Lost::Silent if main.try_out().await == Tried::Answers => {
                    self.was_silent();
                    continue;
                }
                // The store's own connection may be lost as well, and the next one here would have its number.
                Lost::Silent | Lost::Broken => main.doubt().raise(),
            }
            let has_lasted = since.elapsed() > LONGEST_PAUSE;
            if has_lasted {
                pause = PAUSE;
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn was_silent(&self) {
        let mut state = self.state();
        state.silences += 1;
        if state.silences > 1 {
            state.home = Home::Left;
            tracing::debug!(
                target: "dlock::store", url = %self.config.shown,
                "requests on the callers' runtime got no answers; they use the thread of the store from now on"
            );
        }
    }

    /// Waits until there is a runtime.
    async fn home(&self) -> Handle {
        loop {
            if let Home::Of(home) = &self.state().home {
                return home.clone();
            }
            self.found.notified().await;
        }
    }

    /// Makes a connection and offers it to requests, until it is lost.
    async fn serve(&self, home: &Handle, member: &Member, main: &Conn) -> Lost {
        let mut tasks = JoinSet::new();
        let (channel, dialled) = oneshot::channel();
        let (say, begun) = oneshot::channel();
        let dialling = dial(member);
        let anchor = async move {
            say.send(()).ok();
            if channel.send(dialling.await).is_ok() {
                // From now on its end is that of the runtime.
                std::future::pending::<()>().await;
            }
        };
        tasks.spawn_on(anchor, home);
        // The runtime may not be polled for any time.
        if begun.await.is_err() {
            return ended(&mut tasks).await;
        }
        let limit = self.config.connect_limit;
        let channel = match timeout(limit, dialled).await {
            Ok(Ok(Ok(channel))) => channel,
            Ok(Ok(Err(error))) => {
                drop(member.failed(error));
                return Lost::Broken;
            }
            Ok(Err(_)) => return ended(&mut tasks).await,
            Err(_) => return Lost::Silent,
        };
        // Dropped, it ends the requests that are under way.
        let (_give_up, ends) = watch::channel(());
        let doubt = Arc::new(Doubt::with(main.doubt().clone()));
        let ties = Ties {
            doubt: doubt.clone(),
            given_up: ends,
            is_full: self.is_full.clone(),
            number: main.number(),
        };
        let opened = self.open(member, channel, ties);
        let conn = match timeout(limit, opened).await {
            Ok(Ok(conn)) => Arc::new(conn),
            Ok(Err(error)) => {
                drop(member.failed(error));
                return Lost::Broken;
            }
            Err(_) => return Lost::Silent,
        };
        let _offered = self.offer(conn.clone(), doubt.clone());
        loop {
            tokio::select! {
                lost = ended(&mut tasks) => return lost,
                () = doubt.raised() => {}
                () = sleep(LOOK) => {}
            }
            match try_on(home, &conn).await {
                Ok(Tried::Answers) => {}
                Ok(Tried::Fails) => return Lost::Broken,
                Ok(Tried::IsSilent) => return Lost::Silent,
                Err(_) => return Lost::Ended,
            }
        }
    }

    async fn open(
        &self,
        member: &Member,
        channel: Channel,
        ties: Ties,
    ) -> Result<Conn, StoreError> {
        let place = member.place.clone();
        let conn = Conn::open(self.config.clone(), place, channel, ties).await?;
        raise::begin(&conn).await?;
        Ok(conn)
    }

    fn offer(&self, conn: Arc<Conn>, doubt: Arc<Doubt>) -> Offered<'_> {
        self.state().up = Some(Up { conn, doubt });
        Offered(self)
    }
}

/// A connection that requests may use. Dropped, it is withdrawn.
struct Offered<'a>(&'a Near);

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        let withdrawn = self.0.state().up.take();
        drop(withdrawn);
    }
}

/// Tries a connection on this runtime, while that is polled. An error if it has ended.
async fn try_on(home: &Handle, conn: &Conn) -> Result<Tried, JoinError> {
    let mut answered = pin!(conn.is_answered());
    let tried = conn.within_limit(answered.as_mut()).await;
    if tried != Tried::IsSilent {
        return Ok(tried);
    }
    // Nothing is sent or read while the runtime is not polled.
    home.spawn(async {}).await?;
    Ok(conn.within_limit(answered).await)
}

/// Waits until the runtime of a task has ended.
async fn ended(tasks: &mut JoinSet<()>) -> Lost {
    let ended = tasks.join_next().await;
    let has_panicked = ended.is_some_and(|it| it.is_err_and(|error| error.is_panic()));
    if has_panicked {
        Lost::Unfit
    } else {
        Lost::Ended
    }
}

#[cfg(test)]
mod tests;
