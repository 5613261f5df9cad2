//! Mistakes in the locks of etcd about requests that come late, leases that are about to end, and the names of claims.

use super::super::look::Look::{self, Test};
use super::super::mutant::Mutant;
use super::etcd::{FAULTS, STORE, UNIT};

const ERRORS: &str = "dlock-etcd/src/errors.rs";
const QUEUE: &str = "dlock-etcd/src/queue.rs";
const RELEASE: &str = "dlock-etcd/src/release.rs";
const REQUESTS: &str = "dlock-etcd/src/requests.rs";
const SETTLE: &str = "dlock-etcd/src/settle.rs";

const COMES_BACK: &[Look] = &[Test(
    STORE,
    "late::a_deletion_that_arrives_late_does_not_end_a_lease_of_a_waiter_that_came_back",
)];

const REFUSALS: &[Look] = &[Test(
    UNIT,
    "errors::tests::only_a_refusal_by_etcd_itself_has_no_effect",
)];

pub(super) const ALL: &[Mutant] = &[
    // Deletions
    Mutant::new(
        "etcd-late-end",
        "A waiter that comes back keeps a place whose deletion may still arrive",
        REQUESTS,
        "if «claim.is_ending» { // A deletion of its place may still arrive.",
        "false",
        COMES_BACK,
    )
    .breaks("If the owner asks again, that end is repeated until it is answered"),
    // Leases
    Mutant::new(
        "etcd-idle-lease",
        "A key gets a lease that may be about to end",
        SETTLE,
        "if «is_new» { return Ok(Some((lease, asked)));",
        "true",
        &[Test(
            STORE,
            "late::a_key_gets_an_idle_lease_only_after_that_was_kept_alive",
        )],
    )
    .breaks("A key that has a lease gets another one only after that one has its whole TTL"),
    Mutant::new(
        "etcd-full-label",
        "A label that a full database refuses puts the lease in doubt",
        SETTLE,
        "if «kept.is_some() && ran.as_ref().is_err_and(is_full)» {",
        "kept.is_some() && ran.as_ref().is_err_and(|error| is_full(error) && error.has_no_effect())",
        &[Test(
            FAULTS,
            "full::a_label_that_a_full_database_refuses_costs_no_lease",
        )],
    ),
    Mutant::new(
        "etcd-first-epoch",
        "An epoch is taken from the holder that leaves first",
        QUEUE,
        "let has_written = «holders().rfind(|(_, it)| it.epoch().is_some())»;",
        "holders().find(|(_, it)| it.epoch().is_some())",
        &[Test(
            UNIT,
            "queue::tests::an_epoch_is_taken_from_the_last_holder_that_has_written_it",
        )],
    ),
    // Answers
    Mutant::new(
        "etcd-foreign-refusal",
        "The refusal of a proxy counts as one of etcd",
        ERRORS,
        "«status.message().starts_with(\"etcdserver:\")»",
        "true",
        REFUSALS,
    ),
    // Names
    Mutant::new(
        "etcd-bare-again",
        "The next claim has the name of a key whose deletion may still arrive and compares nothing",
        RELEASE,
        "let is_spent = «claim.is_bare && claim.named_by == Some(place.lease.id)»;",
        "false",
        &[Test(
            STORE,
            "names::a_deletion_that_compares_nothing_ends_no_later_claim",
        )],
    )
    .breaks("A lease names the keys of one claim at a time"),
    Mutant::new(
        "etcd-two-names",
        "A claim asks again by another name while its first key may still be created",
        REQUESTS,
        "if «claim.place.is_none() && claim.named_by.is_some()» {",
        "false",
        &[Test(
            STORE,
            "names::a_request_without_an_answer_is_over_before_its_claim_has_another_name",
        )],
    )
    .breaks("A claim has one name at a time"),
    Mutant::new(
        "etcd-restored-is-own",
        "A claim takes a restored key with its name for its own",
        REQUESTS,
        "|kv: &&KeyValue| «claim.named_by.is_none() || Entry::read(kv).owner == Some(owner)»;",
        "true",
        &[Test(
            STORE,
            "names::a_restored_key_is_not_that_of_the_next_claim_with_its_name",
        )],
    )
    .breaks("takes a key for its own only if the value has its owner"),
    Mutant::new(
        "etcd-overwrites-restored",
        "A claim beside others overwrites a restored key with its name",
        REQUESTS,
        "compare.extend(«(known > 0).then(|| ops::is_created_at(&own, 0))»);",
        "None",
        &[Test(
            STORE,
            "names::a_restored_key_is_not_overwritten_by_a_claim_beside_it",
        )],
    )
    .breaks("Nor does a new key take the place of a restored one"),
    Mutant::new(
        "etcd-exchanged-name",
        "The lease that names a key becomes that of another claim",
        SETTLE,
        "let names_it = «claim.named_by == Some(before.lease.id)»;",
        "false",
        &[Test(
            STORE,
            "names::a_lease_that_its_key_has_exchanged_names_no_other",
        )],
    ),
];
