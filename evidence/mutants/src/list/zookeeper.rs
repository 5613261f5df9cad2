//! Mistakes in the locks of ZooKeeper.

use super::super::look::Look::{self, Test};
use super::super::look::Target;
use super::super::mutant::Mutant;

const ANSWERS: &str = "dlock-zookeeper/src/answers.rs";
const BASE: &str = "dlock-zookeeper/src/base.rs";
const ERRORS: &str = "dlock-zookeeper/src/errors.rs";
const FENCE: &str = "dlock-zookeeper/src/fence.rs";
const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const HOLDER: &str = "dlock-zookeeper/src/holder.rs";
const NAMES: &str = "dlock-zookeeper/src/names.rs";
const PROOF: &str = "dlock-zookeeper/src/proof.rs";
const QUEUE: &str = "dlock-zookeeper/src/queue.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const SESSION: &str = "dlock-zookeeper/src/session.rs";
const SLOTS: &str = "dlock-zookeeper/src/slots.rs";
const WAITING: &str = "dlock-zookeeper/src/waiting.rs";

pub(super) const STORE: Target = Target {
    package: "dlock-zookeeper",
    test: Some("store"),
};

const FAULTS: Target = Target {
    package: "dlock-zookeeper",
    test: Some("faults"),
};

pub(super) const UNIT: Target = Target {
    package: "dlock-zookeeper",
    test: None,
};

pub(super) const CONTRACT: &[Look] = &[Test(STORE, "contract::zookeeper_keeps_the_contract")];

const FROM_THE_FRONT: &[Look] = &[Test(UNIT, "queue::tests::claims_hold_from_the_front")];

const ONE_TOKEN: &[Look] = &[Test(
    STORE,
    "sharing::readers_that_come_and_go_have_one_token",
)];

const OF_A_BASE: &[Look] = &[Test(
    UNIT,
    "fence::tests::fences_of_a_base_are_below_those_of_the_next",
)];

