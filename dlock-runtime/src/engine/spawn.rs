//! The properties of the runtimes that tasks are spawned on.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Lets another worker have the task that was just spawned or woken here.
///
/// tokio puts it into a slot of this worker from which no other may steal, in the hope that the
/// running task is about to await. A body that does not would hold up the very renewal it needs.
/// One more task pushes the first out of the slot, into the queue that others steal from.
pub(crate) fn let_others_take_it() {
    if let Ok(runtime) = Handle::try_current()
        && runs_by_itself(&runtime)
    {
        drop(runtime.spawn(async {}));
    }
}

/// `true` if a runtime has workers of its own: one of a single thread may be kept without being
/// run.
pub(crate) fn runs_by_itself(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}
