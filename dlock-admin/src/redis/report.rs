//! Reads the state of the servers: settings, clocks, round trips and permissions.

use std::collections::BTreeMap;

use dlock_runtime::admin::{NodeFacts, RedisReader};
use futures_util::future::join_all;

use super::Inspector;
use crate::model::{ClockReading, Denied, ReplicaReport, ServerReport};

impl Inspector {
    /// Reports on each server.
    pub(super) async fn report_all(&self) -> Vec<ServerReport> {
        let told = join_all(self.readers.iter().map(RedisReader::facts)).await;
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
    let (product, version) = product(&facts.info).unzip();
    ServerReport {
        server: facts.server,
        product: product.map(str::to_owned),
        version,
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

/// Returns the product and its version, if the user may read `INFO`.
fn product(info: &BTreeMap<String, String>) -> Option<(&'static str, String)> {
    // Valkey also has the version of Redis that it is compatible with.
    let versions = [("valkey_version", "Valkey"), ("redis_version", "Redis")];
    let mut known = versions.into_iter();
    known.find_map(|(field, product)| Some((product, info.get(field)?.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_told_by_its_version() {
        let (redis, valkey) = (("redis_version", "7.2.4"), ("valkey_version", "8.0"));
        for (fields, known) in [
            (&[redis, valkey][..], Some(("Valkey", "8.0".to_owned()))),
            (&[redis], Some(("Redis", "7.2.4".to_owned()))),
            (&[], None),
        ] {
            let fields = fields.iter();
            let info = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            assert_eq!(product(&info.collect()), known);
        }
    }
}
