//! Mistakes in the locks of etcd about requests that come late, leases that are about to end, and connections that were away.

use super::super::look::Look::{self, Test};
use super::super::mutant::Mutant;
use super::etcd::{FAULTS, STORE, UNIT};

const BEAT: &str = "dlock-etcd/src/beat.rs";
const CONN: &str = "dlock-etcd/src/conn.rs";
const ERRORS: &str = "dlock-etcd/src/errors.rs";
const FOLLOWED: &str = "dlock-etcd/src/followed.rs";
const QUEUE: &str = "dlock-etcd/src/queue.rs";
const RELEASE: &str = "dlock-etcd/src/release.rs";
const REQUESTS: &str = "dlock-etcd/src/requests.rs";
const SETTLE: &str = "dlock-etcd/src/settle.rs";
const KEEP_ALIVE: &str = "dlock-etcd/src/keep_alive.rs";
const LEASES: &str = "dlock-etcd/src/leases.rs";
const STORE_RS: &str = "dlock-etcd/src/store.rs";

const COMES_BACK: &[Look] = &[Test(
    STORE,
    "late::a_deletion_that_arrives_late_does_not_end_a_lease_of_a_waiter_that_came_back",
)];

const KEEPS_ITS_LEASE: &[Look] = &[Test(
    STORE,
    "late::a_key_keeps_its_lease_when_its_label_changes",
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
    Mutant::new(
        "etcd-end-unnoted",
        "A claim does not know that the deletion of its place got no answer",
        RELEASE,
        "claim.is_ending |= «end == End::Displaced»;",
        "false",
        COMES_BACK,
    ),
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
        "etcd-idle-of-before",
        "Idle leases are used although a snapshot may have been restored",
        LEASES,
        "«idle.by_seconds.clear()»;",
        "()",
        &[
            Test(
                UNIT,
                "leases::tests::a_lease_ends_with_the_connection_over_which_it_was_made",
            ),
            Test(
                FAULTS,
                "restore::a_lease_of_before_a_restore_keeps_no_restored_key_alive",
            ),
        ],
    ),
    Mutant::new(
        "etcd-restored-place",
        "The place of a claim that is over comes back with a snapshot, and stays",
        BEAT,
        "«self.end_restored().await»;",
        "()",
        &[Test(
            FAULTS,
            "restore::waiters_of_before_a_restore_keep_no_restored_place_alive",
        )],
    ),
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
        "etcd-last-release",
        "A release without a caller is given up with its store",
        STORE_RS,
        "let work = «self.worker.work()»;",
        "tokio::sync::watch::Sender::new(())",
        &[Test(
            STORE,
            "late::a_release_without_a_caller_outlasts_its_store",
        )],
    ),
    Mutant::new(
        "etcd-stream-once",
        "Each keep-alive opens a stream",
        KEEP_ALIVE,
        "«self.streams.give(stream)»;",
        "drop(stream)",
        &[Test(
            UNIT,
            "keep_alive::tests::keep_alives_that_follow_each_other_have_one_stream",
        )],
    ),
    Mutant::new(
        "etcd-ended-stream",
        "A keep-alive fails on a stream that the member has ended",
        KEEP_ALIVE,
        "«if let Ok(kept) = self.answers(stream, leases).await { return Ok(kept); }»",
        "return self.answers(stream, leases).await;",
        &[Test(
            UNIT,
            "keep_alive::tests::a_stream_that_has_ended_is_replaced",
        )],
    ),
    Mutant::new(
        "etcd-other-lease",
        "A key gets another lease although only its label changes",
        SETTLE,
        "let kept = «is_kept(&before.lease, wish)».then_some(",
        "false",
        KEEPS_ITS_LEASE,
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
    // Waiters
    Mutant::new(
        "etcd-unasked",
        "A waiter that asks without a connection counts as silent",
        REQUESTS,
        "«self.follow .with(request.key, |it| it.ask_again(request.owner, asked))»;",
        "None::<()>",
        &[Test(
            STORE,
            "quiet::a_waiter_that_asks_while_the_connection_is_away_keeps_its_place",
        )],
    ),
    Mutant::new(
        "etcd-hot-key",
        "A read that is older than an event does not count",
        FOLLOWED,
        "// Events that are later than the read say what it does, and more. «self.seen = self.seen.later(seen)»;",
        "()",
        &[Test(
            UNIT,
            "followed::tests::a_read_that_is_older_than_an_event_still_says_that_the_queue_is_known",
        )],
    ),
    // Answers
    Mutant::new(
        "etcd-small-answer",
        "An answer of more than 4 MiB is refused",
        CONN,
        ".max_decoding_message_size(«usize::MAX»)",
        "4 << 20",
        &[Test(
            STORE,
            "large::a_waiter_waits_although_the_claims_of_its_key_are_large",
        )],
    ),
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
        "etcd-names-restored",
        "A lease that names a restored key is tried again and again",
        REQUESTS,
        "self.give_back(&taken, «exists && !names_another»);",
        "exists || (exists && names_another)",
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
    // Logins
    Mutant::new(
        "etcd-no-token",
        "A request without a token is refused for good",
        ERRORS,
        "«\"user name is empty\"», ] .iter()",
        "\"another text\"",
        &[Test(
            UNIT,
            "errors::tests::a_request_without_a_valid_token_is_sent_again_after_a_login",
        )],
    ),
];
