//! The operations that are interrupted: everything a user can await, from before its first request to after
//! its last.

use std::{
    future::{Future, Ready, ready},
    time::Duration,
};

use dlock::{Lease, LockError, LockManager, distributed_lock};
use tokio::{task::yield_now, time::sleep};

use crate::common::{LIMIT, soon};
use crate::stage::{Scene, Stage};

/// Something that awaits, and the world around it.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// The number of its awaits at least, the store's included, if nothing fails.
    pub(crate) awaits: usize,
    /// The number of awaits of requests to the store: two for each request.
    pub(crate) steps: usize,
    pub(crate) begin: fn(Stage) -> Scene,
    /// Prepares the stage, and moves the rest of the world as soon as the operation has begun, or
    /// is over.
    pub(crate) around: fn(Stage) -> Scene,
    /// Whether the store keeps the lease for a while when it is over.
    pub(crate) keeps: bool,
}

#[cfg(feature = "redis")]
impl Operation {
    /// Whether the manager cannot be used any more.
    pub(crate) fn ends_manager(&self) -> bool {
        self.name.starts_with("a shutdown")
    }
}

macro_rules! operations {
    ($($name:literal: $begin:ident, $around:ident, $awaits:literal awaits, $steps:literal steps
        $(, keeps $keeps:literal)?;)*) => {
        &[$(Operation {
            name: $name,
            awaits: $awaits,
            steps: $steps,
            begin: |stage| Box::pin($begin(stage)),
            around: |stage| Box::pin($around(stage)),
            keeps: false $(|| $keeps)?,
        }),*]
    };
}

/// The operations over one store.
pub(crate) const ALL: &[Operation] = operations! {
    "a section that nobody disturbs": run, alone, 5 awaits, 4 steps;
    "a locked function": call, alone, 5 awaits, 4 steps;
    "a guard, its watch and its release": guard, alone, 5 awaits, 4 steps;
    "a guard that is dropped": dropped, alone, 4 awaits, 4 steps;
    "a try": attempt, alone, 3 awaits, 4 steps;
    "a try in vain": in_vain, holds_to_the_end, 2 awaits, 2 steps;
    "a section behind another process": run, behind_a_process, 6 awaits, 4 steps;
    "a section behind another task": run, behind_a_task, 3 awaits, 2 steps;
    "a locked function behind another process": call, behind_a_process, 6 awaits, 4 steps;
    "a wait that ends in vain": impatient, holds_to_the_end, 3 awaits, 4 steps;
    "a body that is renewed": long, alone, 4 awaits, 6 steps;
    "a granted body that is renewed": long, behind_a_process, 5 awaits, 6 steps;
    "a section with a `min_hold`": kept, alone, 5 awaits, 4 steps, keeps true;
    "a section of several keys": run_all, alone, 5 awaits, 12 steps;
    "several keys, one behind another process": run_all, holds_the_second, 7 awaits, 14 steps;
    "a detached function": detach, alone, 5 awaits, 4 steps;
    "a detached function behind another process": detach, behind_a_process, 6 awaits, 4 steps;
    "a reader that nobody disturbs": read, alone, 5 awaits, 4 steps;
    "a reader beside one of another process": read, beside_a_reader, 5 awaits, 4 steps;
    "a reader beside another task": read, beside_a_task, 3 awaits, 2 steps;
    "a reader behind a writer": read, behind_a_process, 6 awaits, 4 steps;
    "a reader that is invited": read, behind_a_reader_that_waits, 3 awaits, 2 steps;
    "several readers at once": read_by_three, behind_a_process, 6 awaits, 4 steps;
    "a reader that is renewed": long_read, beside_a_reader, 4 awaits, 6 steps;
    "a writer behind readers": run, behind_readers, 6 awaits, 4 steps;
    "a writer whom readers wait behind": run, between_readers, 6 awaits, 4 steps;
    "a permit that nobody disturbs": take_permit, alone, 5 awaits, 4 steps;
    "a permit behind another process": take_permit, behind_permits, 6 awaits, 4 steps;
    "a permit that is handed over": take_permit, behind_a_task_with_the_permits, 3 awaits, 2 steps;
    "several permits at once": take_permits, behind_permits, 6 awaits, 8 steps;
    "several keys of mixed modes": run_mixed, alone, 5 awaits, 12 steps;
    "mixed modes, one behind another process": run_mixed, holds_the_second, 7 awaits, 14 steps;
    "mixed modes, one behind a reader": run_mixed, reads_the_first, 6 awaits, 12 steps;
    "a shutdown that waits for a holder": shut_down, holds_for_a_shutdown, 1 awaits, 2 steps;
    "a shutdown that cuts a holder short": shut_down_at_once, holds_through_a_shutdown, 1 awaits, 2 steps;
    "several keys, the first lost meanwhile": run_all_renewed, takes_the_first_away, 8 awaits, 16 steps;
};

