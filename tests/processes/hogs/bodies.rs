//! One body blocks its thread, and another only waits: both keep their leases, whatever has woken the first.

use std::{io::Write as _, os::unix::net::UnixStream, thread, time::Duration};

use dlock::LockError;
use tokio::{io::AsyncReadExt as _, task::yield_now, time::sleep};

use crate::hogs::{BLOCKED, Place, runtime};

/// The event that a body awaits before it blocks. A worker that has just driven timers and sockets runs the woken
/// task itself, and no other worker takes the driving over while that blocks.
#[derive(Clone, Copy, Debug)]
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

/// The shapes of runtimes: so many workers, or one thread that is all there is.
const SHAPES: [Option<usize>; 4] = [Some(1), Some(2), Some(4), None];

/// On runtimes of every shape, after every event: all at the same time, since they only wait.
fn no_lease_is_lost(place: &Place) {
    thread::scope(|scope| {
        for workers in SHAPES {
            for after in [After::Nothing, After::Timer, After::Socket] {
                let case = thread::Builder::new().name(format!("{workers:?} {after:?}"));
                let test = move || no_lease_is_lost_after(place, workers, after);
                case.spawn_scoped(scope, test).unwrap();
            }
        }
    });
}

fn no_lease_is_lost_after(place: &Place, workers: Option<usize>, after: After) {
    runtime(workers).block_on(async {
        let manager = place.manager().await;
        let name = |role: &str| format!("{role}:{workers:?}:{after:?}");
        let waits = manager.lock(name("waits")).run(async |lease| {
            sleep(BLOCKED).await;
            lease.ensure_held()
        });
        let waits = tokio::spawn(waits);
        let blocks = manager.lock(name("blocks")).run(async move |lease| {
            after.wait().await;
            thread::sleep(BLOCKED);
            lease.ensure_held()
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
fn in_memory() {
    no_lease_is_lost(&Place::Memory);
}

#[test]
fn in_redis() {
    no_lease_is_lost(&Place::redis());
}
