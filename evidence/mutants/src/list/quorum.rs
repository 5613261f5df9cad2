//! Mistakes in a quorum of independent stores.

use super::super::look::Look::{self, Simulation, Tests};
use super::super::look::{RUNTIME, facade};
use super::super::mutant::Mutant;

const ACQUIRE: &str = "dlock-runtime/src/store/quorum/acquire.rs";
const CLAIMS: &str = "dlock-runtime/src/store/quorum/claims.rs";
const NOTICES: &str = "dlock-runtime/src/store/quorum/notices.rs";
const OUTCOME: &str = "dlock-runtime/src/store/quorum/outcome.rs";
const OWED: &str = "dlock-runtime/src/store/quorum/owed.rs";
const PROPOSALS: &str = "dlock-runtime/src/store/quorum/proposals.rs";
const QUORUM: &str = "dlock-runtime/src/store/quorum.rs";
const RELEASE: &str = "dlock-runtime/src/store/quorum/release.rs";
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
        "late-node-unknown",
        "A node that grants late, and may not have the lock, does not give it back",
        OWED,
        "«Owed::new(self, &ask.key, ask.mode, vec![(node, id)], until, limit).give_back();»",
        "let _ = (until, limit);",
        VOTES,
    ),
    Mutant::new(
        "late-nodes-not-awaited",
        "Nodes that answer after a grant are not listened to",
        ACQUIRE,
        "«self.leave(requests, timer);»",
        "drop((requests, timer));",
        VOTES,
    ),
    Mutant::new(
        "granted-although-released",
        "A grant counts that was given back meanwhile",
        ACQUIRE,
        "return if «self.granted(&tally, fence)» {",
        "self.granted(&tally, fence) || true",
        VOTES,
    ),
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
        "held-is-asked-again",
        "A round that somebody else has won is repeated",
        ACQUIRE,
        "Refusal::Held(holder) => «return Ok(AcquireOutcome::Busy(holder))»,",
        "if number == MOST_ROUNDS { return Ok(AcquireOutcome::Busy(holder)) }",
        VOTES,
    ),
    Mutant::new(
        "split-is-held",
        "A split vote is not repeated",
        ACQUIRE,
        "let is_last = «number == MOST_ROUNDS || Instant::now() + pause >= end»;",
        "true",
        VOTES,
    ),
    Mutant::new(
        "older-question-goes-on",
        "A question goes on that was asked anew",
        ACQUIRE,
        "if is_last || «!is_latest» {",
        "{ let _ = is_latest; false }",
        VOTES,
    ),
    Mutant::new(
        "earlier-round-forgotten",
        "A later round that has left nothing hides what an earlier one may have left",
        ACQUIRE,
        "Refusal::Failed(error) if «number > 1 || !before.touched.is_empty()» =>",
        "false",
        VOTES,
    )
    .breaks("A request without an answer may have been carried out"),
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
        "untouched-is-touched",
        "A node that was never reached is sent a release",
        ACQUIRE,
        "Vote::Failed(error) => error.left_nothing(), _ => false, }); let nothing = «nothing.without(self.before.touched)»;",
        "nothing.without(nothing)",
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
    Mutant::new(
        "places-not-released",
        "A place in the queue of a node is not released by who leaves",
        ACQUIRE,
        "«queued || self.before.touched.has(node)»",
        "self.before.touched.has(node) && !queued",
        VOTES,
    ),
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
        "released-claim-goes-on",
        "A claim that was released is asked for again under the same ids",
        CLAIMS,
        "get_mut(&at).filter(|claim| «!claim.released»)",
        "{ let _ = claim; true }",
        VOTES,
    )
    .breaks("is never asked again under the same id"),
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
        "older-question-takes-later",
        "A question that was asked anew gives back what is known by the same ids",
        CLAIMS,
        ".retain(|(node, id)| «later.ids.at(*node) != *id»)",
        "{ let _ = (&later, node, id); true }",
        VOTES,
    ),
    Mutant::new(
        "released-claim-renewed",
        "A claim is renewed that is being given back",
        CLAIMS,
        "(«!claim.released»).then(|| { claim.until",
        "true",
        VOTES,
    ),
    Mutant::new(
        "renewal-not-noted",
        "The fence of a lease that was renewed is forgotten after its first TTL",
        CLAIMS,
        "«claim.held_until = claim.held_until.max(held_until);»",
        "let _ = held_until;",
        VOTES,
    ),
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
        "smallest-fence-chosen",
        "Of several fences the smallest is confirmed",
        TALLY,
        "let fence = «fences.max()».unwrap_or_default();",
        "fences.filter(|it| *it > 0).min()",
        VOTES,
    ),
    Mutant::new(
        "waits-without-votes",
        "A round is not refused when a majority is impossible",
        TALLY,
        "None if «granted + pending >= majority» =>",
        "granted + pending + 1 >= majority",
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
    Mutant::new(
        "failed-holds-nothing",
        "A node whose answer was lost is not sent a release",
        TALLY,
        "Vote::Failed(error) => «!error.left_nothing()»,",
        "{ let _ = error; false }",
        VOTES,
    ),
    Mutant::new(
        "reason-of-a-minority",
        "A refusal has its reason before a majority has told",
        TALLY,
        "«told >= majority» || told + pending < majority",
        "told + 1 >= majority",
        VOTES,
    ),
    Mutant::new(
        "reason-never-hopeless",
        "A refusal waits for a reason that cannot come any more",
        TALLY,
        "told >= majority || «told + pending < majority»",
        "{ let _ = pending; false }",
        VOTES,
    ),
    // The holder in a refusal.
    Mutant::new(
        "split-told-as-held",
        "A vote that nobody has won is told as held",
        OUTCOME,
        "let is_held = «got == 0 || holders.iter().any(|holder| same(holder) >= majority)»;",
        "{ let _ = same; true }",
        VOTES,
    ),
    Mutant::new(
        "end-of-the-first",
        "A waiter looks again when the first of several holders ends",
        OUTCOME,
        "let needed = «majority.saturating_sub(got).clamp(1, ends.len())»;",
        "1",
        VOTES,
    ),
    Mutant::new(
        "minority-is-final",
        "A failure of a minority for good is one of the quorum",
        OUTCOME,
        "let is_final = «finals > count - majority(count)»;",
        "finals > 0",
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
        "owed-without-bound",
        "Any number of releases may be repeated at once",
        OWED,
        "(«before < MOST_AT_ONCE»).then_some(counted)",
        "{ let _ = before; true }",
        VOTES,
    ),
    Mutant::new(
        "owed-with-its-runtime",
        "What a node owes is forgotten when the runtime ends",
        OWED,
        "«runtime.spawn(rest.pay());»",
        "let mut rest = rest; rest.ids.clear(); let _ = runtime;",
        VOTES,
    )
    .breaks("If the runtime ends meanwhile, the release goes on where the latest manager was made"),
    Mutant::new(
        "released-by-one",
        "A release has been answered when one node has",
        RELEASE,
        "if «held >= majority(count)» {",
        "held > 0",
        VOTES,
    ),
    Mutant::new(
        "untouched-not-gone",
        "Nodes that never had the lock are not counted as those where it was gone",
        RELEASE,
        "let mut gone = «shared.all().without(standing.touched).len()»;",
        "0",
        VOTES,
    ),
    Mutant::new(
        "rest-not-released",
        "Nodes that have not answered a release are not sent it again",
        RELEASE,
        "«rest.give_back();»",
        "let _ = std::mem::ManuallyDrop::new(rest);",
        VOTES,
    ),
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
        "late-node-not-refilled",
        "A node that says late that it has lost a lease is not given it again",
        RENEW,
        "if «renewed[at] && answer == Ok(Renewal::NotOwner)» {",
        "{ let _ = (&renewed, &answer); false }",
        VOTES,
    ),
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
    Mutant::new(
        "lost-lease-not-noted",
        "A lease that a majority has lost is not noted as lost",
        RENEW,
        "«shared.claims.lost(ask.owner, &ask.key, standing);»",
        "let _ = (ask, standing);",
        VOTES,
    ),
    // Notices and proposals.
    Mutant::new(
        "notice-of-few-dropped",
        "Notices of less than a majority are never passed on",
        NOTICES,
        "if «told.is_some_and(|told| !told.passed_on)» {",
        "{ let _ = told; false }",
        VOTES,
    ),
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
    Mutant::new(
        "smallest-drift",
        "The drift of a quorum is that of one of its stores",
        QUORUM,
        "drift = «drift.max(node.drift)»;",
        "node.drift",
        VOTES,
    ),
];
