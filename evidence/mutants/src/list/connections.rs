//! Mistakes in what a connection to Redis knows of the role of its server.

use super::super::look::Look::{self, Test, Tests};
use super::super::look::{RUNTIME, Target, facade};
use super::super::mutant::Mutant;

const HANDLE: &str = "dlock-runtime/src/store/redis/net/connection/handle.rs";
const ROLE: &str = "dlock-runtime/src/store/redis/net/connection/role.rs";

/// The store alone, over real servers.
const STORE: Target = Target {
    package: "dlock-runtime",
    test: Some("redis_store"),
};

const REPLICAS: &[Look] = &[Tests(STORE, &["that_takes_writes"])];
const ROLES: &[Look] = &[Tests(RUNTIME, &["connection::role"])];
const TRUSTED: &str = "An answer counts only if the server has called itself a master";

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "role-believed-for-a-minute",
        "A server that has called itself a master is believed for a minute",
        ROLE,
        "saturating_sub(confirmed)) >= «TRUSTED_FOR»;",
        "Duration::from_secs(60)",
        REPLICAS,
    )
    .breaks("at most 100 ms before it"),
    Mutant::new(
        "role-from-answer",
        "The time for which a master is believed counts from its answer",
        ROLE,
        "self.confirmed.fetch_max(«asked.0», Ordering::Relaxed);",
        "self.now()",
        ROLES,
    ),
    Mutant::new(
        "role-of-an-older-question",
        "A late answer about the role replaces that to a later question",
        ROLE,
        "«self.confirmed.fetch_max(asked.0, Ordering::Relaxed);»",
        "self.confirmed.store(asked.0, Ordering::Relaxed);",
        ROLES,
    ),
    Mutant::new(
        "replica-grants",
        "A grant counts although the same answer says that the server is a replica",
        HANDLE,
        "let answer = answer.map_err(|error| self.judge(command, &error))?; «role.map(|()| answer).map_err(Stop::Failed)»",
        "{ drop(role); Ok(answer) }",
        REPLICAS,
    )
    .breaks(TRUSTED),
    Mutant::new(
        "replica-renews",
        "A renewal counts although the same answer says that the server is a replica",
        HANDLE,
        "«role.clone().map(|()| answer).map_err(Stop::Failed)» };",
        "{ let _ = &role; Ok(answer) }",
        REPLICAS,
    )
    .breaks(TRUSTED),
    Mutant::new(
        "replica-did-nothing",
        "A request that a replica has carried out leaves nothing to release",
        HANDLE,
        "«replica.with_possible_effect()»",
        "replica",
        REPLICAS,
    ),
    Mutant::new(
        "read-only-kept",
        "A connection over which a server has answered READONLY is kept",
        HANDLE,
        "«matches!(kind, Disconnected | ReadOnly | Unauthenticated)»",
        "matches!(kind, Disconnected | Unauthenticated)",
        &[Test(
            facade("failover"),
            "virtual_ip::a_client_leaves_a_master_that_has_become_read_only",
        )],
    ),
];
