//! The times in which a connection is missing.

use metrics::{Gauge, counter, gauge};

use super::names::{CONNECTIONS_LOST, DISCONNECTED};

/// Of one connection; an outage that is dropped is over, as nobody wants the connection any more.
#[derive(Default)]
pub(crate) struct Outage(Option<Gauge>);

impl Outage {
    /// A connection has broken that was there.
    pub(crate) fn lost(&mut self, server: &str) {
        counter!(CONNECTIONS_LOST, "server" => server.to_owned()).increment(1);
        self.begins(server);
    }

    /// There is none; told more than once, the first time counts.
    pub(crate) fn begins(&mut self, server: &str) {
        self.0.get_or_insert_with(|| {
            let gauge = gauge!(DISCONNECTED, "server" => server.to_owned());
            gauge.increment(1);
            gauge
        });
    }

    pub(crate) fn ends(&mut self, server: &str) {
        // A gauge that is there before anything is wrong can be watched.
        gauge!(DISCONNECTED, "server" => server.to_owned()).increment(0);
        self.0.take().inspect(|gauge| gauge.decrement(1));
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.0.take().inspect(|gauge| gauge.decrement(1));
    }
}
