//! Mistakes in the locks of etcd.

use super::super::look::Look::{self, Test};
use super::super::look::Target;
use super::super::mutant::Mutant;

const REQUESTS: &str = "dlock-etcd/src/requests.rs";
const BASE: &str = "dlock-etcd/src/base.rs";
const CALLS: &str = "dlock-etcd/src/calls.rs";
const RELEASE: &str = "dlock-etcd/src/release.rs";
const FOLLOW: &str = "dlock-etcd/src/follow.rs";
const FOLLOWED: &str = "dlock-etcd/src/followed.rs";
const PLACES: &str = "dlock-etcd/src/places.rs";
const WAIT: &str = "dlock-etcd/src/wait.rs";
const QUEUE: &str = "dlock-etcd/src/queue.rs";
const RENEW: &str = "dlock-etcd/src/renew.rs";

pub(super) const STORE: Target = Target {
    package: "dlock-etcd",
    test: Some("store"),
};

pub(super) const FAULTS: Target = Target {
    package: "dlock-etcd",
    test: Some("faults"),
};

pub(super) const UNIT: Target = Target {
    package: "dlock-etcd",
    test: None,
};

const CONTRACT: &[Look] = &[Test(STORE, "contract::etcd_keeps_the_contract")];

const ONE_TERM: &[Look] = &[Test(
    UNIT,
    "calls::tests::a_keep_alive_counts_only_in_the_term_of_its_confirmation",
)];

const FROM_THE_FRONT: &[Look] = &[Test(UNIT, "queue::tests::claims_hold_from_the_front")];

const SILENT: &[Look] = &[Test(
    STORE,
    "quiet::a_waiter_that_is_silent_loses_its_place_although_others_wait",
)];

const LATE_PLACE: &[Look] = &[Test(
    STORE,
    "quiet::a_place_that_is_requested_late_is_not_created_although_others_wait",
)];

