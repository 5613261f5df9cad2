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
        "unconnected-is-unknown",
        "A request that had no connection may have been carried out",
        ROUTE,
        "return Err(«error.unsent()».at(&member.shown));",
        "error",
        CLUSTER,
    ),
    Mutant::new(
        "late-connection-is-unknown",
        "A request whose connection came too late may have been carried out",
        ROUTE,
        "return Err(«route.timed_out(&member).unsent()»);",
        "route.timed_out(&member)",
        CLUSTER,
    ),
    Mutant::new(
        "group-not-redirected",
        "A renewal among others does not follow a redirect",
        ROUTE,
        "None => «self.execute(route).await»,",
        "Err(timed_out(&owner, limit))",
        CLUSTER,
    ),
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
        "round-in-circles",
        "A request goes from node to node without a pause",
        ROUTE,
        "let is_lost = «self.in_a_row > MOST_IN_A_ROW || matches!(self.to, Target::Owner)»;",
        "false",
        CLUSTER,
    ),
    Mutant::new(
        "waits-for-the-move",
        "A release waits for the end of a move",
        ROUTE,
        "let released = «self.release_alone(route).await?»;",
        "None::<Value>",
        CLUSTER,
    )
    .breaks("A release that meets TRYAGAIN deletes the lock alone"),
    Mutant::new(
        "unserved-slot-is-unknown",
        "A request for a slot that no node serves may have been carried out",
        ROUTE,
        "«StoreError::new(StoreErrorKind::Refused, message).unsent()» })",
        "StoreError::new(StoreErrorKind::Refused, message)",
        CLUSTER,
    ),
    Mutant::new(
        "rests-past-the-end",
        "A request goes on without the time for an answer",
        ROUTE,
        "if «Instant::now() + pause + self.limit / 8 >= self.end» {",
        "Instant::now() >= self.end",
        CLUSTER,
    ),
    Mutant::new(
        "refused-by-all-is-unknown",
        "A request that every node has refused may have been carried out",
        ROUTE,
        "// Every node has refused the whole request. return Err(«StoreError::new(StoreErrorKind::Refused, message).unsent()»);",
        "StoreError::new(StoreErrorKind::Refused, message)",
        CLUSTER,
    ),
];
