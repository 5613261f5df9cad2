//! Counters of a server: missing connections, and messages that were sent again.

use metrics::{Gauge, counter, gauge};

use crate::telemetry::{
    names::{CONNECTIONS_LOST, DISCONNECTED, WAKE_UPS_RESENT},
    told,
};

/// A wake-up message that no script could publish was sent instead, or could not be.
pub(crate) fn wake_up_resent(server: &str, outcome: &'static str) {
    counter!(WAKE_UPS_RESENT, "server" => server.to_owned(), "outcome" => outcome).increment(1);
}

/// Of one connection; an outage that is dropped is over, as the connection is not wanted any more.
#[derive(Default)]
pub(crate) struct Outage(Option<Gauge>);

impl Outage {
    /// A connection has broken that was there.
    pub(crate) fn lost(&mut self, server: &str) {
        told(|| counter!(CONNECTIONS_LOST, "server" => server.to_owned()).increment(1));
        self.begins(server);
    }

    /// Records that the connection is missing. Only the first call counts.
    pub(crate) fn begins(&mut self, server: &str) {
        if self.0.is_none() {
            told(|| {
                let gauge = gauge!(DISCONNECTED, "server" => server.to_owned());
                gauge.increment(1);
                self.0 = Some(gauge);
            });
        }
    }

    pub(crate) fn ends(&mut self, server: &str) {
        // A gauge that is there before anything is wrong can be watched.
        told(|| gauge!(DISCONNECTED, "server" => server.to_owned()).increment(0));
        self.end();
    }

    fn end(&mut self) {
        if let Some(gauge) = self.0.take() {
            told(|| gauge.decrement(1));
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.end();
    }
}
