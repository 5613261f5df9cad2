//! Mistakes in `dlock doctor`, and in how the command starts.

use super::super::look::Look::{self, Test, Tests};
use super::super::look::{ADMIN, IN_PROCESS, TYPED};
use super::super::mutant::Mutant;

const LOCKS: &str = "dlock-admin/src/doctor/locks.rs";
const START: &str = "dlock-cli/src/runtime.rs";
const HEALTH: &str = "dlock-runtime/src/api/manager.rs";

const JUDGES: &[Look] = &[Tests(ADMIN, &["redis::doctor"])];

const STARTS: &[Look] = &[Test(
    TYPED,
    "arguments::a_program_that_cannot_start_its_threads_ends",
)];

const PROBES: &[Look] = &[Test(
    IN_PROCESS,
    "lifecycle::shutdown::of_an_idle_manager_ends_at_once_and_refuses_what_comes",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "doctor-shortest-first",
        "Of the locks that are held for long, those of the shortest time are named",
        LOCKS,
        "longest.sort_by_key(|it| «std::cmp::Reverse(it.1)»);",
        "std::cmp::Reverse(Duration::MAX - it.1)",
        JUDGES,
    ),
    Mutant::new(
        "hangs-without-threads",
        "A program whose threads cannot be started waits for them",
        START,
        "«process::exit(Exit::Internal.code().into());»",
        "let _ = process::exit;",
        STARTS,
    ),
    Mutant::new(
        "health-is-not-asked",
        "A manager is healthy without an answer of the store",
        HEALTH,
        "match «lock.try_acquire().await?» {",
        "{ drop(lock); None }",
        PROBES,
    ),
];