/// The same without the last one, which takes long where seconds are real.
pub(crate) const QUICK: &[Operation] = ALL.split_last().unwrap().1;

/// The operations over several stores of which a quorum decides.
pub(crate) const OF_A_QUORUM: &[Operation] = operations! {
    "a section that nobody disturbs": run, alone, 5 awaits, 4 steps;
    "a guard that is dropped": dropped, alone, 4 awaits, 4 steps;
    "a section behind another process": run, behind_a_process, 6 awaits, 4 steps;
    "a body that is renewed": long, alone, 4 awaits, 6 steps;
    "a section of several keys": run_all, alone, 5 awaits, 12 steps;
    "a reader beside one of another process": read, beside_a_reader, 5 awaits, 4 steps;
    "a writer whom readers wait behind": run, between_readers, 6 awaits, 4 steps;
    "a detached function": detach, alone, 5 awaits, 4 steps;
};

/// The permits of a key.
const PERMITS: u32 = 2;

async fn body() {
    for _ in 0..2 {
        yield_now().await;
    }
}

/// Two awaits of a body under the lock.
async fn run(stage: Stage) {
    stage.lock().run(async |_| body().await).await.ok();
}

#[distributed_lock(key = "<key>", manager = manager, wait = "10s")]
async fn locked(manager: &LockManager, key: &str) -> Result<(), LockError> {
    body().await;
    Ok(())
}

async fn call(stage: Stage) {
    locked(stage.manager(), stage.key()).await.ok();
}

async fn guard(stage: Stage) {
    if let Ok(guard) = stage.lock().acquire().await {
        guard.run_while_held(body()).await.ok();
        guard.release().await.ok();
    }
}

async fn dropped(stage: Stage) {
    if let Ok(guard) = stage.lock().acquire().await {
        guard.run_while_held(body()).await.ok();
    }
}

async fn attempt(stage: Stage) {
    if let Ok(Some(guard)) = stage.lock().try_acquire().await {
        guard.release().await.ok();
    }
}

async fn in_vain(stage: Stage) {
    stage.lock().try_acquire().await.ok();
}

async fn impatient(stage: Stage) {
    let lock = stage.lock().wait(stage.scale().wait);
    lock.run(async |_| body().await).await.ok();
}

/// Long enough to be renewed twice.
async fn long(stage: Stage) {
    let ttl = stage.scale().short;
    let lock = stage.lock().ttl(ttl);
    let body = async |lease: &Lease| until_renewed(lease, ttl).await;
    lock.run(body).await.ok();
}

/// A renewal may be late where the machine has much else to do.
async fn until_renewed(lease: &Lease, ttl: Duration) {
    let mut left = lease.remaining();
    loop {
        sleep(ttl / 6).await;
        let before = std::mem::replace(&mut left, lease.remaining());
        if left > before {
            break;
        }
    }
}

async fn kept(stage: Stage) {
    let lock = stage.lock().min_hold(stage.scale().wait);
    lock.run(async |_| body().await).await.ok();
}

async fn run_all(stage: Stage) {
    stage.locks().run(async |_| body().await).await.ok();
}

async fn run_all_renewed(stage: Stage) {
    let locks = stage.locks().ttl(stage.scale().brief);
    locks.run(async |_| body().await).await.ok();
}

async fn read(stage: Stage) {
    let lock = stage.lock().shared();
    lock.run(async |_| body().await).await.ok();
}

/// The first that begins invites the others.
async fn read_by_three(stage: Stage) {
    tokio::join!(
        read(stage.clone()),
        read(stage.clone()),
        read(stage.clone())
    );
}

async fn long_read(stage: Stage) {
    let ttl = stage.scale().short;
    let lock = stage.lock().shared().ttl(ttl);
    let body = async |lease: &Lease| until_renewed(lease, ttl).await;
    lock.run(body).await.ok();
}

async fn take_permit(stage: Stage) {
    let lock = stage.lock().permits(PERMITS);
    lock.run(async |_| body().await).await.ok();
}

/// One more than there are.
async fn take_permits(stage: Stage) {
    tokio::join!(
        take_permit(stage.clone()),
        take_permit(stage.clone()),
        take_permit(stage.clone())
    );
}

async fn run_mixed(stage: Stage) {
    let locks = stage.locks_of_mixed_modes();
    locks.run(async |_| body().await).await.ok();
}

#[distributed_lock(key = "<key>", manager = manager, wait = "10s", on_cancel = detach)]
async fn detached(manager: LockManager, key: String) -> Result<(), LockError> {
    body().await;
    Ok(())
}

async fn detach(stage: Stage) {
    let key = stage.key().to_owned();
    detached(stage.manager().clone(), key).await.ok();
}

async fn shut_down(stage: Stage) {
    stage.manager().shutdown(LIMIT).await;
}

async fn shut_down_at_once(stage: Stage) {
    stage.manager().shutdown(stage.scale().wait).await;
}

#[expect(clippy::needless_pass_by_value, reason = "as the others of its kind")]
fn alone(stage: Stage) -> Ready<()> {
    stage.is_ready();
    ready(())
}