pub(super) const ALL: &[Mutant] = &[
    // The queue
    Mutant::new(
        "etcd-newcomer",
        "A claim is created as a holder although there are others",
        REQUESTS,
        "«ops::none_after(&names.all, known)», ];",
        "ops::is_created_at(&own, 0)",
        CONTRACT,
    ),
    Mutant::new(
        "etcd-no-exclusion",
        "A shared claim holds behind an exclusive one",
        QUEUE,
        "«is_closed = entry.mode().is_exclusive()»;",
        "()",
        FROM_THE_FRONT,
    )
    .breaks("Claims hold from the front of the queue"),
    Mutant::new(
        "etcd-foreign-claim",
        "A claim that cannot be read counts as shared",
        QUEUE,
        ".map_or(«LockMode::Exclusive», |value| value.mode)",
        "LockMode::Shared",
        &[Test(
            UNIT,
            "queue::tests::a_claim_that_cannot_be_read_lets_nothing_in",
        )],
    )
    .breaks("A claim that cannot be read counts as exclusive"),
    Mutant::new(
        "etcd-no-epoch",
        "A claim that joins others has a fence of its own",
        REQUESTS,
        "epoch: «epoch.as_ref().map(Epoch::fence)»,",
        "None",
        CONTRACT,
    ),
    // Fences
    Mutant::new(
        "etcd-base-stays",
        "A connection does not raise the base",
        BASE,
        "(base.modified == 0 || «is_late»)",
        "false",
        &[Test(
            FAULTS,
            "restore::tokens_grow_although_a_snapshot_was_restored",
        )],
    )
    .breaks("A new connection raises the base"),
    Mutant::new(
        "etcd-base-not-compared",
        "A claim is created with an old base",
        REQUESTS,
        "let mut compare = vec![ «base.is_unchanged(&self.config.namespace)»,",
        "ops::is_created_at(&own, 0)",
        &[Test(
            STORE,
            "keys::a_base_that_another_process_has_raised_is_used",
        )],
    )
    .breaks("A claim is created only with the base that etcd has at that moment"),
    // Leases
    Mutant::new(
        "etcd-any-term",
        "A keep-alive counts although the leader has changed",
        CALLS,
        "terms == «[before; 2]» &&",
        "[header.raft_term; 2]",
        ONE_TERM,
    )
    .breaks(
        "A keep-alive counts only if a request that needs a majority was answered in the same term",
    ),
    Mutant::new(
        "etcd-renewal-without-key",
        "A renewal counts although the key is gone",
        RENEW,
        "«create == Some(place.create)» })",
        "true",
        &[Test(
            FAULTS,
            "restore::a_key_that_is_deleted_by_hand_is_a_lost_lease",
        )],
    )
    .breaks("A renewal counts only if the claim's key was still there after the keep-alive"),
    // Late requests
    Mutant::new(
        "etcd-late-request",
        "A release leaves the lease of a request without an answer",
        RELEASE,
        "«conn.revoke(lease.id).await?»; } claim.settled(lease);",
        "()",
        &[Test(
            FAULTS,
            "connections::a_request_that_arrives_after_the_release_has_no_effect",
        )],
    )
    .breaks("the release ends that lease, so the request can create nothing later"),
    // Waiters
    Mutant::new(
        "etcd-old-event",
        "An event is applied to a queue that was read after it",
        FOLLOWED,
        ".filter(|kv| «kv.mod_revision > known») else {",
        "kv.mod_revision > 0",
        &[Test(
            UNIT,
            "followed::tests::an_event_that_is_older_than_a_read_is_left_out",
        )],
    )
    .breaks("A change is applied once and in order"),
    // The places of waiters
    Mutant::new(
        "etcd-uncovered",
        "A request is answered although the lease may end before a grant is no longer trusted",
        PLACES,
        "since.elapsed(asked) + «GRANT_TTL» + Drift::USUAL.of(LASTS) <= LASTS",
        "Duration::ZERO",
        &[Test(
            UNIT,
            "places::tests::a_request_is_covered_for_as_long_as_a_grant_is_trusted",
        )],
    )
    .breaks("a request is answered from a beat only if the lease lasts for these 3 s and the drift"),
    Mutant::new(
        "etcd-old-beat",
        "A request is answered from a beat of any time",
        WAIT,
        "if «is_covered(seen, asked) && self.places.covers(lease, asked)» => {",
        "true",
        &[Test(
            STORE,
            "quiet::a_waiter_is_not_answered_when_its_lease_may_have_ended",
        )],
    )
    .breaks("Otherwise the request waits for the next beat"),
    Mutant::new(
        "etcd-silent-at-once",
        "A place is deleted while a grant of it would be trusted",
        FOLLOWED,
        "asked.elapsed(now) > «limit»",
        "Duration::ZERO",
        SILENT,
    )
    .breaks(
        "A place is deleted for silence only when its last request is longer ago than a grant is trusted",
    ),
    Mutant::new(
        "etcd-no-gate",
        "The request for a place does not compare the gate",
        WAIT,
        "«ops::is_created_at(&gate_name, gate.create)», ],",
        "ops::is_created_at(&names.by_owner, 0)",
        LATE_PLACE,
    )
    .breaks("Such a request therefore compares the *gate*"),
    Mutant::new(
        "etcd-gate-stays",
        "A release leaves the gate although a request for a place got no answer",
        RELEASE,
        "«success.extend(gates.iter().map(|gate| ops::delete(gate)))»;",
        "()",
        LATE_PLACE,
    )
    .breaks("A release whose claim has a request without an answer deletes the gate"),
    // Streams
    Mutant::new(
        "etcd-watches-without-end",
        "Watches take all streams of a connection, and renewals wait for one",
        FOLLOW,
        "turn = conn.watches.acquire() => «turn»,",
        "{ drop(turn); conn.watches.acquire_many(0).await }",
        &[Test(
            UNIT,
            "follow::tests::a_waiter_beyond_the_watches_is_woken_by_a_beat",
        )],
    ),
    // A full database
    Mutant::new(
        "etcd-early-end",
        "A watch ends although a waiter has not been told",
        FOLLOWED,
        "self.has_seen_held(&name, «waiter.told»)",
        "self.queue.get(&name).map_or(0, |own| own.create)",
        &[Test(
            UNIT,
            "followed::tests::a_waiter_is_told_once_and_asks_while_the_database_is_full",
        )],
    ),
];
