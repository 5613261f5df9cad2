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

const RENEWAL_LIMIT: &str = "let limit = «usual.max(left / 2).min(left)»;";

/// Of a lease that its task does not take.
const NOT_TAKEN: &str =
    "After 250 ms, or a third of its TTL if that is less, the renewer releases it";

/// Of a wait that is over before an answer.
const TOO_SOON: &str = "A wait that ends before its first request had 250 ms to be answered, or a quarter of `response_timeout`, is busy";

const IN_PROCESS_LIFE: &[Look] = &[Tests(IN_PROCESS, &["lifecycle::unpolled"])];

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
        "last-look-missed",
        "A task that is woken after its wait has ended gives up without its last question",
        WAITER,
        "«matches!(self.last_look, LastLook::Planned { .. })»",
        "false",
        STATE,
    ),
    Mutant::new(
        "last-look-of-no-length",
        "The answer to the last question of a task that is woken late is not waited for",
        WAITER,
        "least: «lead.min(LAST_LOOK)»,",
        "Duration::ZERO",
        STATE,
    ),
    Mutant::new(
        "last-look-too-late",
        "The last question is sent so late that a store that is far away cannot answer in time",
        WAITER,
        "let lead = «took .saturating_mul(2)» .saturating_add(",
        "Duration::ZERO",
        STATE,
    ),
    Mutant::new(
        "woken-and-asked",
        "Whoever is woken asks, however early that is",
        ATTEMPT,
        "if !is_over && «!look_at.is_reached(context.now)» {",
        "false",
        STATE,
    ),
    Mutant::new(
        "waits-past-its-end",
        "A waiter sleeps until it looks again although its wait ends before",
        ATTEMPT,
        "return Effect::WaitUntil(«give_up.map_or(look_at, |end| end.earlier(look_at))»);",
        "look_at",
        STATE,
    ),
    Mutant::new(
        "question-longer-than-ttl",
        "A question may take longer than the TTL",
        ATTEMPT,
        "let answer = «context.response_limit.min(timing.ttl)»;",
        "context.response_limit",
        STATE,
    ),
    Mutant::new(
        "question-longer-than-wait",
        "The last question of a wait may take longer than is left of it",
        ATTEMPT,
        "«answer.min(rest.max(self.waiter.begins_last_look(context.now)))»",
        "answer",
        STATE,
    ),
    Mutant::new(
        "queues-without-waiting",
        "A caller that does not wait enters the queue of the store",
        ATTEMPT,
        "let queue = «!self.wants_no_place(self.claim.traces_until)»;",
        "true",
        STATE,
    ),
    Mutant::new(
        "never-queues",
        "A waiter has no place in the queue of the store",
        ATTEMPT,
        "let queue = «!self.wants_no_place(self.claim.traces_until)»;",
        "false",
        STATE,
    ),
    Mutant::new(
        "looks-before-the-end",
        "A waiter looks again just before the lease ends, not just after",
        ATTEMPT,
        "let ended = «ttl + Duration::from_millis(1)»;",
        "ttl.saturating_sub(Duration::from_millis(1))",
        STATE,
    ),
    Mutant::new(
        "looks-after-a-second",
        "A waiter does not look when the lease ends that is in its way",
        ATTEMPT,
        "Some(ttl) if «ttl < SOON» =>",
        "false && ttl.is_zero()",
        STATE,
    ),
    Mutant::new(
        "looks-in-step",
        "All waiters look again at the same time",
        ATTEMPT,
        "_ => «jittered(LOOK_AGAIN)»,",
        "LOOK_AGAIN",
        STATE,
    ),
    Mutant::new(
        "late-at-a-known-end",
        "A waiter comes up to a quarter of a second after an end that it knows",
        ATTEMPT,
        "let spread = «ended.min(4 * SPREAD)»;",
        "ended",
        STATE,
    ),
    Mutant::new(
        "in-step-at-a-known-end",
        "All waiters come at the same time to an end that they know",
        ATTEMPT,
        "«ended.saturating_sub(spread) + jittered(spread)»",
        "{ let _ = spread; ended }",
        STATE,
    ),
    Mutant::new(
        "kept-end-is-not-known",
        "A task behind a lease that is kept does not know its end",
        "dlock-runtime/src/state/attempt/pause.rs",
        "self.claim.kept_until = «last.kept_for(now).map(|rest| now.plus(rest))»;",
        "{ let _ = last.kept_for(now); None }",
        STATE,
    ),
    Mutant::new(
        "kept-end-is-not-forgotten",
        "A task asks without a pause after the end of a lease that was kept",
        "dlock-runtime/src/state/claim.rs",
        "let kept = «self.kept_until.filter(|until| !until.is_reached(now))»;",
        "self.kept_until",
        STATE,
    ),
    Mutant::new(
        "final-is-repeated",
        "A question is repeated that the store refuses for good",
        ATTEMPT,
        "let is_final = «error.is_final()»;",
        "false",
        STATE,
    ),
    Mutant::new(
        "failure-is-final",
        "A waiter gives up at the first failure",
        ATTEMPT,
        "let is_final = «error.is_final()»;",
        "true",
        STATE,
    ),
    Mutant::new(
        "cut-short-tells",
        "A last question that was cut short hides what was known before",
        ATTEMPT,
        "LastAnswer::Busy(_) | LastAnswer::Failed(_) if «cut_short» => {}",
        "false && cut_short",
        STATE,
    ),
    Mutant::new(
        "cut-short-is-a-failure",
        "A wait that ends before the store has to answer finds it unavailable",
        ATTEMPT,
        "LastAnswer::NotAsked if «cut_short && too_soon» => {",
        "false && too_soon",
        STATE,
    )
    .breaks(TOO_SOON),
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
        "try-without-an-answer-is-busy",
        "A call without a wait whose request fails finds the lock busy",
        ATTEMPT,
        "let too_soon = «self.waiter.timing.wait != Wait::Never» &&",
        "true",
        STATE,
    )
    .breaks(TOO_SOON),
    Mutant::new(
        "news-forgotten",
        "A grant that is told while a question is under way is forgotten",
        ATTEMPT,
        "Some(EarlyHint::Granted { fence, number }) => { «drop(self.on_grant(fence, number, context.now));» }",
        "()",
        STATE,
    ),
    Mutant::new(
        "look-again-forgotten",
        "EarlyHint that come while a question is under way are forgotten",
        ATTEMPT,
        "Some(EarlyHint::LookAgain) => «drop(self.on_look_again(context.now))»,",
        "()",
        STATE,
    ),
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
        "A lease that nobody has looked at yet is entered after a shutdown",
        ATTEMPT,
        "self.waiter.refused = true;",
        "self.waiter.refused = !self.is_holding();",
        STATE,
    ),
    Mutant::new(
        "revoked-without-loss",
        "A shutdown that waits no longer leaves holders their leases",
        ATTEMPT,
        "Phase::Holding(hold) if «hold.is_entered()» => self.lose(LostCause::ShutDown, now),",
        "false && hold.is_entered()",
        STATE,
    ),
    // Leaving.
    Mutant::new(
        "late-question-not-awaited",
        "A release is not repeated for as long as the last request may be carried out",
        ATTEMPT,
        "Some(«until.later(now.plus(LOOK_AGAIN))»)",
        "until",
        STATE,
    ),
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
    Mutant::new(
        "kept-a-part-less",
        "A `min_hold` loses its part of a millisecond",
        ATTEMPT,
        "(!rest.is_zero()).then(|| «rest + Duration::from_millis(1)»)",
        "rest",
        STATE,
    ),
    // Holding.
    Mutant::new(
        "late-grant-entered",
        "A grant is entered that took as long as its lease",
        HOLDING,
        "if «sent.plus(validity).is_reached(now)» {",
        "false",
        STATE,
    )
    .breaks("A deadline counts from before the request was sent that the store has confirmed"),
    Mutant::new(
        "deadline-without-max-hold",
        "The end of a `max_hold` is no deadline",
        HOLD,
        "Some(end) => «self.confirmed.earlier(end)»,",
        "self.confirmed",
        STATE,
    ),
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
    .makes_no_difference(
        "the section sets it anew when it enters, and nothing reads it before",
    ),
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
        "renewed-only-once",
        "A lease that was renewed is not renewed again before its deadline",
        HOLD,
        "«self.renew_at = renewal_after(sent, claim.ttl);»",
        "self.renew_at = self.confirmed;",
        STATE,
    ),
    Mutant::new(
        "renewal-at-the-end",
        "A lease is renewed after nine tenths of its TTL",
        HOLD,
        "let (third, step) = («ttl / 3», (ttl / 512)",
        "ttl * 9 / 10",
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
        "renewals-rounded-up",
        "Renewals are rounded to a time that is later",
        HOLD,
        "sent.plus(«third.saturating_sub(past_step)»)",
        "third + past_step",
        STATE,
    ),
    Mutant::new(
        "hint-of-short-lease-believed",
        "A lease that was handed over is entered with any time left",
        HOLDING,
        "&& «sent.plus(validity).remaining(now) >= least»",
        "!sent.plus(validity).is_reached(now)",
        STATE,
    )
    .makes_no_difference(
        "the task looks at the lease before it enters, applies the same limit, and asks",
    ),
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
        "handed-lease-entered-late",
        "A lease that was handed over is entered however long it has lain there",
        HOLDING,
        "|| «hold.remaining(now) < self.claim.least()» ||",
        "false && hold.remaining(now).is_zero()",
        STATE,
    ),
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
        "untaken-stays",
        "A lease that its task does not take stays with it",
        HOLDING,
        "return if «at.is_reached(now)» { Effect::GiveBack",
        "false",
        STATE,
    )
    .breaks(NOT_TAKEN),
    Mutant::new(
        "untaken-is-not-noted",
        "The renewer does not look whether a task takes the lease that was handed to it",
        "dlock-runtime/src/engine/acquisition/untaken.rs",
        "«self.note_while_held(renew_at, now);»",
        "drop((renew_at, now));",
        IN_PROCESS_LIFE,
    )
    .breaks(NOT_TAKEN),
    Mutant::new(
        "untaken-grant-is-not-noted",
        "The renewer does not look whether a task takes the lease that the store has granted",
        "dlock-runtime/src/engine/renewer.rs",
        "Effect::Wake => («bearer.untaken()?».at, None),",
        "bearer.untaken().filter(|_| false)?",
        IN_PROCESS_LIFE,
    )
    .breaks(NOT_TAKEN),
    Mutant::new(
        "untaken-is-not-released",
        "A lease that its task does not take is not released",
        "dlock-runtime/src/engine/release.rs",
        "«BackgroundRelease::start(releaser, owner);» }",
        "drop(releaser);",
        IN_PROCESS_LIFE,
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
    Mutant::new(
        "none-after-an-untaken-lease",
        "No task is woken after one that did not take its lease",
        "dlock-runtime/src/state/untaken.rs",
        "let next = if was_in_front { «self.promote(Some(&attempt), context)» }",
        "None",
        STATE,
    ),
    Mutant::new(
        "renewal-without-second-try",
        "A renewal may take all the time that is left of the lease",
        HOLDING,
        RENEWAL_LIMIT,
        "usual.max(left)",
        STATE,
    ),
    Mutant::new(
        "renewal-past-the-deadline",
        "A renewal is awaited past the deadline of the lease",
        HOLDING,
        RENEWAL_LIMIT,
        "usual.max(left / 2)",
        STATE,
    ),
    Mutant::new(
        "not-owner-ignored",
        "A lease that the store does not know any more goes on to its deadline",
        HOLDING,
        "Ok(Renewal::NotOwner) if «hold.granted_at.is_reached(sent)» =>",
        "false && hold.granted_at.is_reached(sent)",
        STATE,
    ),
    Mutant::new(
        "failed-renewal-waits-long",
        "A renewal that failed is repeated after a second, however short the TTL",
        HOLDING,
        "let longest = «LOOK_AGAIN.min(self.claim.ttl / 10)»;",
        "LOOK_AGAIN",
        STATE,
    ),
    // Doubts.
    Mutant::new(
        "begins-in-doubt",
        "A body begins with a lease that was handed to it although a message says that it may be gone",
        HOLDING,
        "if «!hold.is_trusted()» || hold.remaining(now)",
        "false",
        STATE,
    )
    .breaks("No body begins with a lease that may be gone"),
    Mutant::new(
        "doubt-in-flight-ignored",
        "A body begins with a lease that was doubted while its request was in flight",
        ATTEMPT,
        "Ok(AcquireOutcome::Granted { .. }) if «news.is_some_and(EarlyHint::is_doubt)» =>",
        "false",
        STATE,
    )
    .breaks("No body begins with a lease that may be gone"),
    Mutant::new(
        "doubt-in-flight-believed-again",
        "A late message is believed after a doubt that came while a request was in flight",
        HOLDING,
        "if «fence == 0» {",
        "fence == 0 && matches!(self.phase, Phase::Waiting { .. })",
        STATE,
    )
    .breaks("No body begins with a lease that may be gone"),
    Mutant::new(
        "doubted-lease-believed-again",
        "A late message is believed after its lease was doubted",
        HOLDING,
        "fn on_doubt(&mut self, context: Context<'_>) -> Effect { «self.claim.forgotten();»",
        "",
        STATE,
    )
    .breaks("No body begins with a lease that may be gone"),
    // What is known of a lease.
    Mutant::new(
        "place-of-another-believed",
        "A call begins by a message about the place of another, however late it came",
        HOLDING,
        "&& «self.waiter.may_rely_on(sent)»",
        "true",
        STATE,
    )
    .breaks("A call begins without a request of its own only if it came at most 10 ms after"),
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
        "fence-zero-vouches",
        "An answer that says nothing of fences vouches for any hint",
        CLAIM,
        "self.refresh = «(last_fence > 0)».then_some(",
        "true",
        STATE,
    ),
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
    Mutant::new(
        "traces-for-the-ttl-alone",
        "A place in the queue is forgotten with a TTL that is shorter",
        CLAIM,
        "let until = now.plus(«self.ttl.max(ALIVE + GRANT_TTL)»);",
        "self.ttl",
        STATE,
    ),
    Mutant::new(
        "pauses-grow-without-end",
        "The pause after a failure grows beyond its limit",
        CLAIM,
        "jittered(«doubled.min(longest)», random.next_u64())",
        "{ let _ = longest; doubled }",
        STATE,
    ),
    Mutant::new(
        "waits-for-ever",
        "A wait with a limit has none",
        WAITER,
        "Wait::For(limit) => «Some(now.plus(limit))»,",
        "{ let _ = limit; None }",
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
