//! Keeps a working connection to the server for the life of the store.
//!
//! Only the task of this module connects. It replaces the connection
//! - when it breaks, which the library reports at once because it always reads;
//! - when the server is a replica, or has forgotten the login;
//! - when the connection is silently dead. A request without an answer in time, or whose caller cancelled it
//!   before, causes a PING. Answers arrive in the order of the requests, so the PING may take long while many
//!   requests are ahead of it: the connection is kept as long as any answer arrives within each response
//!   timeout. This limit is the only difference between a slow server and a dead one. An idle connection is
//!   checked from time to time, because hints arrive on it as well;
//! - when the Sentinels name another master.
//!
//! A server that refuses subscriptions for a while, such as one without memory, is used without hints.
//!
//! If hints need a separate connection, as with RESP2, these rules apply to both connections together.
//!
//! The task restarts after a panic, with the next request after its runtime has ended, and on dlock's own thread when
//! its runtime does not run.
//!
//! The old socket is closed before the new one is used. While there is no connection, callers wait for the
//! first attempt; after it fails, they get the last failure at once and decide themselves how long to retry.
//! The first attempt after a loss has a random delay, so that not all processes of a fleet reconnect at once.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    connection::{Connection, Handle},
    events::Events,
    hints::Hints,
    service::Work,
    task::TaskEnd,
};
use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{RedisConfig, config::url::Endpoint, protocol::errors, topology::source::Source},
    },
};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Processes whose connections were lost at the same moment reconnect within this time.
const MOST_SCATTER: Duration = Duration::from_millis(100);

/// A longer attempt would delay the reconnection to a network that works again.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);

/// A server that sends no hints is asked for them again after this time.
const UNHEARD_FOR: Duration = Duration::from_secs(1);

/// The state of the connection, for callers.
#[derive(Clone)]
pub(crate) enum ConnectionState {
    /// The outcome of the first attempt is unknown yet.
    Connecting {
        /// The last connection was closed because of a missing answer.
        after_silence: bool,
    },
    Ready(Handle),
    /// The last attempt failed, and others follow.
    Failed(StoreError),
}

pub(crate) struct Supervisor {
    source: Source,
    config: Arc<RedisConfig>,
    hints: Arc<Hints>,
    state: watch::Sender<ConnectionState>,
    events: Events,
    keep_alive: KeepAlive,
    /// The task that reads and writes on the last connection.
    driver: Option<TaskEnd>,
}

impl Work for Supervisor {
    /// Never ends.
    async fn run(&mut self) {
        let attempt = self.config.connect_timeout.min(LONGEST_ATTEMPT);
        self.last_has_closed(attempt).await;
        let mut pause = Backoff::default();
        // Created before the first connection, so that no manager is missed that attaches in the meantime.
        let mut attached = self.hints.attached();
        loop {
            let error = match self.open(attempt).await {
                Ok((endpoint, mut link)) => {
                    self.driver = Some(link.driver());
                    let since = Instant::now();
                    self.events.connected();
                    self.events.evicts(link.evicts());
                    self.events.unheard(link.unheard());
                    self.state
                        .send_replace(ConnectionState::Ready(link.handle()));
                    self.hints.look_again(&self.hints.clients());
                    let watched = self.watch_over(&endpoint, &mut link, &mut attached, attempt);
                    let error = watched.await;
                    // No request starts on a connection that is about to be closed.
                    let after_silence = error.kind() == StoreErrorKind::TimedOut;
                    self.state
                        .send_replace(ConnectionState::Connecting { after_silence });
                    self.events.lost(&error);
                    let lived = since.elapsed();
                    link.close(error.clone()).await;
                    if let Some(scatter) = pause.outlived(lived, SystemRandom.next_u64()) {
                        // Callers wait for this delay.
                        sleep(scatter).await;
                        continue;
                    }
                    // A connection that breaks early counts as a failed attempt. Otherwise this process and the
                    // server could reconnect in a loop.
                    error
                }
                Err(error) => {
                    self.events.failed(&error);
                    error
                }
            };
            let pause = pause.next(error.is_final());
            self.state.send_replace(ConnectionState::Failed(error));
            sleep(pause).await;
        }
    }

    fn interrupted(&mut self, panic: Option<&str>) {
        let Some(panic) = panic else {
            // The next request connects again. The end of a program is not an outage.
            self.state.send_replace(ConnectionState::Connecting {
                after_silence: false,
            });
            return;
        };
        let message = format!("the connection task panicked: {panic}");
        let error = StoreError::new(StoreErrorKind::Disconnected, message);
        let was_ready = matches!(&*self.state.borrow(), ConnectionState::Ready(_));
        self.state
            .send_replace(ConnectionState::Failed(error.clone()));
        if was_ready {
            self.events.lost(&error);
        } else {
            self.events.failed(&error);
        }
    }
}

