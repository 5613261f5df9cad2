//! Reads the state of the servers: settings, clocks, round trips and permissions.

use futures_util::future::join_all;

use super::Inspector;
use crate::{
    admin::{ClockReading, Denied, ReplicaReport, ServerReport},
    store::redis::{NodeFacts, RedisStore},
};

impl Inspector {
    /// Reports on each server: its settings, its clock, its round trips, and the permissions that the user
    /// lacks. Permissions are tested on a key and a channel that have no other use. The test changes nothing,
    /// but the server's log may contain the refusals.
    ///
    /// # Cancel safety
    ///
    /// The method changes nothing, so the future can be dropped at any time.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// for report in inspector.servers().await {
    ///     println!("{}: {} permissions are missing", report.server, report.denied.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn servers(&self) -> Vec<ServerReport> {
        let told = join_all(self.stores.iter().map(RedisStore::facts)).await;
        told.into_iter().flatten().map(report).collect()
    }
}

fn report(facts: NodeFacts) -> ServerReport {
    let denied = facts.denied.into_iter();
    let denied = denied.map(|(rule, purpose, is_required)| Denied {
        rule,
        purpose: purpose.to_owned(),
        is_required,
    });
    let reading = |(ahead_us, uncertainty)| ClockReading {
        ahead_us,
        uncertainty,
    };
    let replicas = facts.replicas.into_iter();
    let replicas = replicas.map(|(address, clock)| ReplicaReport {
        address,
        clock: clock.map(reading),
    });
    ServerReport {
        server: facts.server,
        failure: facts.failure,
        info: facts.info,
        appendfsync: facts.appendfsync,
        clock: facts.clock.map(reading),
        round_trips: facts.round_trips,
        denied: denied.collect(),
        unpublished: facts.unpublished,
        replicas: replicas.collect(),
    }
}
