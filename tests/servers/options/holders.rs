//! Which calls hold a key at the same time, and what becomes of a call whose key is held or whose caller is gone.

use dlock::{LockError, LockManager, distributed_lock};
use tokio::sync::oneshot;

use super::{Gate, World, assert_busy};
use crate::common::soon;

#[distributed_lock(key = "account:<id>", wait = never, manager = locks)]
async fn close(locks: &LockManager, id: u64, gate: &Gate) -> Result<(), LockError> {
    gate.pass().await;
    Ok(())
}

pub(super) async fn key(world: World) {
    let gate = Gate::default();
    let checks = async {
        assert!(
            !world.is_free("account:7").await,
            "broken promise: two hold the key"
        );
        assert_busy(&close(&world.there, 7, &Gate::opened()).await);
        close(&world.there, 8, &Gate::opened()).await.unwrap();
    };
    gate.during(close(&world.here, 7, &gate), checks)
        .await
        .unwrap();
    close(&world.there, 7, &Gate::opened()).await.unwrap();
}

#[distributed_lock(key = "shop", mode = shared, wait = never, manager = locks)]
async fn read(locks: &LockManager, gate: &Gate) -> Result<(), LockError> {
    gate.pass().await;
    Ok(())
}

#[distributed_lock(key = "shop", wait = never, manager = locks)]
async fn write(locks: &LockManager, gate: &Gate) -> Result<(), LockError> {
    gate.pass().await;
    Ok(())
}

pub(super) async fn mode(world: World) {
    let gate = Gate::default();
    let checks = async {
        read(&world.there, &Gate::opened()).await.unwrap();
        assert_busy(&write(&world.there, &Gate::opened()).await);
    };
    gate.during(read(&world.here, &gate), checks).await.unwrap();
    let checks = async { assert_busy(&read(&world.there, &Gate::opened()).await) };
    gate.during(write(&world.here, &gate), checks)
        .await
        .unwrap();
}

#[distributed_lock(key = "office", permits = 2, wait = never, manager = locks)]
async fn report(locks: &LockManager, gate: &Gate) -> Result<(), LockError> {
    gate.pass().await;
    Ok(())
}

pub(super) async fn permits(world: World) {
    let [first, second] = [(); 2].map(|()| Gate::default());
    let both = async {
        assert_busy(&report(&world.here, &Gate::opened()).await);
        assert_busy(&report(&world.there, &Gate::opened()).await);
    };
    let one = async {
        second
            .during(report(&world.there, &second), both)
            .await
            .unwrap();
        report(&world.there, &Gate::opened()).await.unwrap();
    };
    first
        .during(report(&world.here, &first), one)
        .await
        .unwrap();
}

#[distributed_lock(key = "skipped", on_busy = skip, manager = locks)]
async fn skipped(locks: &LockManager) -> Result<Option<u64>, LockError> {
    Ok(Some(42))
}

#[distributed_lock(key = "skipped", wait = never, on_busy = Ok(0), manager = locks)]
async fn replaced(locks: &LockManager) -> Result<u64, LockError> {
    Ok(42)
}

#[distributed_lock(key = "skipped", wait = never, enabled = is_locked, manager = locks)]
async fn enabled(locks: &LockManager, is_locked: bool) -> Result<(), LockError> {
    Ok(())
}

pub(super) async fn on_busy_and_enabled(world: World) {
    let guard = soon(world.there.lock("skipped").acquire()).await.unwrap();
    assert_eq!(soon(skipped(&world.here)).await, Ok(None));
    assert_eq!(soon(replaced(&world.here)).await, Ok(0));
    assert_busy(&soon(enabled(&world.here, true)).await);
    soon(enabled(&world.here, false)).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(soon(skipped(&world.here)).await, Ok(Some(42)));
    assert_eq!(soon(replaced(&world.here)).await, Ok(42));
}

#[distributed_lock(key = "detached", on_cancel = detach, manager = locks)]
async fn detached(
    locks: LockManager,
    entered: oneshot::Sender<()>,
    open: oneshot::Receiver<()>,
    ended: oneshot::Sender<()>,
) -> Result<(), LockError> {
    entered.send(()).unwrap();
    open.await.unwrap();
    ended.send(()).unwrap();
    Ok(())
}

pub(super) async fn on_cancel(world: World) {
    let (entered, has_entered) = oneshot::channel();
    let (open, opened) = oneshot::channel();
    let (ended, has_ended) = oneshot::channel();
    tokio::select! {
        outcome = detached(world.here.clone(), entered, opened, ended) => panic!("{outcome:?}"),
        entered = soon(has_entered) => entered.unwrap(),
    }
    assert!(
        !world.is_free("detached").await,
        "broken promise: two hold the key"
    );
    open.send(()).expect("the body waits without its caller");
    soon(has_ended).await.unwrap();
    let guard = soon(world.there.lock("detached").acquire()).await.unwrap();
    guard.release().await.unwrap();
}

#[distributed_lock(key = ["order:<id>", shared("tenant:<tenant>")], wait = never, manager = locks)]
async fn order(locks: &LockManager, id: u64, tenant: u64, gate: &Gate) -> Result<(), LockError> {
    gate.pass().await;
    Ok(())
}

pub(super) async fn several_keys(world: World) {
    let gate = Gate::default();
    let checks = async {
        order(&world.there, 2, 7, &Gate::opened()).await.unwrap();
        assert_busy(&order(&world.there, 1, 8, &Gate::opened()).await);
        assert!(
            !world.is_free("tenant:7").await,
            "broken promise: two hold the key"
        );
        assert!(world.is_free("tenant:8").await);
    };
    gate.during(order(&world.here, 1, 7, &gate), checks)
        .await
        .unwrap();
    // A call that does not get all of its keys keeps none of them.
    let guard = soon(world.here.lock("tenant:7").acquire()).await.unwrap();
    assert_busy(&order(&world.here, 3, 7, &Gate::opened()).await);
    let first = soon(world.there.lock("order:3").acquire()).await.unwrap();
    first.release().await.unwrap();
    guard.release().await.unwrap();
}
