//! Mistakes that break a rule which `ARCHITECTURE.md` marks as one of safety, or says in so many words.

use super::super::look::Look::{self, Simulation, Test, Tests};
use super::super::look::{RUNTIME, facade};
use super::super::mutant::Mutant;

const HOLDING: &str = "dlock-runtime/src/state/attempt/holding.rs";
const ATTEMPT: &str = "dlock-runtime/src/state/attempt.rs";
const CLAIM: &str = "dlock-runtime/src/state/claim.rs";
const PASS: &str = "dlock-runtime/src/state/attempt/handover.rs";

const OFTEN: &[Look] = &[Simulation { seeds: 500 }];
const SELDOM: &[Look] = &[Simulation { seeds: 2_000 }];
/// The simulation finds it in one run of some thousands; a test of the state knows it by name.
const RARE: &[Look] = &[Tests(RUNTIME, &["state::"])];

const STRANGERS: &[Look] = &[Test(
    facade("conformance"),
    "redis::only_the_owner_renews_and_releases",
)];

pub(super) const ALL: &[Mutant] = &[
    // The validity of a lease.
    Mutant::new(
        "deadline-from-answer",
        "The deadline of a lease counts from the answer",
        HOLDING,
        "Hold::new(token, («sent», validity), renew_at, now) }); self.enter(now)",
        "now",
        OFTEN,
    )
    .breaks("A deadline counts from before the request was sent that the store has confirmed"),
    Mutant::new(
        "renewal-from-answer",
        "The deadline of a renewed lease counts from the answer",
        HOLDING,
        "hold.confirm(«sent», &self.claim);",
        "now",
        RARE,
    )
    .breaks("A deadline counts from before the request was sent that the store has confirmed"),
    Mutant::new(
        "failed-renewal-counts",
        "A renewal without an answer moves the deadline",
        HOLDING,
        "hold.failure = Some(error);«»",
        "hold.confirm(sent, &self.claim);",
        OFTEN,
    )
    .breaks("A failed request never moves it"),
    Mutant::new(
        "late-renewal-saves",
        "A renewal that is answered after the deadline brings the lease back",
        HOLDING,
        "if «!hold.deadline().is_reached(now)» {",
        "true",
        &[Test(
            RUNTIME,
            "state::tests::holds::a_renewal_that_arrives_after_the_deadline_saves_nothing",
        )],
    )
    .breaks("a lost lease never comes back"),
    Mutant::new(
        "no-drift",
        "Nothing is taken off for clocks that tick differently",
        "dlock-runtime/src/store/properties.rs",
        "«(ttl.saturating_mul(self.per_mille) / 1000).saturating_add(self.fixed)»",
        "ttl * 0",
        SELDOM,
    )
    .breaks("the lease is valid until that time + TTL − drift"),
    Mutant::new(
        "sleep-does-not-count",
        "The boot clock is not looked at: a machine that sleeps keeps its leases",
        "dlock-runtime/src/clock.rs",
        "now.monotonic >= self.monotonic || now.boot >= self.boot",
        "now.monotonic >= self.monotonic",
        &[Test(RUNTIME, "clock::tests::time_asleep_counts")],
    )
    .breaks("A deadline is past when either says so"),
    Mutant::new(
        "lost-body-goes-on",
        "A body is not stopped when its lease is lost",
        "dlock-runtime/src/api/guard/held.rs",
        "if «acquisition.timing.on_lost == OnLost::Stop || !*this.started» {",
        "!*this.started",
        OFTEN,
    )
    .breaks("which looks at the deadline before every poll and drops the body when the lease is lost"),
    // The validity of a hint.
    Mutant::new(
        "hint-for-whole-ttl",
        "A lease that was handed over is believed for its whole TTL",
        CLAIM,
        "granted: trusted(«ttl.min(GRANT_TTL)»),",
        "ttl",
        OFTEN,
    )
    .breaks("the lease is believed until the moment before the latest question was sent + 3 s"),
    Mutant::new(
        "any-hint-believed",
        "A hint is believed by the latest question, whatever fence that knew",
        CLAIM,
        "(«last.last_fence < number»).then_some(last.sent)",
        "last.last_fence < number || true",
        &[Test(
            RUNTIME,
            "state::tests::turns::a_hint_is_believed_by_the_last_answer_if_that_knew_a_smaller_fence",
        )],
    )
    .breaks("Otherwise that grant was over when the question was answered"),
    Mutant::new(
        "hints-only",
        "A waiter relies on hints alone, and looks again after an hour",
        ATTEMPT,
        "_ => jittered(«LOOK_AGAIN»),",
        "Duration::from_secs(3600)",
        &[Test(
            RUNTIME,
            "state::tests::waits::a_waiter_looks_again_when_the_lease_has_ended_and_at_least_each_second",
        )],
    )
    .breaks("A waiter polls at least every 1.25 s"),
    // From task to task.
    Mutant::new(
        "same-token",
        "The next task gets the lease with the token of the one before it",
        CLAIM,
        "Some(last) if last.fence() == fence => «last.next()»,",
        "Some(last)",
        OFTEN,
    )
    .breaks("a greater token: the fence and a sequence number below it"),
    Mutant::new(
        "endless-turn",
        "A lease goes from task to task for as long as there are tasks",
        PASS,
        "&& «hold.granted_at.elapsed(now) <= LONGEST_TURN»",
        "true",
        &[Test(
            RUNTIME,
            "state::tests::turns::a_lease_that_came_too_long_ago_goes_back_to_the_store",
        )],
    )
    .breaks("Hand-overs end 10 ms after the lease came from the store"),
    Mutant::new(
        "any-ttl",
        "A claim goes on to a task that wants another TTL",
        PASS,
        "next.timing.ttl == self.claim.ttl",
        "true",
        &[Test(
            RUNTIME,
            "state::tests::turns::a_lease_is_handed_only_to_who_can_use_it_as_it_is",
        )],
    )
    .breaks("All requests of a claim carry the same TTL"),
    Mutant::new(
        "owner-reused",
        "A task that makes a claim takes the owner of the claim before it",
        ATTEMPT,
        "Claim::new(«context.owners.next()», waiter.timing, waiter.validity)",
        "crate::owner::OwnerId::new(context.owners.client(), 1)",
        &[Test(
            RUNTIME,
            "state::tests::turns::no_two_claims_have_the_same_owner",
        )],
    )
    .breaks("No two claims have one owner"),
    // The releases.
    Mutant::new(
        "question-forgotten",
        "A question that is dropped before its answer is not released",
        ATTEMPT,
        "self.claim.leaves_traces(context.now);",
        "",
        OFTEN,
    )
    .breaks("A request without an answer may have been carried out"),
    Mutant::new(
        "failure-leaves-nothing",
        "What was answered by an error counts as never sent",
        ATTEMPT,
        "if «error.left_nothing()» {",
        "error.left_nothing() || !error.is_final()",
        &[Test(
            RUNTIME,
            "state::tests::waits::a_question_without_an_answer_is_released_whatever_became_of_it",
        )],
    )
    .breaks("Only a request that was never sent, or was refused as a whole, leaves nothing to release"),
    Mutant::new(
        "place-kept",
        "A waiter that goes leaves its place in the queue behind",
        ATTEMPT,
        "«»self.on_busy(sent, holder, news, context)",
        "self.claim.traces_until = traces_before;",
        RARE,
    )
    .breaks("Its claim is released by its owner id"),
    Mutant::new(
        "release-sent-once",
        "A release without an answer is not repeated",
        ATTEMPT,
        "traces_until.is_none_or(|until| until.is_reached(now))",
        "traces_until.is_none_or(|_| true)",
        &[Test(
            RUNTIME,
            "state::tests::holds::a_release_is_repeated_until_the_store_has_forgotten_by_itself",
        )],
    )
    .breaks("the release is repeated until the store must have forgotten it by itself"),
    Mutant::new(
        "no-order-of-keys",
        "Several keys are taken in the order in which they are written",
        "dlock-runtime/src/engine/acquire_all.rs",
        "sorted.sort_by(|(_, (one, _)), (_, (other, _))| «one.cmp(other)»);",
        "{ let _ = (one, other); std::cmp::Ordering::Equal }",
        SELDOM,
    )
    .breaks("So no call waits for a key that comes before one it holds"),
    // A quorum.
    Mutant::new(
        "half-is-majority",
        "One less than a majority is enough",
        "dlock-runtime/src/store/quorum/node_set.rs",
        "count / 2 + 1",
        "count / 2",
        OFTEN,
    )
    .breaks("one that a majority has *while holding the lock for this claim*"),
    Mutant::new(
        "raised-anywhere",
        "A raise is counted where the lock is not held any more",
        "dlock-runtime/src/store/quorum/tally.rs",
        "Ok(Raised::NotOwner) => «Vote::Gone»,",
        "Vote::Granted(to)",
        &[Test(
            RUNTIME,
            "store::quorum::tests::model::five_nodes_that_answer_late_never_give_one_fence_twice",
        )],
    )
    .breaks("Confirmed where the lock is gone or was acquired anew"),
    Mutant::new(
        "released-id-reused",
        "A node that was sent a release is asked again under the same id",
        "dlock-runtime/src/store/quorum/claims.rs",
        "claim.ids.set(node, «id»);",
        "before.ids.at(node)",
        SELDOM,
    )
    .breaks("is never asked again under the same id"),
    // Redis.
    Mutant::new(
        "release-of-anybody",
        "A release takes the lock from whoever has it",
        "dlock-runtime/src/store/redis/protocol/release.lua",
        "if «not value or string.sub(value, 1, #owner + 1) ~= owner .. ' '» then",
        "not value",
        STRANGERS,
    )
    .breaks("no claim renews or releases another claim's lease"),
    Mutant::new(
        "renewal-of-anybody",
        "A renewal prolongs the lock of whoever has it",
        "dlock-runtime/src/store/redis/protocol/renew.lua",
        "if «not value or string.sub(value, 1, #owner + 1) ~= owner .. ' '» then",
        "not value",
        STRANGERS,
    )
    .breaks("no claim renews or releases another claim's lease"),
    Mutant::new(
        "fence-without-clock",
        "A fence is one more than the last one, which a server may forget",
        "dlock-runtime/src/store/redis/protocol/acquire.lua",
        "if «next_fence <= last» then",
        "true",
        &[Test(
            facade("servers"),
            "fences::forgotten::tokens_grow_although_redis_forgets",
        )],
    )
    .breaks("still grows after the server has lost it"),
];