impl Supervisor {
    pub(crate) fn new(
        source: Source,
        config: Arc<RedisConfig>,
        hints: Arc<Hints>,
        state: watch::Sender<ConnectionState>,
        events: Events,
    ) -> Self {
        Self {
            source,
            keep_alive: KeepAlive::new(config.response_timeout),
            config,
            hints,
            state,
            events,
            driver: None,
        }
    }

    /// After an interruption of this task, waits until the socket of the last connection is closed. Requests on it
    /// must not be carried out after requests on the next connection.
    async fn last_has_closed(&mut self, limit: Duration) {
        let begun = Instant::now();
        if let Some(driver) = self.driver.take() {
            driver.end();
            // A thread that polls it at this moment may take long.
            while !driver.has_ended() && begun.elapsed() < limit {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    async fn open(&self, limit: Duration) -> Result<(Endpoint, Connection), StoreError> {
        let endpoint = self.source.find(limit).await?;
        let link = Connection::open(&endpoint, &self.config, &self.hints, limit).await?;
        Ok((endpoint, link))
    }

    /// Returns the reason when the connection has to be replaced.
    async fn watch_over(
        &mut self,
        endpoint: &Endpoint,
        link: &mut Connection,
        attached: &mut watch::Receiver<()>,
        attempt: Duration,
    ) -> StoreError {
        let Self {
            source,
            hints,
            events,
            keep_alive,
            ..
        } = self;
        let health = link.health();
        let mut moved = pin!(source.moved(endpoint, keep_alive.longest, attempt));
        loop {
            let (begun, reads) = (Instant::now(), link.reads());
            let is_unheard = link.unheard().is_some();
            let looked = async {
                let doubt = tokio::select! {
                    news = health.news() => news.map(|()| Doubt::Answers)?,
                    Ok(()) = attached.changed() => Doubt::Subscriptions,
                    error = link.broken() => return Err(error),
                    () = sleep(UNHEARD_FOR), if is_unheard => Doubt::Subscriptions,
                    () = sleep(keep_alive.pause) => Doubt::Idle,
                    elsewhere = &mut moved => return Err(elsewhere),
                };
                let checked = async {
                    match doubt {
                        Doubt::Answers => link.ping().await,
                        Doubt::Idle => {
                            link.ping().await?;
                            keep_alive.was_kept();
                            Ok(())
                        }
                        Doubt::Subscriptions => {
                            let new = link.subscribe(hints).await?;
                            events.unheard(link.unheard());
                            hints.look_again(&new);
                            Ok(())
                        }
                    }
                };
                // The ping may wait behind other requests, which may fail in the meantime.
                tokio::select! {
                    biased;
                    fault = health.failed() => Err(fault),
                    elsewhere = &mut moved => Err(elsewhere),
                    checked = checked => checked,
                }
            };
            if let Err(error) = looked.await {
                if error.message() == errors::BROKEN && link.reads() == reads {
                    keep_alive.was_closed(begun.elapsed());
                }
                return error;
            }
        }
    }
}

/// A suspicion that the supervisor has to check.
enum Doubt {
    /// The server may not answer any more.
    Answers,
    /// The same, because nothing has happened for a while.
    Idle,
    /// Some client may not be subscribed.
    Subscriptions,
}

/// The time after which an idle connection is checked.
///
/// Servers and proxies may close an idle connection, by a setting such as `timeout` that a client cannot read. Without
/// a subscription this would happen again and again, so the time is learnt.
struct KeepAlive {
    longest: Duration,
    pause: Duration,
    /// The last connection was closed while it was idle.
    is_closed: bool,
}

impl KeepAlive {
    /// An idle connection is checked after this many response timeouts.
    const FACTOR: u32 = 5;
    const LEAST: Duration = Duration::from_millis(100);

    fn new(response_timeout: Duration) -> Self {
        let longest = response_timeout.saturating_mul(Self::FACTOR);
        Self {
            longest,
            pause: longest,
            is_closed: false,
        }
    }

    /// Records that a connection was closed after it had been idle for this time. The first one may be chance: an
    /// operator or a restart has closed it.
    fn was_closed(&mut self, after: Duration) {
        if self.is_closed {
            // Servers count whole seconds, so half of the time may be too much.
            self.pause = (after / 3).max(Self::LEAST).min(self.pause);
        }
        self.is_closed = true;
    }

    /// Records that a connection was still there when it was checked.
    fn was_kept(&mut self) {
        self.is_closed = false;
    }
}

/// The pauses between attempts.
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Backoff {
    fn next(&mut self, is_final: bool) -> Duration {
        // A repeated attempt does not help against a wrong password.
        let pause = if is_final { LONGEST_PAUSE } else { self.0 };
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        jittered(pause * 4 / 5, SystemRandom.next_u64())
    }

    /// Returns the pause after the loss of a connection that lived for `lived`, or `None` if it counts as a failed
    /// attempt.
    ///
    /// A loss that affects many connections usually affects old ones, and frequent losses must not cause long
    /// outages. The delay therefore grows with the age of the connection.
    fn outlived(&mut self, lived: Duration, random: u64) -> Option<Duration> {
        if lived <= self.0 {
            return None;
        }
        *self = Self::default();
        let longest = (lived / 4).min(MOST_SCATTER);
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(random % nanos.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut pause = Backoff::default();
        let pauses: Vec<_> = (0..10).map(|_| pause.next(false)).collect();
        assert!(pauses[0] <= FIRST_PAUSE && !pauses[0].is_zero());
        assert!(
            pauses.windows(2).take(5).all(|pair| pair[0] < pair[1]),
            "{pauses:?}"
        );
        assert!(pauses[9] <= LONGEST_PAUSE && pauses[9] > LONGEST_PAUSE / 2);
        assert!(pause.outlived(2 * LONGEST_PAUSE, 0).is_some());
        assert!(pause.next(false) <= FIRST_PAUSE);
        assert!(
            pause.next(true) > LONGEST_PAUSE / 2,
            "nothing to be hoped for soon"
        );
    }

    #[test]
    fn a_time_after_which_idle_connections_are_closed_is_learnt() {
        let second = Duration::from_secs(1);
        let mut keep_alive = KeepAlive::new(second);
        assert_eq!(keep_alive.pause, 5 * second);
        keep_alive.was_closed(3 * second);
        assert_eq!(keep_alive.pause, 5 * second, "it may be chance");
        keep_alive.was_closed(3 * second);
        assert_eq!(keep_alive.pause, second);
        keep_alive.was_kept();
        keep_alive.was_closed(second / 10);
        assert_eq!(keep_alive.pause, second, "it may be chance");
        keep_alive.was_closed(Duration::ZERO);
        assert_eq!(keep_alive.pause, KeepAlive::LEAST);
        keep_alive.was_closed(10 * second);
        assert_eq!(keep_alive.pause, KeepAlive::LEAST);
    }

    /// Returns the pauses of a connection that is lost repeatedly at the same age.
    fn pauses_at(lived: Duration) -> Vec<Duration> {
        let mut pause = Backoff::default();
        let mut next = |_| {
            let scatter = pause.outlived(lived, SystemRandom.next_u64());
            scatter.unwrap_or_else(|| pause.next(false))
        };
        (0..200).map(&mut next).collect()
    }

    #[test]
    fn what_dies_at_once_is_tried_with_longer_and_longer_pauses() {
        let pauses = pauses_at(Duration::from_millis(1));
        assert!(pauses[6..].iter().all(|it| *it > LONGEST_PAUSE / 2));
    }

    #[test]
    fn what_is_lost_often_is_missing_for_a_part_of_its_life_only() {
        for milliseconds in [25, 200, 399, 1000, 60_000] {
            let lived = Duration::from_millis(milliseconds);
            let pauses = pauses_at(lived);
            let longest = (lived / 4).min(MOST_SCATTER);
            assert!(pauses.iter().all(|it| *it <= longest), "{lived:?}");
            // The pauses cover the whole range.
            let of_part = |part: u32| {
                let (from, to) = (longest * part / 4, longest * (part + 1) / 4);
                pauses.iter().any(|it| (from..=to).contains(it))
            };
            assert!((0..4).all(of_part), "{lived:?}: {pauses:?}");
        }
    }

    #[test]
    fn a_series_of_failures_ends_with_a_connection_that_outlives_the_next_pause() {
        let mut pause = Backoff::default();
        while pause.0 < LONGEST_PAUSE {
            pause.next(false);
        }
        assert_eq!(pause.outlived(LONGEST_PAUSE, 7), None);
        assert_eq!(pause.0, LONGEST_PAUSE);
        let lived = LONGEST_PAUSE + Duration::from_millis(1);
        assert_eq!(pause.outlived(lived, 0), Some(Duration::ZERO));
        assert_eq!(pause.0, FIRST_PAUSE);
    }
}
