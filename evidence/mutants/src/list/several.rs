//! Mistakes in how a call takes several keys.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, RUNTIME, facade};
use super::super::mutant::Mutant;

const SEVERAL: &str = "dlock-runtime/src/engine/acquire_all.rs";

const KEYS: &[Look] = &[
    Tests(facade("servers"), &["several_keys::"]),
    Tests(RUNTIME, &[]),
    Tests(IN_PROCESS, &["lifecycle::"]),
];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "kept-by-the-first",
        "Of several keys only the first is kept for its `min_hold`",
        SEVERAL,
        "for taken in «&all» {",
        "&all[..1]",
        KEYS,
    ),
    Mutant::new(
        "kept-by-none",
        "Of several keys none is kept for its `min_hold`",
        SEVERAL,
        "for taken in «&all» {",
        "&all[..0]",
        KEYS,
    )
    .breaks("`min_hold` applies when all leases are there"),
    Mutant::new(
        "several-deadlock-not-found",
        "A call for several keys waits for itself",
        SEVERAL,
        "let held = |key| «reentrancy::contains(core.id(), key)»;",
        "{ let _ = key; false }",
        KEYS,
    ),
    Mutant::new(
        "order-of-all-told",
        "The leases of a call are in the order of all keys, not in that of the call",
        SEVERAL,
        "«as_written.sort_by_key(|(place, _)| *place);»",
        "",
        KEYS,
    )
    .breaks("A guard owns a lease for each key, in the order of the call"),
    Mutant::new(
        "several-starts-over-late",
        "A call starts over although its wait ends in the pause before",
        SEVERAL,
        "Some(Wait::For(rest)) if «rest <= pause» => return Err(lost),",
        "{ let _ = rest; false }",
        KEYS,
    ),
    Mutant::new(
        "several-starts-over-as-new",
        "A call that starts over waits for all of its wait again",
        SEVERAL,
        "«wait = rest;»",
        "let _ = rest;",
        KEYS,
    ),
    Mutant::new(
        "several-starts-over-at-once",
        "A call starts over without a pause",
        SEVERAL,
        "«sleep(pause).await;»",
        "",
        KEYS,
    )
    .breaks("after a pause the call starts over within its `wait`"),
    Mutant::new(
        "several-loss-is-refused",
        "A call does not start over when it has lost a lease meanwhile",
        SEVERAL,
        "Err(Setback::Lost(lost)) => «lost»,",
        "return Err(lost)",
        KEYS,
    ),
    Mutant::new(
        "try-keeps-the-rest",
        "A call that does not wait does not give back what it has got",
        SEVERAL,
        "// Awaited: a caller that finds one key busy must not find the other keys busy because of this call. «give_back(taken).await;»",
        "drop(taken);",
        KEYS,
    ),
    Mutant::new(
        "try-with-a-loss",
        "A call that does not wait begins with a lease that has ended",
        SEVERAL,
        "«self.settled(&taken).await».err().map(Setback::into_error)",
        "Ok::<(), Setback>(())",
        KEYS,
    ),
    Mutant::new(
        "try-tells-the-last",
        "A call that does not wait is told of the last key that is not free",
        SEVERAL,
        "failure = «failure.or(Some(error))»,",
        "Some(error)",
        KEYS,
    ),
    Mutant::new(
        "setback-not-awaited",
        "A call that is refused does not wait until it has given back what it has got",
        SEVERAL,
        "// Awaited, as above: the caller may try again at once. «give_back(held).await;»",
        "drop(held);",
        KEYS,
    ),
    Mutant::new(
        "answers-behind-kept",
        "A call keeps a key that comes behind one that it waits for",
        SEVERAL,
        "// The answers for later keys are dropped, which releases them. «break;»",
        "",
        KEYS,
    )
    .breaks("If the first is busy, leases of later keys are released"),
    Mutant::new(
        "several-wait-not-counted",
        "Each key of a call is waited for as long as the call may wait",
        SEVERAL,
        "wait = «self.rest_of_wait()».ok_or_else",
        "Some(wait)",
        KEYS,
    ),
    Mutant::new(
        "first-ended-meanwhile",
        "A call begins although the first of its leases has ended while others were waited for",
        SEVERAL,
        "match «held.iter().find_map(Taken::loss)» {",
        "held.iter().skip(1).find_map(Taken::loss)",
        KEYS,
    ),
    Mutant::new(
        "all-ended-meanwhile",
        "A call begins with leases that have ended while others were waited for",
        SEVERAL,
        "match «held.iter().find_map(Taken::loss)» {",
        "None::<LockError>",
        KEYS,
    ),
    Mutant::new(
        "several-begin-in-doubt",
        "A call begins although one of its leases may be gone",
        SEVERAL,
        "while let Some(doubted) = «acquisitions().find(|it| it.is_doubted())» {",
        "acquisitions().find(|_| false)",
        &[Tests(facade("servers"), &["admin::unlocking::"])],
    )
    .breaks("No body begins with a lease that may be gone"),
    Mutant::new(
        "behind-kept-while-waiting",
        "A call waits for a key with those behind it in hand",
        SEVERAL,
        "refuse_if_hopeless(&answers)?; «drop(answers);»",
        "std::mem::forget(answers);",
        KEYS,
    )
    .breaks("So no call waits for a key that comes before one it holds"),
    Mutant::new(
        "held-not-watched",
        "A call that waits does not notice that it has lost what it holds",
        SEVERAL,
        "pin!(any_lost(«held»))",
        "&held[..0]",
        KEYS,
    ),
    Mutant::new(
        "hopeless-is-waited-for",
        "A call waits for a key although another can never be had",
        SEVERAL,
        "LockError::Unavailable { reason, .. } => «reason.is_final()»,",
        "{ let _ = reason; false }",
        KEYS,
    ),
    Mutant::new(
        "shutdown-is-a-failure",
        "A call that is cut short by a shutdown says that the store could not be reached",
        SEVERAL,
        "} => «LockError::Closed { key }»,",
        "LockError::Unavailable { key, waited, reason: StoreError::timed_out(waited) }",
        KEYS,
    ),
    Mutant::new(
        "waited-by-the-last",
        "A call that is refused tells how long it has waited for its last key",
        SEVERAL,
        "LockError::Busy { key, holder, .. } => «LockError::Busy { key, waited, holder, }»,",
        "LockError::Busy { key, waited: Duration::ZERO, holder }",
        KEYS,
    ),
    Mutant::new(
        "several-not-on-trial",
        "A key is kept for its `min_hold` that was only tried",
        SEVERAL,
        "on_trial: «true»,",
        "false",
        KEYS,
    )
    .breaks("a lease that was only tried is released at once"),
];
