//! Mistakes in the guard, its lease and body, the section, and what outlives the caller.

use super::super::look::Look::{self, Tests};
use super::super::look::{CANCELLATION, IN_PROCESS, RUNTIME, facade};
use super::super::mutant::Mutant;

const GUARD: &str = "dlock-runtime/src/api/guard.rs";
const LEASE: &str = "dlock-runtime/src/api/guard/lease.rs";
const WOKEN: &str = "dlock-runtime/src/api/guard/woken.rs";
const ACQUISITION: &str = "dlock-runtime/src/engine/acquisition.rs";
const REQUESTS: &str = "dlock-runtime/src/engine/acquisition/requests.rs";
const ACQUIRE: &str = "dlock-runtime/src/engine/acquire.rs";
const RUN: &str = "dlock-runtime/src/api/request/run.rs";
const REENTRANCY: &str = "dlock-runtime/src/engine/reentrancy.rs";
const GLOBAL: &str = "dlock-runtime/src/api/global.rs";
const RELEASE: &str = "dlock-runtime/src/engine/release.rs";
const RENEWER: &str = "dlock-runtime/src/engine/renewer.rs";

const LIFE: &[Look] = &[
    Tests(facade("conformance"), &["memory::"]),
    Tests(RUNTIME, &[]),
    Tests(IN_PROCESS, &["lifecycle::"]),
    Tests(CANCELLATION, &["although_releases_are_swallowed"]),
    Tests(
        CANCELLATION,
        &[
            "faults::",
            "memory::",
            "min_replicas::",
            "redis",
            "slow_servers::",
        ],
    ),
    Tests(facade("servers"), &["spans::"]),
];

const DETACHED: &[Look] = &[
    Tests(IN_PROCESS, &["detach::"]),
    Tests(facade("servers"), &["spans::"]),
    Tests(IN_PROCESS, &["lifecycle::"]),
    Tests(RUNTIME, &[]),
];

const BODIES: &[Look] = &[Tests(IN_PROCESS, &["bodies::"])];

const MANY: &[Look] = &[
    Tests(facade("servers"), &["several_keys::"]),
    Tests(RUNTIME, &[]),
];

