//! Mistakes in the order of a process's attempts, and in the hand-over between them.

use super::super::mutant::Mutant;
use super::state::STATE;

const TURNS: &str = "dlock-runtime/src/state/turns.rs";
const HANDOVER: &str = "dlock-runtime/src/state/attempt/handover.rs";
const PAUSE: &str = "dlock-runtime/src/state/attempt/pause.rs";

pub(super) const ALL: &[Mutant] = &[
    // The attempt in front.
    Mutant::new(
        "kept-claim-not-released",
        "What a task had before it was passed over is not given back when it leaves",
        TURNS,
        "let mut attempt = Attempt::new(«waiter», context); let effect = attempt.on_event(Event::Left, context);",
        "LocalWaiter { kept: None, ..waiter }",
        STATE,
    )
    .breaks("A request without an answer may have been carried out"),
    Mutant::new(
        "passed-over-comes-last",
        "A task that was passed over loses its place",
        TURNS,
        "let place = «self.behind.partition_point(|other| other.id < waiter.id)»;",
        "self.behind.len()",
        STATE,
    )
    .breaks("A task that has made way waits in its old place"),
    Mutant::new(
        "position-of-another",
        "A task behind others is told the place of the one in front",
        TURNS,
        "position: «None», ..holder",
        "holder.position",
        STATE,
    ),
    Mutant::new(
        "next-not-promoted",
        "No waiter comes to the front when a lease is lost",
        TURNS,
        "let is_over = «matches!(effect, Effect::Forget(_) | Effect::Lose)»;",
        "matches!(effect, Effect::Forget(_))",
        STATE,
    ),
    Mutant::new(
        "lost-turn-forgotten",
        "Whoever comes after a lease that is being given back begins a turn of its own",
        TURNS,
        "«next.follow(&last, context);» self.aside.push(last); } self.front",
        "",
        STATE,
    )
    .breaks("There a claim that comes after a turn of 10 ms"),
    // The lease that is handed over.
    Mutant::new(
        "handed-to-min-hold",
        "A section with a `min_hold` begins with the lease of another",
        HANDOVER,
        "&& «next.timing.min_hold.is_none()» }",
        "true",
        STATE,
    )
    .breaks("begins with a claim of its own"),
    Mutant::new(
        "handed-after-failure",
        "A lease is handed on whose renewal has failed",
        HANDOVER,
        "«hold.is_trusted()» &&",
        "hold.doubts.are_none()",
        STATE,
    ),
    Mutant::new(
        "handed-in-doubt",
        "A lease is handed on that may be gone, according to a message",
        HANDOVER,
        "«hold.is_trusted()» &&",
        "hold.failure.is_none()",
        STATE,
    )
    .breaks("A lease that may be gone, according to a message or a failed renewal, is not handed over or shared"),
    Mutant::new(
        "handed-at-its-end",
        "A lease is handed on with any time left",
        HANDOVER,
        "&& «hold.remaining(now) >= self.claim.least()»",
        "true",
        STATE,
    )
    .breaks("with a third of its TTL left, or a second if that is less"),
    Mutant::new(
        "absent-at-once",
        "A task is passed over that is a moment late",
        HANDOVER,
        "«expected.plus(ALIVE)».is_reached(now)",
        "expected",
        STATE,
    )
    .breaks("After three seconds any polled attempt behind it may take the claim over"),
    Mutant::new(
        "handed-without-own-ttl",
        "A lease that is not to be renewed is handed over with what is left of it",
        "dlock-runtime/src/state/attempt/holding.rs",
        "|| «!self.waiter.timing.renew» =>",
        "false",
        STATE,
    )
    .breaks("A lease that is not to be renewed begins with its whole TTL"),
    // Pauses for others.
    Mutant::new(
        "pause-ended-by-anybody",
        "A pause ends with the release of any claim",
        PAUSE,
        "self.claim.pause.filter(|pause| «pause.after == owner»);",
        "{ let _ = pause; true }",
        STATE,
    ),
    Mutant::new(
        "pause-ends-at-once",
        "Others have no time to ask after the release was answered",
        PAUSE,
        "let until = «context.now.plus(rest)»;",
        "context.now.plus(rest * 0)",
        STATE,
    )
    .breaks("asks when the release has been answered and about a round trip and 5 ms have passed"),
];
