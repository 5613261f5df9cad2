//! The time until which a session certainly lasts.
//!
//! The leader ends a session when it has not heard of it for the session's time-out. A client's request is heard by the
//! server that it is connected to, which reports it to the leader in the answer to the leader's next ping. So an answer
//! alone proves little: a server that has lost the leader still answers reads, while the leader's time runs.
//!
//! 1. A request of the session is answered. Its server has heard of the session after the request was sent.
//! 2. At least a tick later, a write is sent, and answered. Leaders ping their followers twice a tick, and what a follower
//!    sends arrives in order. So the leader has heard of the request before it carried out the write. If the client has
//!    another server meanwhile, the leader has heard of the session when that server took it over.
//! 3. The session lasts for its time-out from the moment in which the request was sent.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Requests beyond this number are forgotten, the oldest first.
const MOST: usize = 512;

/// The answered requests of a session.
#[derive(Debug)]
pub(crate) struct Proof {
    time_out: Duration,
    tick: Duration,
    answered: Mutex<VecDeque<Request>>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    sent: Instant,
    /// A write that is sent from then on proves that the leader has heard of it.
    counts_from: Instant,
}

impl Proof {
    /// Starts with the request that made the session, of which the leader heard at once.
    pub(crate) fn new(time_out: Duration, tick: Duration, connecting: Instant) -> Self {
        let first = Request {
            sent: connecting,
            counts_from: connecting,
        };
        Self {
            time_out,
            tick,
            answered: Mutex::new(VecDeque::from([first])),
        }
    }

    /// Notes a request that has just been answered.
    pub(crate) fn note(&self, sent: Instant) {
        let counts_from = Instant::now() + self.tick;
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.push_back(Request { sent, counts_from });
        if answered.len() > MOST {
            answered.pop_front();
        }
    }

    /// Returns the moment until which the session lasts. A write that was sent at `write` has been answered.
    pub(crate) fn lasts_until(&self, write: Instant) -> Option<Instant> {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = answered
            .iter()
            .filter(|request| request.counts_from <= write);
        let latest = before.map(|request| request.sent).max()?;
        Some(latest + self.time_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_for_a_write_a_tick_after_its_answer() {
        let ms = Duration::from_millis;
        let begun = Instant::now();
        let proof = Proof::new(ms(10_000), ms(500), begun);
        advance(ms(3000)).await;
        let sent = Instant::now();
        advance(ms(100)).await;
        proof.note(sent);
        let answered = Instant::now();
        let until = |write| proof.lasts_until(write).unwrap() - begun;
        assert_eq!(until(answered), ms(10_000));
        assert_eq!(until(answered + ms(499)), ms(10_000));
        assert_eq!(until(answered + ms(500)), ms(13_000));
    }
}