pub(super) const ALL: &[Mutant] = &[
    // The guard.
    Mutant::new(
        "finish-ignores-loss",
        "A call answers with the value of its body although the release says that the lock was lost",
        GUARD,
        "Poll::Ready(match (output, «released») {",
        "released.or(Ok::<(), LockError>(()))",
        LIFE,
    )
    .breaks("\"Was not yours\" makes the call `Lost`"),
    Mutant::new(
        "unanswered-release-not-repeated",
        "A release that got no answer is not repeated",
        RELEASE,
        "«»// The release may not have reached the store: dropping the place repeats it.",
        "place.left = true;",
        LIFE,
    )
    .breaks("no answer makes it an event, and the release is repeated in the background"),
    Mutant::new(
        "finish-gets-the-loss",
        "A section with `on_lost = finish` ends with the loss",
        RELEASE,
        "OnLost::Finish => {«» acquisition.events().lost_but_finished",
        "return Err(error);",
        LIFE,
    ),
    Mutant::new(
        "others-not-released",
        "Of several keys only the first is given back by the release",
        GUARD,
        "join_all(std::iter::once(place).chain(others).map(release)).await",
        "vec![{ let released = release(place).await; others.for_each(std::mem::forget); released }]",
        MANY,
    ),
    Mutant::new(
        "loss-of-another-is-well",
        "Of several keys only the loss of the first is told by the release",
        GUARD,
        "«released.into_iter().collect()»",
        "released.into_iter().next().unwrap_or(Ok(()))",
        MANY,
    ),
    // The lease.
    Mutant::new(
        "lost-by-the-first",
        "Of several keys only the first can be lost",
        LEASE,
        "«self.acquisitions() .any(|acquisition| acquisition.check().is_err())»",
        "self.acquisitions().take(1).any(|acquisition| acquisition.check().is_err())",
        MANY,
    ),
    Mutant::new(
        "ensured-by-the-first",
        "Of several keys only the first is ensured",
        LEASE,
        "try_for_each(|acquisition| «acquisition.ensure_at(acquisition.now())»)",
        "if Arc::ptr_eq(acquisition, &self.place.acquisition) { acquisition.ensure_at(acquisition.now()) } else { Ok(()) }",
        MANY,
    ),
    Mutant::new(
        "ring-of-the-first",
        "The loss of another key than the first wakes no task",
        WOKEN,
        "is_woken |= «other.as_mut().poll(context).is_ready()»;",
        "{ let _ = &other; false }",
        MANY,
    )
    .breaks("The first loss ends the body"),
    // The body.
    Mutant::new(
        "scope-of-all",
        "The end of a scope ends those around it",
        REENTRANCY,
        "let before = «held.len() - keys»;",
        "0",
        LIFE,
    ),
    // The section.
    Mutant::new(
        "keys-are-not-forgotten",
        "The entry of a key is kept when no task wants it any more",
        ACQUISITION,
        "Effect::Forget(_) if «is_idle» =>",
        "false && is_idle",
        LIFE,
    )
    .breaks("the attempt leaves the table, and the key with the last one"),
    Mutant::new(
        "keep-beside-renewal",
        "What keeps a lease for its `min_hold` does not wait for a renewal that is under way",
        REQUESTS,
        "let alone = «timeout(limit, setting.lock()).await.ok()»;",
        "None",
        LIFE,
    )
    .breaks("after a renewal that is under way"),
    Mutant::new(
        "panic-frees-kept",
        "A body that panics gives up its `min_hold`",
        RELEASE,
        "«»acquisition.core.bounds.begins_release();",
        "if thread::panicking() && acquisition.core.store.at(acquisition.now()).is_ok_and(|store| store.release_at_once(crate::store::ReleaseRequest::new(acquisition.key(), owner))) {}",
        LIFE,
    ),
    Mutant::new(
        "panic-releases-kept",
        "A body that panics releases its lock instead of keeping it for its `min_hold`",
        ACQUISITION,
        "«»if self.waits.swap(false, Ordering::Relaxed) {",
        "if std::thread::panicking() { PANICKED.lock().expect(\"it is whole\").push((self.core.id(), self.id)); }",
        LIFE,
    )
    .and(
        "«self.timing.min_hold?;»",
        "self.timing.min_hold?; if PANICKED.lock().expect(\"it is whole\").contains(&(self.core.id(), self.id)) { return None; }",
        "
static PANICKED: std::sync::Mutex<Vec<(usize, AttemptId)>> = std::sync::Mutex::new(Vec::new());
",
    ),
    Mutant::new(
        "kept-was-gone",
        "A lease that could not be kept for its `min_hold` counts as held",
        REQUESTS,
        "Renewal::NotOwner => «Released::WasGone»,",
        "Released::WasHeld",
        LIFE,
    ),
    Mutant::new(
        "kept-for-the-ttl",
        "A lease is kept for its TTL and not for the rest of its `min_hold`",
        REQUESTS,
        "store.renew_one(self.renewal(owner, «rest»));",
        "self.timing.ttl",
        LIFE,
    ),
    // Acquiring.
    Mutant::new(
        "acquired-from-the-answer",
        "A question counts from its answer",
        ACQUIRE,
        "Event::Answered { sent: «now», answer }",
        "acquisition.now()",
        LIFE,
    )
    .breaks("A deadline counts from before the request was sent that the store has confirmed"),
    // Bodies of a request.
    Mutant::new(
        "run-detached-is-torn",
        "A body of `run_detached` ends with its caller",
        RUN,
        "«section.await»",
        "{ let mut torn = std::mem::ManuallyDrop::new(section); \
         std::future::poll_fn(move |context| Pin::new(&mut *torn).poll(context)).await }",
        BODIES,
    ),
    Mutant::new(
        "try-run-hides-the-loss",
        "A body of `try_run` that has failed hides that its lease was lost",
        RUN,
        "«self.run(body).await?»",
        "{ let guard = self.acquire().await?; body(guard.lease()).await }",
        BODIES,
    ),
    Mutant::new(
        "manager-leaks-to-siblings",
        "The manager of `with_manager` is seen by what is joined with it",
        GLOBAL,
        "«IN_SCOPE.scope(manager, future).await»",
        "let _leak = Leak(LEAKED.replace(Some(manager))); future.await",
        DETACHED,
    )
    .and(
        "IN_SCOPE.try_with(LockManager::clone).ok()",
        "LEAKED.with_borrow(Clone::clone)",
        "
thread_local! {
    static LEAKED: std::cell::RefCell<Option<LockManager>> = const { std::cell::RefCell::new(None) };
}
struct Leak(Option<LockManager>);
impl Drop for Leak {
    fn drop(&mut self) {
        LEAKED.with_borrow_mut(|it| *it = self.0.take());
    }
}
",
    ),
    // The parts that outlive the task.
    Mutant::new(
        "release-ends-with-runtime",
        "A release does not go on where its runtime has ended",
        RELEASE,
        "if «self.done» { self.acquisition.core.bounds.ends_release();",
        "true",
        LIFE,
    )
    .breaks("whose drop starts the work again on the next runtime"),
    Mutant::new(
        "sleep-not-noticed",
        "The renewer does not notice that the machine has slept",
        RENEWER,
        "«by_boot > by_monotonic + Duration::from_millis(10)»",
        "false && by_boot > by_monotonic",
        LIFE,
    )
    .breaks("compares the clocks, and looks at every lease if the machine slept"),
];
