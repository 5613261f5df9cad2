//! Mistakes in metrics: series that are not there before the first event.

use super::super::look::Look::{self, Tests};
use super::super::look::facade;
use super::super::mutant::Mutant;

const EXPORTED: &[Look] = &[Tests(facade("ops"), &["exported::"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "alerts-not-announced",
        "The counters for alerts appear with their first event, which raises no alarm then",
        "dlock-runtime/src/observe/metrics.rs",
        "keys.announce_to(recorder);",
        "",
        EXPORTED,
    ),
    Mutant::new(
        "outage-appears-with-itself",
        "The gauge of missing connections is not there before the first outage",
        "dlock-runtime/src/store/redis/net/counts.rs",
        "told(|| gauge!(DISCONNECTED, \"server\" => server.to_owned()).increment(0));",
        "",
        EXPORTED,
    ),
];
