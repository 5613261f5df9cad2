//! Mistakes in what a connection to Redis knows of its server: the role, subscriptions, the end of idle ones, and proxies.

use super::super::look::Look::{self, Test, Tests};
use super::super::look::{RUNTIME, Target, facade};
use super::super::mutant::Mutant;

const CONNECTION: &str = "dlock-runtime/src/store/redis/net/connection.rs";
const ERRORS: &str = "dlock-runtime/src/store/redis/protocol/errors.rs";
const HANDLE: &str = "dlock-runtime/src/store/redis/net/connection/handle.rs";
const ROLE: &str = "dlock-runtime/src/store/redis/net/connection/role.rs";
const SOCKET: &str = "dlock-runtime/src/store/redis/net/socket.rs";
const SUPERVISOR: &str = "dlock-runtime/src/store/redis/net/supervisor.rs";

/// The store alone, over real servers.
const STORE: Target = Target {
    package: "dlock-runtime",
    test: Some("redis_store"),
};

const REPLICAS: &[Look] = &[Tests(STORE, &["that_takes_writes"])];
const ROLES: &[Look] = &[Tests(RUNTIME, &["connection::role"])];
const SUBSCRIPTIONS: &[Look] = &[
    Tests(STORE, &["the_connection_for_hints"]),
    Test(
        facade("servers"),
        "bad_input::odd_servers::a_full_server_that_refuses_subscriptions_renews_and_releases",
    ),
];
const PROXIES: &[Look] = &[Tests(facade("servers"), &["connection::proxies"])];
const TRUSTED: &str = "An answer counts only if the server has called itself a master";

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "role-never-asked",
        "The role of a server is asked for when the connection is made, and never again",
        ROLE,
        "if «confirmed == UNTOLD» {",
        "true",
        REPLICAS,
    )
    .breaks(TRUSTED),
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
        "role-not-read",
        "A replica that is asked for its role counts as a master",
        ROLE,
        "«server_check::is_master(&hello)?;»",
        "",
        REPLICAS,
    )
    .breaks(TRUSTED),
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
        "replica-kept",
        "A connection to a server that calls itself a replica is kept",
        HANDLE,
        "«health.fail(replica.clone());»",
        "",
        &[Test(
            facade("failover"),
            "virtual_ip::a_client_leaves_a_master_that_has_become_a_replica_and_takes_writes",
        )],
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
    Mutant::new(
        "subscription-needed",
        "A connection on which a subscription is refused for a while is not used",
        CONNECTION,
        "Err(error) if «self.is_for_a_while(&error)» => {",
        "self.is_for_a_while(&error) && self.limit.is_zero()",
        SUBSCRIPTIONS,
    ),
    Mutant::new(
        "subscription-not-repeated",
        "A refused subscription is not asked for again",
        SUPERVISOR,
        "let is_unheard = «link.unheard().is_some()»;",
        "false",
        SUBSCRIPTIONS,
    ),
    Mutant::new(
        "idle-not-learnt",
        "The time after which a server closes idle connections is not learnt",
        SUPERVISOR,
        "«keep_alive.was_closed(begun.elapsed());»",
        "",
        &[Test(
            facade("servers"),
            "connection::resp2::a_connection_is_kept_from_being_closed_as_idle",
        )],
    ),
    Mutant::new(
        "idle-learnt-by-chance",
        "One connection that was closed while it was idle is enough to check all later ones often",
        SUPERVISOR,
        "if «self.is_closed» {",
        "true",
        &[Tests(RUNTIME, &["net::supervisor"])],
    ),
    Mutant::new(
        "proxy-not-named",
        "A proxy that closes the connection at a command is taken for a server with TLS",
        SOCKET,
        "&& «tcp::closes_at_commands(peer, limit).await»",
        "{ let _ = (peer, limit, tcp::closes_at_commands); false }",
        PROXIES,
    ),
    Mutant::new(
        "unsupported-is-temporary",
        "A command that an early Envoy does not know is tried again and again",
        ERRORS,
        "\"unsupported\" if «detail.starts_with(\"command \")» =>",
        "detail.is_empty()",
        PROXIES,
    ),
];
