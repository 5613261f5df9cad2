//! The mistakes, and what has to find each.
//!
//! Each is a small change that somebody could make in good faith, and breaks a rule of
//! `ARCHITECTURE.md`, which is quoted.

use super::way::Way::{self, Simulation, Test};

/// A mistake in the library.
#[derive(Debug)]
pub(super) struct Mutant {
    /// What one calls it.
    pub(super) name: &'static str,
    /// What is wrong with it, as a sentence.
    pub(super) mistake: &'static str,
    /// What it breaks, in the words of `ARCHITECTURE.md`.
    pub(super) rule: &'static str,
    pub(super) file: &'static str,
    /// Occurs in the file exactly once.
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) way: Way,
}

const RUNTIME: &str = "--package dlock-runtime --all-features --lib";
const CONFORMANCE: &str = "--package dlock-rs --all-features --test conformance";
const FENCES: &str = "--package dlock-rs --all-features --test fences";

const fn unit(name: &'static str) -> Way {
    Test {
        target: RUNTIME,
        name,
    }
}

pub(super) const ALL: &[Mutant] = &[
    // How long a lease is believed in.
    Mutant {
        name: "deadline-from-answer",
        mistake: "The deadline of a lease counts from the answer",
        rule: "A deadline counts from before the request was sent that the store has confirmed",
        file: "dlock-runtime/src/state/attempt/hold.rs",
        from: "let confirmed = sent.plus(self.claim.trust.asked);",
        to: "let confirmed = now.plus(self.claim.trust.asked);",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "renewal-from-answer",
        mistake: "The deadline of a renewed lease counts from the answer",
        rule: "A deadline counts from before the request was sent that the store has confirmed",
        file: "dlock-runtime/src/state/attempt/hold.rs",
        from: "hold.confirm(sent, &self.claim);",
        to: "hold.confirm(now, &self.claim);",
        way: Simulation { seeds: 2_000 },
    },
    Mutant {
        name: "failed-renewal-counts",
        mistake: "A renewal without an answer moves the deadline",
        rule: "A failed request never moves it",
        file: "dlock-runtime/src/state/attempt/hold.rs",
        from: "hold.failure = Some(error);",
        to: "hold.confirm(sent, &self.claim);\n                hold.failure = Some(error);",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "late-renewal-saves",
        mistake: "A renewal that is answered after the deadline brings the lease back",
        rule: "a lost lease never comes back",
        file: "dlock-runtime/src/state/attempt/hold.rs",
        from: "if !hold.deadline().is_reached(now) {\n                    hold.confirm",
        to: "if true {\n                    hold.confirm",
        way: unit("state::tests::holds::a_renewal_that_arrives_after_the_deadline_saves_nothing"),
    },
    Mutant {
        name: "no-drift",
        mistake: "Nothing is taken off for clocks that tick differently",
        rule: "the lease is valid until that time + TTL − drift",
        file: "dlock-runtime/src/store.rs",
        from: "ttl / 100 + Duration::from_millis(2)",
        to: "ttl * 0",
        way: Simulation { seeds: 2_000 },
    },
    Mutant {
        name: "sleep-does-not-count",
        mistake: "The boot clock is not looked at: a machine that sleeps keeps its leases",
        rule: "A deadline is past when either says so",
        file: "dlock-runtime/src/clock.rs",
        from: "now.monotonic >= self.monotonic || now.boot >= self.boot",
        to: "now.monotonic >= self.monotonic",
        way: unit("clock::tests::time_asleep_counts"),
    },
    Mutant {
        name: "lost-body-goes-on",
        mistake: "A body is not stopped when its lease is lost",
        rule: "which looks at the deadline before every poll and drops the body when the lease is lost",
        file: "dlock-runtime/src/guard/watch.rs",
        from: "if section.timing.on_lost == OnLost::Cancel || !*this.started {",
        to: "if !*this.started {",
        way: Simulation { seeds: 500 },
    },
    // What a hint is good for.
    Mutant {
        name: "hint-for-whole-ttl",
        mistake: "A lease that was handed over is believed for its whole TTL",
        rule: "So the lease is believed until the moment before the latest such question was sent + 3 s",
        file: "dlock-runtime/src/state/claim.rs",
        from: "granted: trusted(ttl.min(GRANT_TTL)),",
        to: "granted: trusted(ttl),",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "any-hint-believed",
        mistake: "A hint is believed by the latest question, whatever fence that knew",
        rule: "The latest question of all would not do",
        file: "dlock-runtime/src/state/claim.rs",
        from: "before.find(|refresh| refresh.last_fence < fence)?",
        to: "before.next()?",
        way: unit(
            "state::tests::turns::a_hint_is_believed_by_the_last_answer_that_knew_a_smaller_fence",
        ),
    },
    Mutant {
        name: "hints-only",
        mistake: "A waiter relies on hints alone, and looks again after an hour",
        rule: "whoever waits looks again at least every 1.25 s",
        file: "dlock-runtime/src/state/claim.rs",
        from: "LOOK_AGAIN: Duration = Duration::from_secs(1);",
        to: "LOOK_AGAIN: Duration = Duration::from_secs(3600);",
        way: unit(
            "state::tests::waits::a_waiter_looks_again_when_the_lease_has_ended_and_at_least_each_second",
        ),
    },
    // From task to task.
    Mutant {
        name: "same-token",
        mistake: "The next task gets the lease with the token of the one before it",
        rule: "a greater token: the fence and a sequence number below it",
        file: "dlock-runtime/src/state/claim.rs",
        from: "Some(last) if last.fence() == fence => last.next(),",
        to: "Some(last) if last.fence() == fence => Some(last),",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "endless-turn",
        mistake: "A lease goes from task to task for as long as there are tasks",
        rule: "It is handed on for 10 ms since it came from the store",
        file: "dlock-runtime/src/state/attempt/pass.rs",
        from: "&& hold.came.elapsed(now) <= LONGEST_TURN",
        to: "",
        way: unit("state::tests::turns::a_lease_that_came_too_long_ago_goes_back_to_the_store"),
    },
    Mutant {
        name: "any-ttl",
        mistake: "A claim goes on to a task that wants another TTL",
        rule: "All requests of a claim carry the same TTL",
        file: "dlock-runtime/src/state/attempt/pass.rs",
        from: "next.timing.ttl == self.claim.ttl\n            && ",
        to: "",
        way: unit("state::tests::turns::a_lease_is_handed_only_to_who_can_use_it_as_it_is"),
    },
    Mutant {
        name: "owner-reused",
        mistake: "A task whose id somebody else goes on with asks by it again",
        rule: "No two claims have one owner",
        file: "dlock-runtime/src/state/attempt.rs",
        from: "let owner = if waiter.has_lent_id {",
        to: "let owner = if false {",
        way: unit("state::tests::turns::no_two_claims_have_the_same_owner"),
    },
    // What is given back.
    Mutant {
        name: "question-forgotten",
        mistake: "A question that is dropped before its answer is not released",
        rule: "What got no answer may have been carried out",
        file: "dlock-runtime/src/state/attempt.rs",
        from: "self.claim.leaves_traces(around.now);",
        to: "",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "failure-leaves-nothing",
        mistake: "What was answered by an error counts as never sent",
        rule: "Only a request that was never sent, or was refused as a whole, leaves nothing to release",
        file: "dlock-runtime/src/state/attempt.rs",
        from: "if error.left_nothing() {",
        to: "if error.left_nothing() || !error.is_final() {",
        way: unit(
            "state::tests::waits::a_question_without_an_answer_is_released_whatever_became_of_it",
        ),
    },
    Mutant {
        name: "place-kept",
        mistake: "A waiter that goes leaves its place in the queue behind",
        rule: "The attempt is released by its owner id",
        file: "dlock-runtime/src/state/attempt.rs",
        from: "self.on_busy(sent, holder, news, around)\n            }",
        to: "self.claim.traces_until = traces_before;\n                self.on_busy(sent, holder, news, around)\n            }",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "release-sent-once",
        mistake: "A release without an answer is not repeated",
        rule: "the release is repeated until the store must have forgotten it by itself",
        file: "dlock-runtime/src/state/attempt.rs",
        from: "traces_until.is_none_or(|until| until.is_reached(now))",
        to: "traces_until.is_none_or(|_| true)",
        way: unit(
            "state::tests::holds::a_release_is_repeated_until_the_store_has_forgotten_by_itself",
        ),
    },
    Mutant {
        name: "no-order-of-keys",
        mistake: "Several keys are taken in the order in which they are written",
        rule: "So nobody waits for a key that comes before one it holds",
        file: "dlock-runtime/src/acquire/several.rs",
        from: "sorted.sort_by_key(|(_, key)| *key);",
        to: "sorted.sort_by_key(|(place, _)| *place);",
        way: Simulation { seeds: 2_000 },
    },
    // A quorum.
    Mutant {
        name: "half-is-majority",
        mistake: "One less than a majority is enough",
        rule: "one that a majority has *while holding the lock for us*",
        file: "dlock-runtime/src/store/quorum/nodes.rs",
        from: "count / 2 + 1",
        to: "count / 2",
        way: Simulation { seeds: 500 },
    },
    Mutant {
        name: "raised-anywhere",
        mistake: "A raise is counted where the lock is not held any more",
        rule: "Confirmed where the lock is gone or was got anew",
        file: "dlock-runtime/src/store/quorum/tally.rs",
        from: "Ok(Raised::NotOwner) => Vote::Gone,",
        to: "Ok(Raised::NotOwner) => Vote::Granted(to),",
        way: unit(
            "store::quorum::tests::model::five_nodes_that_answer_late_never_give_one_fence_twice",
        ),
    },
    Mutant {
        name: "released-id-reused",
        mistake: "A node that was sent a release is asked again under the same id",
        rule: "is never asked again under the same id",
        file: "dlock-runtime/src/store/quorum/claims.rs",
        from: "claim.ids.set(node, id);",
        to: "claim.ids.set(node, before.ids.at(node));",
        way: Simulation { seeds: 2_000 },
    },
    // Redis.
    Mutant {
        name: "release-of-anybody",
        mistake: "A release takes the lock from whoever has it",
        rule: "nobody renews or releases a stranger's",
        file: "dlock-runtime/src/store/redis/release.lua",
        from: "if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then",
        to: "if not value then",
        way: Test {
            target: CONFORMANCE,
            name: "redis::another_owner_can_neither_renew_nor_release",
        },
    },
    Mutant {
        name: "renewal-of-anybody",
        mistake: "A renewal prolongs the lock of whoever has it",
        rule: "nobody renews or releases a stranger's",
        file: "dlock-runtime/src/store/redis/renew.lua",
        from: "if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then",
        to: "if not value then",
        way: Test {
            target: CONFORMANCE,
            name: "redis::another_owner_can_neither_renew_nor_release",
        },
    },
    Mutant {
        name: "fence-without-clock",
        mistake: "A fence is one more than the last one, which a server may forget",
        rule: "still grows after the server has lost it",
        file: "dlock-runtime/src/store/redis/acquire.lua",
        from: "if next_fence <= last then",
        to: "if true then",
        way: Test {
            target: FENCES,
            name: "forgotten::tokens_grow_although_redis_forgets",
        },
    },
];