pub(super) const ALL: &[Mutant] = &[
    // The queue
    Mutant::new(
        "zookeeper-no-order",
        "A claim holds although one before it waits",
        QUEUE,
        "if «is_closed || !is_admitted(entry.mode, count)» { break;",
        "is_closed",
        FROM_THE_FRONT,
    )
    .breaks("Claims hold from the front of the queue"),
    Mutant::new(
        "zookeeper-no-exclusion",
        "A shared claim holds behind an exclusive one",
        QUEUE,
        "«is_closed = entry.mode.is_exclusive()»;",
        "()",
        FROM_THE_FRONT,
    )
    .breaks("Claims hold from the front of the queue"),
    Mutant::new(
        "zookeeper-unknown-mode",
        "A child with an unknown mode counts as shared",
        NAMES,
        "map_or(«LockMode::Exclusive», LockMode::Permits)",
        "LockMode::Shared",
        &[Test(
            UNIT,
            "queue::tests::a_child_with_an_unknown_mode_lets_nothing_in",
        )],
    )
    .breaks("A child with an unknown mode counts as exclusive"),
    Mutant::new(
        "zookeeper-wrong-obstacle",
        "A waiter for a permit watches one child alone",
        QUEUE,
        "let crowd = |at: usize, most: usize| &self.0[«at.saturating_sub(most)»..at];",
        "at - 1",
        &[Test(
            UNIT,
            "queue::tests::a_waiter_watches_children_of_which_one_has_to_go",
        )],
    ),
    Mutant::new(
        "zookeeper-any-place",
        "A claim is confirmed wherever its child is",
        REQUESTS,
        "if «queue.holds(&child.name)» { if is_new",
        "true",
        CONTRACT,
    )
    .breaks("A claim holds by its place in the queue"),
    // Fences
    Mutant::new(
        "zookeeper-no-epoch",
        "A claim that joins others has a fence of its own",
        CONFIRM,
        "«(fence, Some(path))»,",
        "{ drop((fence, path)); (child.fence, None) }",
        ONE_TOKEN,
    )
    .breaks("All that hold together have one fence"),
    Mutant::new(
        "zookeeper-endless-base",
        "A base has fences without an end",
        FENCE,
        "let is_own = «(1..RANGE).contains(&since)»;",
        "true",
        OF_A_BASE,
    )
    .breaks("A fence is less than base and [`RANGE`]"),
    Mutant::new(
        "zookeeper-base-by-the-clock",
        "A base follows the clock although that is behind",
        FENCE,
        "«clock.max(least)»",
        "clock",
        OF_A_BASE,
    )
    .breaks("by one that is greater by [`RANGE`] or more"),
    Mutant::new(
        "zookeeper-base-without-clock",
        "A new base does not reach the clock",
        FENCE,
        "«clock.max(least)»",
        "{ let _ = clock; least }",
        &[Test(
            FAULTS,
            "restore::an_ensemble_that_has_lost_its_data_gives_greater_tokens",
        )],
    )
    .breaks("A new base reaches the clock"),
    Mutant::new(
        "zookeeper-old-base",
        "A base that was replaced and has come back stays beside the new one",
        BASE,
        "while «values.len() > 1 || values.last().copied() < greatest» {",
        "{ let _ = greatest; false }",
        &[Test(
            FAULTS,
            "restore::a_base_that_comes_back_stops_no_lock",
        )],
    )
    .breaks("Of several bases one is made"),
    // Leases
    Mutant::new(
        "zookeeper-uncertain",
        "A lease is confirmed that its session may not last for",
        CONFIRM,
        "if «session.proof.lasts_until(lease_end)» {",
        "true",
        &[Test(
            STORE,
            "sessions::a_lease_that_its_session_may_not_last_for_is_not_confirmed",
        )],
    )
    .breaks("A lease that would last longer is not confirmed"),
    Mutant::new(
        "zookeeper-proof-at-once",
        "An answer proves at once that the leader has heard of the session",
        PROOF,
        "is_by_both(earlier.answered.plus(«self.tick»), sent)",
        "Duration::ZERO",
        &[Test(
            UNIT,
            "proof::tests::a_request_counts_for_a_write_after_one_that_was_sent_a_tick_later",
        )],
    ),
    Mutant::new(
        "zookeeper-proof-passes-pings",
        "A write proves that the leader has heard of the session, though it may have passed a ping",
        PROOF,
        "earlier.counts_from = Some(«answered»);",
        "sent",
        &[Test(
            UNIT,
            "proof::tests::a_request_counts_for_a_write_after_one_that_was_sent_a_tick_later",
        )],
    ),
    Mutant::new(
        "zookeeper-asleep",
        "A session lasts while the machine sleeps",
        PROOF,
        "moment.monotonic <= other.monotonic && «moment.boot <= other.boot»",
        "true",
        &[Test(
            UNIT,
            "proof::tests::time_asleep_counts_for_the_session",
        )],
    )
    .breaks("Time asleep counts"),
    Mutant::new(
        "zookeeper-late-lease",
        "A process keeps its child although the lease has ended",
        SLOTS,
        "if «slot.delete().await.is_ok()» { return",
        "true",
        CONTRACT,
    )
    .breaks("A process deletes its child when the lease has ended"),
    Mutant::new(
        "zookeeper-not-found-again",
        "A creation without an answer is not looked for",
        REQUESTS,
        "if let Some((name, data, czxid)) = «found» {",
        "None",
        &[Test(
            STORE,
            "claims::a_creation_without_an_answer_is_found_again_and_released",
        )],
    ),
    Mutant::new(
        "zookeeper-earlier-session",
        "A child is held although another session created it",
        REQUESTS,
        "let is_own = «stat.ephemeral_owner == session.client.session_id().0»;",
        "true",
        &[Test(
            STORE,
            "claims::a_child_of_an_earlier_session_is_never_held",
        )],
    )
    .breaks("A child is held only in the session that created it"),
    Mutant::new(
        "zookeeper-overtaken",
        "A release overtakes an acquire that waits for a session",
        REQUESTS,
        "let mut slot = «self.slots.lock(&request.key, request.owner).await»; let answer = match self.session_of(&mut slot).await { Ok(session) => match self.known(",
        "{ session::current(&self.status).await?; self.slots.lock(&request.key, request.owner).await }",
        &[Test(
            STORE,
            "sessions::requests_that_wait_for_a_session_keep_their_order",
        )],
    ),
    Mutant::new(
        "zookeeper-broken-is-final",
        "A connection that was reset counts as a wrong answer",
        ERRORS,
        "StoreError::new(«kind», format!(",
        "if matches!(error, Error::Custom(_)) { StoreErrorKind::BadAnswer } else { kind }",
        &[Test(
            UNIT,
            "errors::tests::a_broken_connection_is_no_wrong_answer",
        )],
    ),
    // Waiters
    Mutant::new(
        "zookeeper-no-pause",
        "A lease that is over is answered as one without a rest",
        HOLDER,
        "rest.map(|rest| «rest.max(LEAST)»)",
        "rest",
        &[
            Test(
                UNIT,
                "holder::tests::a_lease_that_is_over_counts_as_a_second",
            ),
            Test(
                STORE,
                "waiting::a_waiter_behind_a_lease_that_is_over_asks_once_a_second",
            ),
        ],
    ),
    Mutant::new(
        "zookeeper-old-answer",
        "A waiter is answered from memory although a child was deleted",
        ANSWERS,
        "table.deletions += 1; «table.by_key.remove(key)»;",
        "None",
        &[Test(
            UNIT,
            "answers::tests::an_answer_is_repeated_until_the_lease_would_have_ended_or_a_child_is_deleted",
        )],
    ),
    Mutant::new(
        "zookeeper-always-asks",
        "A waiter asks although its watch is set",
        REQUESTS,
        "«self.answers .note(&request.key, request.owner, &holder, deletions)»;",
        "()",
        &[Test(
            STORE,
            "waiting::a_hundred_waiters_send_no_request_while_they_wait",
        )],
    ),
    Mutant::new(
        "zookeeper-not-told",
        "A waiter is not told that it holds the key",
        WAITING,
        "«core.sinks.wake(&key, owner, fence)»;",
        "()",
        &[Test(
            STORE,
            "waiting::a_release_wakes_the_waiter_of_another_process_by_a_watch",
        )],
    ),
    Mutant::new(
        "zookeeper-no-node",
        "A check has the node of a waiter, or of none",
        SLOTS,
        "let held = «child.map(Child::path)»;",
        "child.map(|_| \"/\".to_owned())",
        &[Test(
            STORE,
            "check::a_transaction_is_carried_out_only_while_the_lease_is_held",
        )],
    ),
    Mutant::new(
        "zookeeper-watch-stays",
        "A watch outlives the child of its waiter",
        SLOTS,
        "«self.0.abort()»;",
        "()",
        &[Test(STORE, "waiting::waiters_that_leave_watch_nothing")],
    ),
    // Leases without a write of their own
    Mutant::new(
        "zookeeper-unproven-grant",
        "A grant is a lease although the session may end before it",
        CONFIRM,
        "mode.is_exclusive() && «session.proof.lasts_until(end)»",
        "{ let _ = (session, end); true }",
        &[Test(
            STORE,
            "waiting::a_grant_is_a_lease_at_once_only_while_the_session_certainly_lasts",
        )],
    ),
    Mutant::new(
        "zookeeper-unseen-grant",
        "A waiter whose child is gone holds the key",
        WAITING,
        "if obstacles.is_empty() { return «queue.holds(name)»;",
        "true",
        &[Test(
            STORE,
            "waiting::a_waiter_whose_child_was_deleted_holds_nothing",
        )],
    ),
    Mutant::new(
        "zookeeper-unwritten-reader",
        "A reader does not write the token that it shares",
        CONFIRM,
        "«mode.is_exclusive()» && session.proof",
        "{ let _ = mode; true }",
        ONE_TOKEN,
    ),
    Mutant::new(
        "zookeeper-last-place",
        "The numbers of children that all get the last one say who came first",
        NAMES,
        "!«(0..=LAST_PLACE)».contains(&self.place)",
        "(i64::MIN..=i64::MAX)",
        &[Test(
            UNIT,
            "names::tests::a_name_has_an_owner_a_mode_and_a_place",
        )],
    ),
    Mutant::new(
        "zookeeper-past-the-end",
        "A child that has one number with others holds the key",
        "dlock-zookeeper/src/creation.rs",
        "is_none_or(|it| «it.is_past_the_end()»)",
        "it.place < 0",
        &[Test(
            FAULTS,
            "counters::a_key_that_has_used_up_its_places_lets_in_no_claim_until_it_is_made_anew",
        )],
    ),
    Mutant::new(
        "zookeeper-local-session",
        "A manager connects to servers that will refuse each of its locks",
        SESSION,
        "if «is_local(config, &client).await?» {",
        "is_local(config, &client).await? && false",
        &[Test(
            STORE,
            "sessions::servers_whose_sessions_have_no_ephemeral_nodes_are_refused_at_once",
        )],
    ),
    Mutant::new(
        "zookeeper-unchecked-session",
        "A session whose check has no answer is used",
        SESSION,
        "StoreErrorKind::Disconnected | StoreErrorKind::TimedOut => «Err(error)»,",
        "Ok(false)",
        &[Test(
            STORE,
            "sessions::a_session_is_used_only_once_its_check_has_an_answer",
        )],
    ),
    Mutant::new(
        "zookeeper-session-left",
        "A session is left behind by a connection that is refused",
        SESSION,
        "if «timeout(config.response_limit, close(config, client)) .await .is_err()» {",
        "{ drop(client); false }",
        &[Test(
            FAULTS,
            "connections::a_connection_that_is_refused_leaves_no_session",
        )],
    ),
];
