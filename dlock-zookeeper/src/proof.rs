//! The time until which a session certainly lasts.
//!
//! The leader ends a session when it has not heard of it for the session's time-out. A client's request is heard by the
//! server that it is connected to, which reports it to the leader in the answer to the leader's next ping. So an answer
//! alone proves little: a server that has lost the leader still answers reads, while the leader's time runs. A write alone
//! proves little as well: pings may be late on their way to the server, and a write that passes them tells of nothing else.
//!
//! 1. A request of the session is answered. Its server has heard of the session after the request was sent.
//! 2. At least a tick later, a `sync` is sent, and answered. The leader pings twice a tick, so a ping has left it before its
//!    answer to the `sync`, on the same connection. The server has answered that ping before it passed the answer on.
//! 3. A write that is sent from then on is carried out. It reached the leader behind the answer to the ping, so the leader has
//!    heard of the request before. If the client has another server meanwhile, the leader has heard of the session when
//!    that server took it over. A new leader counts each session anew, and its servers have dropped their clients before.
//! 4. The session lasts for its time-out from the moment in which the request was sent.
//!
//! Every request that proves the session is a `sync`, and so the second step for earlier ones.
//!
//! # Assumptions
//!
//! - The leader's pings are on time: its thread for pings is never paused for so long that two pings are more than a tick
//!   apart while other threads of the same process carry out writes. A pause of the whole process does no harm.
//! - No client uses an observer that is connected to a follower (`observerMasterPort`). Its report takes two pings to the leader, of
//!   which a `sync` proves the first alone.
//! - The time-out is the same at every server, at all times. It is negotiated again at each reconnection, and the client does
//!   not report the new one. A server with a smaller `maxSessionTimeout` would shorten it unnoticed.
//!
//! # Rules
//!
//! - **Safety.** Time asleep counts, as it does for deadlines: a moment has two clocks, and the session must last by
//!   both. (`time_asleep_counts_for_the_session`)

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dlock_runtime::clock::Moment;

/// Requests beyond this number are forgotten, the oldest first.
const MOST: usize = 512;

/// The answered requests of a session.
#[derive(Debug)]
pub(crate) struct Proof {
    time_out: Duration,
    tick: Duration,
    answered: Mutex<VecDeque<Request>>,
    /// When the latest write was sent that has been answered.
    written: Mutex<Option<Moment>>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    sent: Moment,
    answered: Moment,
    /// A write that is sent from then on proves that the leader has heard of it. `None` before a later request was answered.
    counts_from: Option<Moment>,
}

impl Proof {
    /// Starts with the request that made the session, of which the leader heard at once.
    pub(crate) fn new(time_out: Duration, tick: Duration, connecting: Moment) -> Self {
        let first = Request {
            sent: connecting,
            answered: connecting,
            counts_from: Some(connecting),
        };
        Self {
            time_out,
            tick,
            answered: Mutex::new(VecDeque::from([first])),
            written: Mutex::default(),
        }
    }

    /// Notes a `sync` that was sent and answered at these moments.
    pub(crate) fn note(&self, sent: Moment, answered: Moment) {
        let mut all = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        for earlier in all.iter_mut().filter(|it| it.counts_from.is_none()) {
            if is_by_both(earlier.answered.plus(self.tick), sent) {
                earlier.counts_from = Some(answered);
            }
        }
        all.push_back(Request {
            sent,
            answered,
            counts_from: None,
        });
        if all.len() > MOST {
            all.pop_front();
        }
    }

    /// Notes a write that was sent at this moment, and that has been carried out.
    pub(crate) fn wrote(&self, sent: Moment) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_none_or(|last| is_by_both(last, sent)) {
            *written = Some(sent);
        }
    }

    /// Returns `true` if the session certainly lasts until `end`, by the latest of its writes.
    pub(crate) fn lasts_until(&self, end: Moment) -> bool {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.is_some_and(|write| self.lasts(write, end))
    }

    /// Returns `true` if the session certainly lasts until `end`. A write that was sent at `write` has been answered.
    fn lasts(&self, write: Moment, end: Moment) -> bool {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = answered.iter().filter(|request| {
            request
                .counts_from
                .is_some_and(|from| is_by_both(from, write))
        });
        before.any(|request| is_by_both(end, request.sent.plus(self.time_out)))
    }
}

/// Returns `true` if a moment is not after another one, by both clocks.
fn is_by_both(moment: Moment, other: Moment) -> bool {
    moment.monotonic <= other.monotonic && moment.boot <= other.boot
}

#[cfg(test)]
mod tests {
    use dlock_runtime::clock::{Clock, SystemClock};

    use super::*;

    const TIME_OUT: Duration = Duration::from_secs(10);

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_request_counts_for_a_write_after_one_that_was_sent_a_tick_later() {
        let begun = SystemClock.now();
        let proof = Proof::new(TIME_OUT, ms(500), begun);
        for (sent, answered) in [(3000, 3100), (3599, 3650), (3600, 3700), (3800, 3900)] {
            proof.note(begun.plus(ms(sent)), begun.plus(ms(answered)));
        }
        for (write, until) in [
            (3100, 10_000),
            (3699, 10_000),
            (3700, 13_000),
            (4900, 13_000),
        ] {
            let lasts = |end| proof.lasts(begun.plus(ms(write)), begun.plus(ms(end)));
            assert!(lasts(until), "{write}");
            assert!(!lasts(until + 1), "{write}");
        }
    }

    #[test]
    fn the_latest_write_counts_whichever_is_noted_last() {
        let begun = SystemClock.now();
        let proof = Proof::new(TIME_OUT, ms(500), begun);
        proof.note(begun.plus(ms(3000)), begun.plus(ms(3100)));
        proof.note(begun.plus(ms(3600)), begun.plus(ms(3600)));
        assert!(!proof.lasts_until(begun), "there was no write");
        for (write, until) in [(100, 10_000), (3600, 13_000), (2000, 13_000)] {
            proof.wrote(begun.plus(ms(write)));
            let lasts = |end| proof.lasts_until(begun.plus(ms(end)));
            assert!(lasts(until) && !lasts(until + 1), "{write}");
        }
    }

    #[test]
    fn the_latest_requests_are_kept_however_many_there_were() {
        let begun = SystemClock.now();
        let proof = Proof::new(TIME_OUT, ms(500), begun);
        let kept = || proof.answered.lock().unwrap().len();
        for number in 1..1000 {
            let sent = begun.plus(ms(number * 500));
            proof.note(sent, sent);
            let noted = usize::try_from(number).unwrap();
            assert_eq!(kept(), (noted + 1).min(MOST));
        }
        let last = begun.plus(ms(999 * 500));
        let proven = last.plus(TIME_OUT.saturating_sub(ms(500)));
        assert!(proof.lasts(last, proven) && !proof.lasts(last, proven.plus(ms(1))));
    }

    #[test]
    fn time_asleep_counts_for_the_session() {
        let begun = SystemClock.now();
        let proof = Proof::new(TIME_OUT, ms(500), begun);
        proof.note(begun, begun);
        // Tokio's clock stands still meanwhile.
        let after_sleep = Moment {
            boot: begun.boot + ms(7000),
            ..begun.plus(ms(1000))
        };
        assert!(proof.lasts(after_sleep, after_sleep.plus(ms(3000))));
        assert!(!proof.lasts(after_sleep, after_sleep.plus(ms(3001))));
    }
}