/// Does `what` first, unless the operation is over before.
async fn unless_over(stage: &Stage, what: impl Future<Output = ()>) {
    tokio::select! {
        () = what => {}
        () = stage.until_over() => {}
    }
}

async fn behind_a_process(stage: Stage) {
    let guard = stage.other().lock(stage.key()).acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(stage.key())).await;
    guard.release().await.unwrap();
}

async fn behind_a_task(stage: Stage) {
    let guard = stage.lock().acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_polled()).await;
    // A failure is not the store's: a shutdown may have taken the lease.
    guard.release().await.ok();
}

/// A reader of another process is inside all the time.
async fn beside_a_reader(stage: Stage) {
    let reader = stage.other().lock(stage.key()).shared();
    let guard = reader.acquire().await.unwrap();
    stage.is_ready();
    stage.until_over().await;
    guard.release().await.unwrap();
}

/// A task whose lease the operation shares, and which goes while that still has it.
async fn beside_a_task(stage: Stage) {
    let guard = stage.lock().shared().acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_polled()).await;
    guard.release().await.ok();
}

/// Another task of the process waits in front, and its lease is for both.
async fn behind_a_reader_that_waits(stage: Stage) {
    let writer = stage.other().lock(stage.key()).acquire().await.unwrap();
    let first = tokio::spawn(stage.lock().shared().acquire());
    stage.until_entered().await;
    stage.is_ready();
    unless_over(&stage, stage.until_polled()).await;
    writer.release().await.unwrap();
    // A failure is not the store's, as everywhere in that process.
    if let Ok(Ok(guard)) = first.await {
        guard.release().await.ok();
    }
}

async fn behind_readers(stage: Stage) {
    let reader = stage.other().lock(stage.key()).shared();
    let guard = reader.acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(stage.key())).await;
    guard.release().await.unwrap();
}

/// A reader that comes behind the operation gets in when that has gone, although the first one stays.
async fn between_readers(stage: Stage) {
    let reader = stage.other().lock(stage.key()).shared();
    // Another TTL, so that the second one does not share the lease of the first.
    let first = reader.clone().ttl(stage.scale().other);
    let first = first.acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(stage.key())).await;
    let second = tokio::spawn(reader.acquire());
    tokio::select! {
        () = sleep(stage.scale().wait) => {
            first.release().await.unwrap();
            soon(second).await.unwrap().unwrap().release().await.unwrap();
        }
        () = stage.until_over() => {
            soon(second).await.unwrap().unwrap().release().await.unwrap();
            first.release().await.unwrap();
        }
    }
}

/// All permits are taken.
async fn behind_permits(stage: Stage) {
    let permit = || stage.other().lock(stage.key()).permits(PERMITS);
    let one = permit().acquire().await.unwrap();
    let other = permit().acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(stage.key())).await;
    one.release().await.unwrap();
    other.release().await.unwrap();
}

/// The last permit is that of another task of the process.
async fn behind_a_task_with_the_permits(stage: Stage) {
    let permit = stage.other().lock(stage.key()).permits(PERMITS);
    let elsewhere = permit.acquire().await.unwrap();
    let guard = stage.lock().permits(PERMITS).acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_polled()).await;
    guard.release().await.ok();
    elsewhere.release().await.unwrap();
}

async fn holds_to_the_end(stage: Stage) {
    let guard = stage.other().lock(stage.key()).acquire().await.unwrap();
    stage.is_ready();
    stage.until_over().await;
    guard.release().await.unwrap();
}

async fn holds_the_second(stage: Stage) {
    let key = &stage.keys()[1];
    let guard = stage.other().lock(key).acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(key)).await;
    guard.release().await.unwrap();
}

/// A reader is at the key that is wanted exclusively.
async fn reads_the_first(stage: Stage) {
    let key = &stage.keys()[1];
    let reader = stage.other().lock(key).shared();
    let guard = reader.acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(key)).await;
    guard.release().await.unwrap();
}

/// Everything is forgotten while the operation waits for the second key and holds the first.
async fn takes_the_first_away(stage: Stage) {
    let key = &stage.keys()[1];
    let guard = stage.other().lock(key).acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_waiting(key)).await;
    stage.forget();
    guard.release().await.ok();
    if let Ok(guard) = stage.other().lock(key).acquire().await {
        unless_over(&stage, sleep(stage.scale().brief)).await;
        guard.release().await.ok();
    }
}

async fn holds_for_a_shutdown(stage: Stage) {
    let guard = stage.lock().acquire().await.unwrap();
    stage.is_ready();
    unless_over(&stage, stage.until_polled()).await;
    guard.release().await.ok();
}

async fn holds_through_a_shutdown(stage: Stage) {
    let guard = stage.lock().acquire().await.unwrap();
    stage.is_ready();
    stage.until_over().await;
    guard.release().await.ok();
}
