//! Mistakes in the locks of threads, and in the attribute on a plain function.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, RUNTIME};
use super::super::mutant::Mutant;

const ENGINE: &str = "dlock-runtime/src/engine/blocking.rs";
const GUARD: &str = "dlock-runtime/src/api/blocking/guard.rs";
const REQUEST: &str = "dlock-runtime/src/api/blocking/request.rs";
const SUPPORT: &str = "dlock-runtime/src/api/support.rs";

const THREADS: &[Look] = &[
    Tests(RUNTIME, &["engine::blocking::"]),
    Tests(IN_PROCESS, &["blocking::"]),
];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "takes-budget",
        "A refused call takes the task what tokio lets it do at a time",
        ENGINE,
        "«while counted.pop().is_some() {}»",
        "counted.drain(..).for_each(|one| one.made_progress());",
        THREADS,
    ),
    Mutant::new(
        "thread-without-loss",
        "A section of a thread ends as if its lease had been valid",
        REQUEST,
        "Self(request.on_lost(«OnLost::Stop»))",
        "OnLost::Finish",
        THREADS,
    ),
    Mutant::new(
        "function-without-loss",
        "A plain function ends as if its lease had been valid",
        SUPPORT,
        "options.on_lost(«OnLost::Stop»)",
        "OnLost::Finish",
        THREADS,
    ),
    Mutant::new(
        "thread-drops-in-background",
        "A guard of a thread that is dropped is given back behind its program",
        GUARD,
        "«drop(wait_for_release(&runtime, guard.release()))»,",
        "drop(guard)",
        THREADS,
    ),
    Mutant::new(
        "lost-in-a-destructor",
        "A release in a destructor of a thread hides that the lease was lost",
        GUARD,
        "Err(_) => «guard.lease().ensure_at(Moment::of_machine())»,",
        "Ok(())",
        THREADS,
    ),
    Mutant::new(
        "release-blocks-on-tokio",
        "A release waits by tokio's means, which panic in a runtime's own code",
        ENGINE,
        "let parker = «Arc::new(Parker::default())»;",
        "{ runtime.block_on(async {}); Arc::new(Parker::default()) }",
        THREADS,
    ),
];
