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
const TARGET: &str = "dlock-macros/src/target.rs";

const THREADS: &[Look] = &[
    Tests(RUNTIME, &["engine::blocking::"]),
    Tests(IN_PROCESS, &["blocking::"]),
];

const POOLS: &[Look] = &[Tests(RUNTIME, &["engine::pool::"])];

const ATTRIBUTE: &[Look] = &[Tests(MACROS, &["attribute::", "blocking::"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "blocks-in-a-task",
        "Code that blocks is let wait inside of an async task",
        ENGINE,
        "Ok(_) if «is_in_async_task()» =>",
        "false",
        THREADS,
    ),
    Mutant::new(
        "takes-budget",
        "A refused call takes the task what tokio lets it do at a time",
        ENGINE,
        "«while counted.pop().is_some() {}»",
        "counted.drain(..).for_each(|one| one.made_progress());",
        THREADS,
    ),
    Mutant::new(
        "thread-not-refused",
        "A thread that may block is taken for a task",
        ENGINE,
        "Poll::Ready(_) => break «false»",
        "true",
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
        "thread-begins-lost",
        "A section of a thread begins although its lease is lost",
        GUARD,
        "«guard.lease().ensure_held()?;» renewer::ensure",
        "",
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
        "thread-by-the-machines-clock",
        "A thread beside a paused clock measures its lease by another clock",
        ENGINE,
        "Ok(current) if «lane::has_virtual_clock()» =>",
        "false",
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
        "silent-on-lost",
        "A plain function need not say that its body goes on when its lease is lost",
        OPTIONS,
        "None if «!args.mentions(Opt::OnLost)»",
        "false",
        ATTRIBUTE,
    ),
    Mutant::new(
        "plain-stops",
        "A plain function may ask to be stopped, which is not done",
        OPTIONS,
        "Some(given) if «matches!(values::loss(&given.value), Ok(Loss::Stop))»",
        "false",
        ATTRIBUTE,
    ),
    Mutant::new(
        "plain-detaches",
        "A plain function may ask to go on without its caller",
        OPTIONS,
        "if let Some(given) = «args.get(Opt::OnCancel)»",
        "args.get(Opt::OnCancel).filter(|_| false)",
        ATTRIBUTE,
    ),
    Mutant::new(
        "locks-around-a-future",
        "A plain function that returns a future is locked while it makes the future",
        TARGET,
        "if «future::is_returned(&sig.output)»",
        "false",
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
