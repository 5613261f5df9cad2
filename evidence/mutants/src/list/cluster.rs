//! Mistakes in the way of a request through a cluster.

use super::super::look::Look::{self, Tests};
use super::super::look::{RUNTIME, facade};
use super::super::mutant::Mutant;

const ROUTE: &str = "dlock-runtime/src/store/redis/topology/cluster/route.rs";

const CLUSTER: &[Look] = &[
    Tests(RUNTIME, &["cluster"]),
    Tests(
        facade("failover"),
        &[
            "cluster::connections",
            "cluster::migration",
            "cluster::refusals",
            "cluster::nodes",
        ],
    ),
    Tests(facade("failover"), &["cluster::"]),
];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "timed-out-is-unsent",
        "An answer that does not come in time counts as never asked for",
        ROUTE,
        "return Err(«route.timed_out(&member)»);",
        "route.timed_out(&member).unsent()",
        CLUSTER,
    )
    .breaks("A broken connection or no answer is an error, as with one server"),
    Mutant::new(
        "group-timed-out-is-unsent",
        "Answers that do not come in time for a group of requests count as never asked for",
        ROUTE,
        "vec![Err(«timed_out(&owner, limit)»); commands.len()]",
        "timed_out(&owner, limit).unsent()",
        CLUSTER,
    )
    .breaks("A broken connection or no answer is an error, as with one server"),
    Mutant::new(
        "groups-in-one",
        "Renewals for several nodes are sent to the first of them",
        ROUTE,
        "(Some(known), Some(owner)) => «Arc::ptr_eq(known, owner)»,",
        "{ let _ = (known, owner); true }",
        CLUSTER,
    ),
    Mutant::new(
        "moved-is-not-noted",
        "The map does not learn from a slot that was moved",
        ROUTE,
        "«self.shared.write(|map| map.moved(route.slot, member));»",
        "drop(member);",
        CLUSTER,
    )
    .breaks("MOVED (the map is changed for that slot"),
    Mutant::new(
        "ask-without-asking",
        "A request that is sent on by ASK is refused there",
        ROUTE,
        "route.to = self.target(&place, member, «true»);",
        "false",
        CLUSTER,
    )
    .breaks("ASK (the request follows `ASKING` in one write)"),
    Mutant::new(
        "waits-for-the-move",
        "A release waits for the end of a move",
        ROUTE,
        "let released = «self.release_alone(route).await?»;",
        "None::<Value>",
        CLUSTER,
    )
    .breaks("A release that meets TRYAGAIN deletes the lock alone"),
];
