//! Mistakes in the locks of threads, and in the attribute on a plain function.

use super::super::look::Look::{self, Tests};
use super::super::look::{FORKS, IN_PROCESS, MACROS, RUNTIME};
use super::super::mutant::Mutant;

const ENGINE: &str = "dlock-runtime/src/engine/blocking.rs";
const POOL: &str = "dlock-runtime/src/engine/pool.rs";
const LANE: &str = "dlock-runtime/src/lane.rs";
const GUARD: &str = "dlock-runtime/src/api/blocking/guard.rs";
const REQUEST: &str = "dlock-runtime/src/api/blocking/request.rs";
const SUPPORT: &str = "dlock-runtime/src/api/support.rs";
const OPTIONS: &str = "dlock-macros/src/blocking.rs";

const THREADS: &[Look] = &[
    Tests(RUNTIME, &["engine::blocking::"]),
    Tests(IN_PROCESS, &["blocking::"]),
];

const POOLS: &[Look] = &[Tests(RUNTIME, &["engine::pool::"])];

const ATTRIBUTE: &[Look] = &[Tests(MACROS, &["attribute::", "blocking::"])];

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
        "thread-waits-for-itself",
        "A call of a thread for a lock that it holds is waited for",
        GUARD,
        "«reentrancy::enter(acquisition.core.id(), guard.lease().keys())»",
        "reentrancy::enter(acquisition.core.id(), guard.lease().keys().take(0))",
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
    Mutant::new(
        "lane-dropped-in-a-task",
        "A runtime whose thread cannot be started is dropped inside a task",
        LANE,
        "«runtime.shutdown_background()»;",
        "drop(runtime)",
        &[Tests(FORKS, &[])],
    ),
    Mutant::new(
        "plain-detaches",
        "A plain function may ask to go on without its caller",
        OPTIONS,
        "if let Some(given) = «args.get(Opt::OnCancel)»",
        "args.get(Opt::OnCancel).filter(|_| false)",
        ATTRIBUTE,
    ),
    // Pools.
    Mutant::new(
        "full-pool-untold",
        "A body that needs a thread of a pool that waits for it is not found",
        POOL,
        "let is_full = «since >= LONG» &&",
        "false && since >= LONG",
        THREADS,
    ),
    Mutant::new(
        "full-pool-told-again",
        "A full pool is told of at each look",
        POOL,
        "&& «!mem::replace(&mut sent.is_told, true)»;",
        "{ sent.is_told = true; sent.is_told }",
        POOLS,
    ),
    Mutant::new(
        "free-pool-told",
        "A pool counts as full although it has begun a job since",
        POOL,
        "filter(|sent| «!sent.job.is_finished()»)",
        "{ let _ = sent; true }",
        POOLS,
    ),
    Mutant::new(
        "other-pool-told",
        "A pool is told of that the holder does not use",
        "dlock-runtime/src/engine/acquisition.rs",
        "find(|it| «it.runtime.id() == pool.id()»);",
        "{ let _ = it; true }",
        THREADS,
    ),
];
