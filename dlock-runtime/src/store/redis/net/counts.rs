//! Metrics of a server: missing connections, and wake-up messages that the client published.

use metrics::{Gauge, counter, gauge};

use crate::telemetry::{
    names::{CONNECTIONS_LOST, DISCONNECTED, WAKE_UPS_RESENT},
    told,
};

/// Counts a wake-up message that a script could not publish, with the outcome of publishing it from here.
pub(crate) fn wake_up_resent(server: &str, outcome: &'static str) {
    counter!(WAKE_UPS_RESENT, "server" => server.to_owned(), "outcome" => outcome).increment(1);
}

/// The metrics of one connection. Dropping it ends the outage, because the connection is not needed any more.
#[derive(Default)]
pub(crate) struct Outage(Option<Gauge>);

impl Outage {
    /// Counts the loss of an established connection.
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
        // A gauge that exists before the first fault can be monitored.
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
