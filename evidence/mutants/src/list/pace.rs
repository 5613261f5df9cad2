//! Mistakes in the time that pages and listings use: that of the store, and that of the runtime which serves a page.

use super::super::look::Look::{self, Test};
use super::super::look::{RUNTIME, TYPED, WEB};
use super::super::mutant::Mutant;

const BUDGET: &str = "dlock-runtime/src/budget.rs";
const PAST: &str = "dlock-admin-web/src/past.rs";

const MINUTE: &[Look] = &[Test(
    RUNTIME,
    "budget::tests::no_minute_has_more_than_a_twentieth",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "pace-saves-for-ever",
        "A long rest saves more than half a second of the server's time",
        BUDGET,
        "let from = «self.due.max(rested(began))»;",
        "{ let _ = rested(began); self.due }",
        MINUTE,
    ),
    Mutant::new(
        "pace-twice",
        "A listing uses 8 % of the server's time",
        BUDGET,
        "cost.saturating_mul(«ONE_IN»)",
        "ONE_IN / 2",
        &[Test(
            TYPED,
            "budget::a_slow_list_spares_the_server_and_shows_its_progress_at_a_terminal",
        )],
    ),
    Mutant::new(
        "pace-begins-again",
        "A program may begin as often as it likes",
        BUDGET,
        "if «!std::mem::replace(&mut self.has_begun, true)» {",
        "{ self.has_begun = true; true }",
        &[Test(RUNTIME, "budget::tests::a_program_begins_once")],
    ),
    Mutant::new(
        "serve-waits-for-history",
        "A message about a grant waits until all locks have been compared",
        PAST,
        "match «self.history.try_lock()» {",
        "self.history.lock().map_err(TryLockError::from)",
        &[Test(
            WEB,
            "past::tests::nothing_waits_for_a_picture_that_is_taken_into_the_history",
        )],
    ),
];
