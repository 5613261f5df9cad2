//! Mistakes in what an attempt decides while it asks, waits, holds and leaves.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, RUNTIME};
use super::super::mutant::Mutant;

const HOLD: &str = "dlock-runtime/src/state/attempt/hold.rs";
const HOLDING: &str = "dlock-runtime/src/state/attempt/holding.rs";
const ATTEMPT: &str = "dlock-runtime/src/state/attempt.rs";
const CLAIM: &str = "dlock-runtime/src/state/claim.rs";
const WAITER: &str = "dlock-runtime/src/state/waiter.rs";
const CLOCK: &str = "dlock-runtime/src/clock.rs";

/// Of a lease that its task does not take.
const NOT_TAKEN: &str =
    "After 250 ms, or a third of its TTL if that is less, the renewer releases it";

/// Of a wait that is over before an answer.
const TOO_SOON: &str = "A wait that ends before its first request had 250 ms to be answered, or a quarter of `response_timeout`, is busy";

pub(super) const STATE: &[Look] = &[
    Tests(RUNTIME, &["state::"]),
    Tests(RUNTIME, &[]),
    Tests(IN_PROCESS, &["lifecycle::"]),
];

pub(super) const ALL: &[Mutant] = &[
    // Tokens.
    Mutant::new(
        "token-of-the-future",
        "A hint is believed whose fence is a day ahead of the clock",
        HOLDING,
        "token.filter(|_| «!is_far_ahead(fence)»)",
        "true",
        STATE,
    ),
    // Asking and waiting.
    Mutant::new(
        "kept-end-is-not-forgotten",
        "A task asks without a pause after the end of a lease that was kept",
        "dlock-runtime/src/state/claim.rs",
        "let kept = «self.kept_until.filter(|until| !until.is_reached(now))»;",
        "self.kept_until",
        STATE,
    ),
    Mutant::new(
        "silence-is-busy",
        "A store that has not answered for long counts as a busy lock",
        "dlock-runtime/src/state/event.rs",
        "«sent.elapsed(self.now) >= ANSWERED_WITHIN.min(self.response_limit / 4)»",
        "{ let _ = sent; false }",
        STATE,
    )
    .breaks(TOO_SOON),
    Mutant::new(
        "look-again-hides-grant",
        "EarlyHint of any sort take the place of a grant that was told",
        ATTEMPT,
        "«news.get_or_insert(EarlyHint::LookAgain);»",
        "*news = Some(EarlyHint::LookAgain);",
        STATE,
    ),
    Mutant::new(
        "closed-holder-handed",
        "A lease that no task has looked at yet is entered after a shutdown",
        ATTEMPT,
        "self.waiter.refused = true;",
        "self.waiter.refused = !self.is_holding();",
        STATE,
    ),
    // Leaving.
    Mutant::new(
        "kept-from-the-grant",
        "A `min_hold` counts from the moment at which it is asked about",
        ATTEMPT,
        "let rest = «self.keep_until?.longest_remaining(now)»;",
        "self.waiter.timing.min_hold?",
        STATE,
    ),
    Mutant::new(
        "kept-by-the-first-clock",
        "A `min_hold` ends when the first of the clocks says so",
        ATTEMPT,
        "«self.keep_until?.longest_remaining(now)»;",
        "self.keep_until?.remaining(now)",
        STATE,
    ),
    // Holding.
    Mutant::new(
        "max-hold-from-the-lease",
        "A `max_hold` of a section begins when the store has granted the lease",
        HOLDING,
        "hold.end = max_hold.map(|max_hold| «now».plus(max_hold));",
        "hold.granted_at",
        STATE,
    ),
    Mutant::new(
        "max-hold-handed-on",
        "The next section has the `max_hold` of the one before it",
        HOLD,
        "since: now, end: «None», entered: false,",
        "self.end",
        STATE,
    )
    .makes_no_difference("the section sets it anew when it enters, and nothing reads it before"),
    Mutant::new(
        "doubt-ignored",
        "A lease that is doubted is renewed when its time has come",
        HOLD,
        "let renew_at = if «self.doubts.is_raised» {",
        "false",
        STATE,
    )
    .breaks("An operator's message makes a holder renew at once"),
    Mutant::new(
        "doubt-at-any-rate",
        "Whoever publishes makes a holder renew any number of times",
        HOLD,
        "«self.renew_at.earlier(self.doubts.next)»",
        "self.since",
        STATE,
    )
    .breaks("but not in the first 250 ms of its lease and at most four times a second"),
    Mutant::new(
        "doubt-not-spent",
        "One doubt is a reason for more than one renewal",
        HOLDING,
        "if «std::mem::take(&mut hold.doubts.is_raised)» {",
        "hold.doubts.is_raised",
        STATE,
    ),
    Mutant::new(
        "older-answer-shortens",
        "An answer that is older than the one before shortens the lease",
        HOLD,
        "self.confirmed = «self.confirmed.later(sent.plus(claim.validity.asked))»;",
        "sent.plus(claim.validity.asked)",
        STATE,
    ),
    Mutant::new(
        "renewals-not-rounded",
        "Leases that came one after the other are not renewed together",
        HOLD,
        "sent.plus(«third.saturating_sub(past_step)»)",
        "third",
        STATE,
    )
    .breaks("Renewals are rounded to a 512th of the TTL"),
    Mutant::new(
        "granted-renewed-late",
        "A lease that came by a grant is first renewed when a third of its short TTL has passed",
        HOLDING,
        "let renew_at = «renewal_of_grant(sent.plus(validity), now)»;",
        "now.plus(sent.plus(validity).remaining(now) / 3)",
        STATE,
    )
    .breaks("renews 100 to 200 ms after it was woken"),
    Mutant::new(
        "trial-is-kept",
        "A lease that is only tried is kept for its `min_hold`",
        HOLDING,
        "if «!timing.on_trial» {",
        "true",
        STATE,
    )
    .breaks("a lease that was only tried is released at once"),
    Mutant::new(
        "absent-is-renewed",
        "A lease that was handed to a task which does not look is renewed",
        HOLDING,
        "if let Some(at) = «give_back_at» { // A task that does not respond",
        "give_back_at.filter(|_| false)",
        STATE,
    )
    .breaks(NOT_TAKEN),
    Mutant::new(
        "taken-is-given-back",
        "A lease that was taken at the last moment is given back",
        "dlock-runtime/src/state/attempt/untaken.rs",
        "self.holding().filter(|hold| «!Hold::is_entered(hold)»)?",
        "{ let _ = hold; true }",
        STATE,
    ),
    // Doubts.
    Mutant::new(
        "doubt-in-flight-believed-again",
        "A late message is believed after a doubt that came while a request was in flight",
        HOLDING,
        "if «fence == 0» {",
        "fence == 0 && matches!(self.phase, Phase::Waiting { .. })",
        STATE,
    )
    .breaks("No body begins with a lease that may be gone"),
    // What is known of a lease.
    Mutant::new(
        "relies-for-long",
        "A call relies on what was known of a lease long before it came",
        WAITER,
        "sent.elapsed(self.entered) <= «KNOWN_FOR»",
        "10 * KNOWN_FOR",
        STATE,
    )
    .breaks("A call begins without a request of its own only if it came at most 10 ms after"),
    // The claim and its waiters.
    Mutant::new(
        "hint-of-the-same-fence",
        "A hint is believed by an answer that knew its fence already",
        CLAIM,
        "(«last.last_fence < number»).then_some",
        "last.last_fence <= number",
        STATE,
    )
    .breaks("Each *busy* answer carries the last fence of the slot"),
    Mutant::new(
        "lease-made-younger",
        "Another answer makes a lease younger, and so its turn longer",
        CLAIM,
        "Some((known, came)) if known == fence => «came»,",
        "{ let _ = came; now }",
        STATE,
    ),
    // Clocks.
    Mutant::new(
        "remaining-by-one-clock",
        "What is left of a lease is read from the clock that stands still in sleep",
        CLOCK,
        "«monotonic.min(self.boot.saturating_sub(now.boot))»",
        "monotonic",
        STATE,
    ),
    Mutant::new(
        "elapsed-by-one-clock",
        "How long ago something was is read from the clock that stands still in sleep",
        CLOCK,
        "«monotonic.max(now.boot.saturating_sub(self.boot))»",
        "monotonic",
        STATE,
    ),
];
