//! Mistakes in renewals: the task that waits, the groups that are sent, the thread and connections
//! of their own, and the detection of bodies that are not polled.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, facade};
use super::super::mutant::Mutant;

const RENEWER: &str = "dlock-runtime/src/engine/renewer.rs";
const RENEWALS: &str = "dlock-runtime/src/engine/renewer/renewals.rs";
const QUEUE: &str = "dlock-runtime/src/engine/renewer/queue.rs";
const REDIS_LANE: &str = "dlock-runtime/src/store/redis/topology/lane.rs";

const MANY: &[Look] = &[
    Tests(IN_PROCESS, &["lifecycle::many_leases"]),
    Tests(IN_PROCESS, &["lifecycle::"]),
];

const HOGS: &[Look] = &[Tests(facade("processes"), &["hogs::"])];

const CLOCKS: &[Look] = &[Tests(IN_PROCESS, &["lifecycle::suspended"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "all-groups-at-once",
        "All renewals that are due are sent at once",
        QUEUE,
        "if «self.under_way >= MOST_UNDER_WAY» {",
        "false",
        MANY,
    )
    .breaks("Four groups of renewals are under way at a time"),
    Mutant::new(
        "late-answer-given-up",
        "A renewal waits for its answer as long as any request, however much time the lease has left",
        "dlock-runtime/src/state/attempt/holding.rs",
        "let limit = «usual.max(left / 2).min(left)»;",
        "usual.min(left)",
        MANY,
    )
    .breaks("An answer is waited for as long as usual, or for half of what the lease has left"),
    Mutant::new(
        "fewer-answers-are-enough",
        "A lease that a store does not answer for counts as being renewed for ever",
        RENEWALS,
        "let answer = «answers.next().unwrap_or_else(|| Err(no_answer()))»;",
        "if let Some(answer) = answers.next() { answer } else { self.due.clear(); return; }",
        MANY,
    ),
    Mutant::new(
        "slot-kept-by-the-slow",
        "A group that waits long for its answer keeps others from being sent",
        RENEWALS,
        "// Other groups may be sent in the meantime. «self.under_way = None;»",
        "",
        MANY,
    )
    .breaks("makes way for the next"),
    Mutant::new(
        "no-lane",
        "Leases are renewed on a runtime of the user's",
        RENEWER,
        "«is_wanted.then(lane::runtime).flatten()»",
        "{ let _ = (is_wanted, lane::runtime); None }",
        HOGS,
    )
    .breaks("The renewer, its timers and its connections are on a thread that all managers of the process share"),
    Mutant::new(
        "unsent-renewals-not-repeated",
        "A renewal that its own connection could not send goes nowhere",
        REDIS_LANE,
        "if «unsent.is_empty()» || rest.is_zero() {",
        "true",
        &[Tests(facade("servers"), &["connection::renewals"]), Tests(facade("processes"), &["hogs::"])],
    )
    .breaks("A renewal that cannot be sent there goes over the connection of other requests"),
    Mutant::new(
        "jump-unnoticed",
        "A jump of the time of day is no reason to renew",
        RENEWER,
        "«(ahead > JUMP).then_some(ahead)»",
        "None",
        CLOCKS,
    )
    .breaks("When the time of day has jumped ahead of the other clocks, every lease is renewed at once"),
    Mutant::new(
        "ended-body-watched",
        "A guard whose body has ended is reported as one that is not polled",
        "dlock-runtime/src/api/guard/held.rs",
        "«this.lease.place.acquisition.polls.end();»",
        "",
        HOGS,
    ),
];
