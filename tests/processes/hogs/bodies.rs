//! One body blocks its thread, and another only waits: both keep their leases, wherever the first has been
//! woken from.

use std::{io::Write as _, os::unix::net::UnixStream, thread, time::Duration};

use dlock::LockError;
use tokio::{io::AsyncReadExt as _, task::yield_now, time::sleep};

use crate::hogs::{BLOCKED, Place, runtime, side_by_side};

/// What a body awaits before it blocks. A worker that has just driven timers and sockets runs what it has woken
/// itself, and nobody takes the driving over while that blocks.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    Timer,
    Socket,
}

impl After {
    async fn wait(self) {
        match self {
            Self::Nothing => yield_now().await,
            Self::Timer => sleep(Duration::from_millis(50)).await,
            Self::Socket => {
                let (mut here, there) = UnixStream::pair().unwrap();
                there.set_nonblocking(true).unwrap();
                let mut there = tokio::net::UnixStream::from_std(there).unwrap();
                let writes = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(50));
                    here.write_all(b"x").unwrap();
                });
                there.read_u8().await.unwrap();
                writes.join().unwrap();
            }
        }
    }
}

fn no_lease_is_lost(place: &Place, workers: Option<usize>) {
    let each = [After::Nothing, After::Timer, After::Socket].map(|after| {
        let test = move || no_lease_is_lost_after(place, workers, after);
        Box::new(test) as Box<dyn FnOnce() + Send>
    });
    side_by_side(each.into());
}

fn no_lease_is_lost_after(place: &Place, workers: Option<usize>, after: After) {
    runtime(workers).block_on(async {
        let manager = place.manager().await;
        let name = |role: &str| format!("{role}:{}", after as u8);
        let waits = manager.lock(name("waits")).run(async |lease| {
            sleep(BLOCKED).await;
            lease.ensure()
        });
        let waits = tokio::spawn(waits);
        let blocks = manager.lock(name("blocks")).run(async move |lease| {
            after.wait().await;
            thread::sleep(BLOCKED);
            lease.ensure()
        });
        let blocks = tokio::spawn(blocks);
        for body in [blocks, waits] {
            let outcome: Result<Result<(), LockError>, LockError> = body.await.unwrap();
            outcome
                .and_then(|ensured| ensured)
                .expect("the lease was renewed");
        }
    });
}

#[test]
fn in_memory_on_one_worker() {
    no_lease_is_lost(&Place::Memory, Some(1));
}

#[test]
fn in_memory_on_two_workers() {
    no_lease_is_lost(&Place::Memory, Some(2));
}

#[test]
fn in_memory_on_four_workers() {
    no_lease_is_lost(&Place::Memory, Some(4));
}

#[test]
fn in_memory_on_the_only_thread() {
    no_lease_is_lost(&Place::Memory, None);
}

#[test]
fn in_redis_on_one_worker() {
    no_lease_is_lost(&Place::redis(), Some(1));
}

#[test]
fn in_redis_on_two_workers() {
    no_lease_is_lost(&Place::redis(), Some(2));
}

#[test]
fn in_redis_on_four_workers() {
    no_lease_is_lost(&Place::redis(), Some(4));
}

#[test]
fn in_redis_on_the_only_thread() {
    no_lease_is_lost(&Place::redis(), None);
}
