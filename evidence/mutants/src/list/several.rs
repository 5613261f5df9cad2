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
        "order-of-all-told",
        "The leases of a call are in the order of all keys, not in that of the call",
        SEVERAL,
        "«as_written.sort_by_key(|(place, _)| *place);»",
        "",
        KEYS,
    )
    .breaks("A guard owns a lease for each key, in the order of the call"),
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
        "try-with-a-loss",
        "A call that does not wait begins with a lease that has ended",
        SEVERAL,
        "«self.settled(&taken).await».err().map(Setback::into_error)",
        "Ok::<(), Setback>(())",
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
        "held-not-watched",
        "A call that waits does not notice that it has lost what it holds",
        SEVERAL,
        "pin!(any_lost(«held»))",
        "&held[..0]",
        KEYS,
    ),
];
