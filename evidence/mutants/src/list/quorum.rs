//! Mistakes in a quorum of independent stores.

use super::super::look::Look::{self, Simulation, Tests};
use super::super::look::{RUNTIME, facade};
use super::super::mutant::Mutant;

const ACQUIRE: &str = "dlock-runtime/src/store/quorum/acquire.rs";
const CLAIMS: &str = "dlock-runtime/src/store/quorum/claims.rs";
const NOTICES: &str = "dlock-runtime/src/store/quorum/notices.rs";
const OWED: &str = "dlock-runtime/src/store/quorum/owed.rs";
const PROPOSALS: &str = "dlock-runtime/src/store/quorum/proposals.rs";
const RENEW: &str = "dlock-runtime/src/store/quorum/renew.rs";
const TALLY: &str = "dlock-runtime/src/store/quorum/tally.rs";

const VOTES: &[Look] = &[
    Tests(RUNTIME, &["quorum"]),
    Tests(facade("failover"), &["quorum::"]),
    Simulation { seeds: 2_000 },
];

pub(super) const ALL: &[Mutant] = &[
    // A round.
    Mutant::new(
        "fence-proposed-anew",
        "Whoever asks again for what it has is told another fence by some nodes",
        ACQUIRE,
        "let proposal = «self.before.fence.unwrap_or_else(|| shared.propose())»;",
        "shared.propose()",
        VOTES,
    ),
    Mutant::new(
        "queued-for-the-lease",
        "Each node by itself makes a waiter the holder",
        "dlock-runtime/src/store/memory.rs",
        "proposal.notice.then_some(«Awaits::Notice»)",
        "Awaits::Lease",
        VOTES,
    )
    .breaks("A node never makes a waiter the holder"),
    Mutant::new(
        "split-not-hurried",
        "A node that hangs costs all of its time in each round of a split vote",
        ACQUIRE,
        "Step::Wait if «tally.looks_split() && !is_hurried» => {",
        "false",
        VOTES,
    )
    .breaks("is not held up by a node that hangs"),
    Mutant::new(
        "raised-from-anything",
        "A raise does not say from which fence",
        ACQUIRE,
        "let fences = [«tally.counted(node)», fence];",
        "fence",
        VOTES,
    ),
    Mutant::new(
        "touched-before-forgotten",
        "A node that was not reached this time is not sent a release for what it had before",
        ACQUIRE,
        "let nothing = «nothing.without(self.before.touched)»;",
        "nothing",
        VOTES,
    ),
    Mutant::new(
        "held-from-the-question",
        "The lease of a majority is forgotten before it ends",
        ACQUIRE,
        "let until = «Instant::now() + self.ask.ttl»;",
        "Instant::now()",
        VOTES,
    ),
    Mutant::new(
        "round-not-given-back",
        "What nodes hold after a round that granted nothing is not given back",
        ACQUIRE,
        "«Owed::new(self.shared, key, mode, given_back.ids, until, limit).give_back();»",
        "let _ = until;",
        VOTES,
    )
    .breaks("Grants of a round that failed are released at once"),
    Mutant::new(
        "places-given-up",
        "Places in queues are given up after a round that granted nothing",
        ACQUIRE,
        "let held = «tally.may_hold()»;",
        "self.shared.all()",
        VOTES,
    )
    .breaks("Places in queues are kept"),
    // Claims.
    Mutant::new(
        "fence-outlives-its-lease",
        "The fence of a lease that has ended is asked for again",
        CLAIMS,
        "claim.fence = «claim.fence.filter(|_| claim.held_until > now)»;",
        "claim.fence",
        VOTES,
    ),
    Mutant::new(
        "older-question-granted",
        "A question is granted that was asked anew since",
        CLAIMS,
        "let is_latest = «claim.ask == before.ask» && !claim.released;",
        "true",
        VOTES,
    )
    .breaks("only the latest question says what becomes of the claim"),
    Mutant::new(
        "older-question-gives-back",
        "A question gives back what a later one counts on",
        CLAIMS,
        "Some(claim) if «claim.ask == before.ask» => { given_back",
        "true",
        VOTES,
    )
    .breaks("only the latest question says what becomes of the claim"),
    Mutant::new(
        "later-claim-forgotten",
        "A release forgets a claim that was made after it",
        CLAIMS,
        ".is_some_and(|it| «it.ask == released.ask»)",
        "{ let _ = (it, released); true }",
        VOTES,
    ),
    Mutant::new(
        "refilled-after-release",
        "A node is given a lease that was released",
        CLAIMS,
        "let is_current = «!self.released» && self.ids.at(node) == id;",
        "true",
        VOTES,
    )
    .breaks("That never outlives the release"),
    Mutant::new(
        "touched-under-another-id",
        "A node that is known by another id counts as one of the claim",
        CLAIMS,
        "let is_current = !self.released && «self.ids.at(node) == id»;",
        "{ let _ = id; true }",
        VOTES,
    ),
    // The tally.
    Mutant::new(
        "raised-from-further",
        "A node that has counted further confirms a smaller fence",
        TALLY,
        "matches!(vote, Vote::Granted(it) if «*it == fence»)",
        "*it >= fence",
        VOTES,
    )
    .breaks("by a node that has counted further by itself, a fence could be given twice"),
    Mutant::new(
        "raising-counts",
        "A node that is asked to raise its fence has done so",
        TALLY,
        "let confirmed = «self.count_of(chosen)»;",
        "self.count_of(chosen) + raising",
        VOTES,
    ),
    Mutant::new(
        "failed-raise-is-granted",
        "A raise that failed leaves nothing",
        TALLY,
        "Err(error) => Vote::Failed(«error.with_possible_effect()»),",
        "error",
        VOTES,
    ),
    Mutant::new(
        "pending-holds-nothing",
        "A node that has not answered is not sent a release",
        TALLY,
        "Vote::Granted(_) | Vote::Raising { .. } | Vote::Gone | Vote::Pending => «true»,",
        "!matches!(vote, Vote::Pending)",
        VOTES,
    ),
    Mutant::new(
        "gone-holds-nothing",
        "A node that may have been got anew is not sent a release",
        TALLY,
        "Vote::Granted(_) | Vote::Raising { .. } | Vote::Gone | Vote::Pending => «true»,",
        "!matches!(vote, Vote::Gone)",
        VOTES,
    ),
    // Giving back.
    Mutant::new(
        "owed-once",
        "What a node owes is asked for once",
        OWED,
        "while «counted.is_some() && !self.ids.is_empty() && Instant::now() + pause < self.until» {",
        "{ let _ = &counted; false }",
        VOTES,
    )
    .breaks("repeated in the background until each node has answered or its TTL is over"),
    Mutant::new(
        "owed-with-its-runtime",
        "What a node owes is forgotten when the runtime ends",
        OWED,
        "«runtime.spawn(rest.pay());»",
        "let mut rest = rest; rest.ids.clear(); let _ = runtime;",
        VOTES,
    )
    .breaks("If the runtime ends meanwhile, the release goes on where the latest manager was made"),
    // Renewing.
    Mutant::new(
        "renewed-by-one-less",
        "One less than a majority renews a lease",
        RENEW,
        "if «self.renewed >= majority» {",
        "self.renewed + 1 >= majority",
        VOTES,
    ),
    Mutant::new(
        "not-refilled",
        "A node that has lost a lease is not given it again",
        RENEW,
        "«missing.extend(it.gone.iter().map(|node| (at, node)));»",
        "",
        VOTES,
    )
    .breaks("A renewal acquires the lock again on nodes that say \"not yours\" while a majority renews"),
    Mutant::new(
        "refill-not-given-back",
        "A node that was given a lease again does not give it back with the others",
        RENEW,
        "if «self.is_owed» {",
        "false",
        VOTES,
    )
    .breaks("both look at the claim after they have sent"),
    Mutant::new(
        "refilled-with-another-fence",
        "A node is given a lease again with a new fence",
        RENEW,
        "let proposal = ask.proposal(id, «fence»);",
        "fence + 1",
        VOTES,
    ),
    Mutant::new(
        "strangers-renewed",
        "A lease that is not known here counts as renewed",
        RENEW,
        "place.map_or(Ok(«Renewal::NotOwner»), |at|",
        "Renewal::Renewed",
        VOTES,
    ),
    // Notices and proposals.
    Mutant::new(
        "second-notice-dropped",
        "What a node tells again is not passed on",
        NOTICES,
        "if «entry.passed_on && entry.by.has(node)» {",
        "false",
        VOTES,
    )
    .breaks("A second notification by the same node is a new one"),
    Mutant::new(
        "notice-of-a-round",
        "A notice is for one round of an attempt alone",
        NOTICES,
        "let owner = «hint.owner.in_any_round()»;",
        "hint.owner",
        VOTES,
    )
    .breaks("Hints reach the attempt under the id of any of its rounds"),
    Mutant::new(
        "proposals-repeat",
        "A proposal is the last one again while the clock stands still",
        PROPOSALS,
        "now.max(«last + 1»)",
        "last",
        VOTES,
    ),
    Mutant::new(
        "proposals-see-nothing",
        "A proposal may be behind what a node has counted",
        PROPOSALS,
        "«self.0.fetch_max(fence, Ordering::Relaxed);»",
        "",
        VOTES,
    )
    .breaks("a proposal is always greater than every fence that the client has seen"),
];
