//! Properties of the runtimes on which tasks are spawned.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Lets another worker take the task that was just spawned or woken here.
///
/// tokio puts such a task into a slot of this worker from which no other worker steals, because the running
/// task usually awaits soon. A body that does not await would delay the renewal that it needs. One more task
/// pushes the first one out of the slot, into the queue from which other workers steal.
pub(crate) fn let_others_take_it() {
    if let Ok(runtime) = Handle::try_current()
        && runs_by_itself(&runtime)
    {
        drop(runtime.spawn(async {}));
    }
}

/// Returns `true` if a runtime has its own workers. A single-threaded runtime may exist without being driven.
pub(crate) fn runs_by_itself(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}
