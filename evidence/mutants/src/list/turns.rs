//! Mistakes in the order of a process's attempts, and in the hand-over between them.

use super::super::mutant::Mutant;
use super::state::STATE;

const KEY_STATE: &str = "dlock-runtime/src/state/key_state.rs";
const TURNS: &str = "dlock-runtime/src/state/turns.rs";
const HANDOVER: &str = "dlock-runtime/src/state/attempt/handover.rs";
const PAUSE: &str = "dlock-runtime/src/state/attempt/pause.rs";

pub(super) const ALL: &[Mutant] = &[
    // The attempt in front.
    Mutant::new(
        "front-leaves-alone",
        "A task that leaves does not hand its lease to the next one",
        KEY_STATE,
        "if matches!(event, Event::Left) && «front.is_active()» {",
        "false",
        STATE,
    ),
    Mutant::new(
        "pause-not-ended",
        "A task that pauses for others does not hear that the release was answered",
        KEY_STATE,
        "next = «self.others_are_told(gone.claim.owner, context)»;",
        "None",
        STATE,
    ),
    Mutant::new(
        "look-leaves-others-waiting",
        "A loss that is found by a look lets nobody else to the front",
        KEY_STATE,
        "let effect = front.check(context.now); return «self.after_front(effect, context)»;",
        "Outcome::of(effect)",
        STATE,
    ),
    Mutant::new(
        "waits-behind-the-absent",
        "A task that does not look keeps others out",
        TURNS,
        "front.is_none_or(|front| «front.is_absent(now)»)",
        "false && front.is_absent(now)",
        STATE,
    )
    .breaks("After three seconds any polled attempt behind it may take the claim over"),
    Mutant::new(
        "queue-looks-late",
        "A task behind others looks again when its wait is over",
        TURNS,
        "Effect::Queue(give_up.map_or(look_at, |end| «end.earlier(look_at)»))",
        "end",
        STATE,
    ),
    Mutant::new(
        "queue-outlasts-its-wait",
        "A task behind others waits longer than it wants to",
        TURNS,
        "Effect::Queue(«give_up.map_or(look_at, |end| end.earlier(look_at))»)",
        "{ let _ = give_up; look_at }",
        STATE,
    ),
    Mutant::new(
        "closed-behind-unheard",
        "A task behind others is not woken by a shutdown",
        TURNS,
        "waiter.refused = true; «Effect::Wake»",
        "Effect::Nothing",
        STATE,
    ),
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
        "handed-to-the-late",
        "A lease is handed to the first in line, whether it still waits or not",
        TURNS,
        "let next = self.behind.iter().position(|next| «next.is_waiting(now)»); let heir",
        "{ let _ = (next, now); true }",
        STATE,
    ),
    Mutant::new(
        "handed-to-anybody",
        "A lease is handed to a task that cannot use it as it is",
        TURNS,
        "next.filter(|&place| «front.can_take_over(&self.behind[place], context)»);",
        "{ let _ = (front.is_active(), place); true }",
        STATE,
    ),
    Mutant::new(
        "next-not-promoted",
        "Nobody comes to the front when a lease is lost",
        TURNS,
        "let is_over = «matches!(effect, Effect::Forget(_) | Effect::Lose)»;",
        "matches!(effect, Effect::Forget(_))",
        STATE,
    ),
    Mutant::new(
        "next-not-promoted-when-gone",
        "Nobody comes to the front when the one in front has gone",
        TURNS,
        "let is_over = «matches!(effect, Effect::Forget(_) | Effect::Lose)»;",
        "matches!(effect, Effect::Lose)",
        STATE,
    )
    .makes_no_difference(
        "nobody waits then behind who has gone: when it began to leave, the first of those who look came to \
         the front, and whoever looks or comes later steps there by itself",
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
        "spent-claim-for-min-hold",
        "A section with a `min_hold` takes over a claim that has held the lease",
        HANDOVER,
        "&& («next.timing.min_hold.is_none() || !self.claim.is_spent()»)",
        "true",
        STATE,
    ),
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
        "handed-to-late-call",
        "A call begins with the lease of another, however long before it that was requested",
        HANDOVER,
        "&& «next.may_rely_on(hold.known_since)»",
        "true",
        STATE,
    )
    .breaks("A call begins without a request of its own only if it came at most 10 ms after"),
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
        "asking-is-never-absent",
        "A task that asks and does not look any more keeps others out",
        HANDOVER,
        "Phase::Asking { until, .. } => «*until»,",
        "{ let _ = until; return false; }",
        STATE,
    ),
    Mutant::new(
        "handed-without-own-ttl",
        "A lease that is not to be renewed is handed over with what is left of it",
        "dlock-runtime/src/state/attempt/holding.rs",
        "|| «!self.waiter.timing.renew» =>",
        "false",
        STATE,
    )
    .breaks("A lease that is not to be renewed begins with its whole TTL"),
    Mutant::new(
        "passed-place-asked-at-once",
        "Whoever takes over a place in the queue asks at once",
        HANDOVER,
        "Phase::Waiting { look_at } => «look_at», // The answer",
        "{ let _ = look_at; now }",
        STATE,
    ),
    // Pauses for others.
    Mutant::new(
        "pauses-after-each",
        "A claim pauses for others before its turn is over",
        PAUSE,
        "Some(begun) if «begun.elapsed(now) > LONGEST_TURN» =>",
        "{ let _ = begun; true }",
        STATE,
    ),
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
    Mutant::new(
        "pause-outlasts-the-wait",
        "A pause leaves no time to ask before the wait is over",
        PAUSE,
        "Some(end) => «pause.until.earlier(now.plus(end.remaining(now) / 2))»,",
        "{ let _ = end; pause.until }",
        STATE,
    ),
];
