//! Workers that are killed, and that stand still.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{BEYOND, LOOK, Nemesis};
use crate::crowd::Victim;

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
        let mut only_blind = victim == Victim::Holder && is_beyond_a_lease;
        let end = Instant::now() + FOUND;
        let place = loop {
            if let Some(place) = self.crowd.find(victim, &mut self.random)
                && self.crowd.stop(place, victim, only_blind)
            {
                break place;
            }
            let left = end.saturating_duration_since(Instant::now());
            only_blind &= left > UNCHOOSY;
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
}
