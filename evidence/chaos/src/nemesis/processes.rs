//! Workers that are killed, and that stand still.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{BEYOND, LOOK, Nemesis, RECOVERY};
use crate::{
    crowd::{About, Victim},
    follow::Follow,
};

/// So long a process of the right sort is looked for at a time.
const FOUND: Duration = Duration::from_secs(20);

/// For the rest of that, any of its sort will do.
const UNCHOOSY: Duration = Duration::from_secs(15);

impl Nemesis<'_> {
    pub(super) async fn kill(&mut self, victim: Victim) -> bool {
        let end = Instant::now() + FOUND;
        while Instant::now() < end {
            if let Some(place) = self.crowd.find(victim, &mut self.random)
                && self.crowd.kill(place, victim)
            {
                return true;
            }
            if self.crowd.has_crashed() {
                return false;
            }
            // Whoever was stopped in vain is to go on for a while.
            sleep(LOOK).await;
        }
        false
    }

    pub(super) async fn stop(&mut self, victim: Victim, is_beyond_a_lease: bool) -> bool {
        // One that writes at once when it goes on.
        let mut about = if victim == Victim::Holder && is_beyond_a_lease {
            About::Blind
        } else {
            About::Anything
        };
        let end = Instant::now() + FOUND;
        let place = loop {
            if let Some(place) = self.crowd.find(victim, &mut self.random)
                && self.crowd.stop(place, victim, about)
            {
                break place;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left <= UNCHOOSY {
                about = About::Anything;
            }
            if left.is_zero() || self.crowd.has_crashed() {
                return false;
            }
            // Whoever was stopped in vain is to go on for a while.
            sleep(LOOK).await;
        };
        let time = if is_beyond_a_lease {
            // Another process has polled again by the end of it, and holds the lock.
            let silence = self.world.topology.silence();
            silence + self.random.between(2 * BEYOND, 3 * BEYOND)
        } else {
            self.random.millis(700)
        };
        sleep(time).await;
        self.crowd.resume(place);
        true
    }

    /// Stops a holder between the reads and the writes of a transaction, until another process has written to the same account.
    /// Returns whether the transaction has been carried out after all: then two have read the same.
    pub(super) async fn stop_in_a_transaction(&mut self) -> bool {
        let end = Instant::now() + FOUND;
        let (place, read) = loop {
            if let Some(place) = self.crowd.find(Victim::Holder, &mut self.random)
                && self.crowd.stop(place, Victim::Holder, About::Transaction)
                && let Some(read) = self.crowd.works(place)
            {
                break (place, read);
            }
            if Instant::now() > end || self.crowd.has_crashed() {
                return false;
            }
            sleep(LOOK).await;
        };
        let before = self.crowd.follow.postings.len();
        let is_overtaken = self.until(|follow| {
            let mut later = follow.postings[before..].iter();
            later.any(|it| it.process != read.process && it.key == read.key)
        });
        let is_overtaken = is_overtaken.await;
        self.crowd.resume(place);
        let has_ended = self.until(|follow| follow.has_ended(&read)).await;
        is_overtaken && has_ended && self.crowd.follow.postings[before..].contains(&read)
    }

    /// Waits until this is so. `false` if that takes too long, or a process has ended by itself.
    async fn until(&mut self, is_so: impl Fn(&Follow) -> bool) -> bool {
        let end = Instant::now() + RECOVERY;
        loop {
            self.crowd.look();
            if is_so(&self.crowd.follow) {
                return true;
            }
            if Instant::now() > end || self.crowd.has_crashed() {
                return false;
            }
            sleep(LOOK).await;
        }
    }
}
