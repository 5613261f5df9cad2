//! Several runtimes of one thread each, as actix has them, share a manager: one that blocks costs the others
//! nothing.

use std::{sync::Arc, thread};

use tokio::{sync::Barrier, time::sleep};

use crate::hogs::{BLOCKED, Place, runtime};

const OTHERS: usize = 3;

/// The first lease of the process is taken on the thread that blocks, which drives the connection for requests as
/// well.
fn those_that_never_block_keep_their_leases(place: &Place) {
    let home = runtime(None);
    let manager = home.block_on(place.manager());
    let all_hold = Arc::new(Barrier::new(OTHERS + 1));
    thread::scope(|scope| {
        for number in 0..OTHERS {
            let (manager, all_hold) = (&manager, all_hold.clone());
            scope.spawn(move || {
                runtime(None).block_on(async {
                    let lock = manager.lock(format!("waits:{number}"));
                    let body = lock.run(async |lease| {
                        all_hold.wait().await;
                        sleep(BLOCKED).await;
                        lease.ensure_held()
                    });
                    body.await.flatten().expect("the lease was renewed");
                });
            });
        }
        home.block_on(async {
            let body = manager.lock("blocks").run(async |lease| {
                all_hold.wait().await;
                thread::sleep(BLOCKED);
                lease.ensure_held()
            });
            body.await.flatten().expect("the lease was renewed");
            // Releases of the others go over its connection.
            while manager.active_keys() > 0 {
                sleep(std::time::Duration::from_millis(10)).await;
            }
        });
    });
}

#[test]
fn in_memory() {
    those_that_never_block_keep_their_leases(&Place::Memory);
}

#[test]
fn in_redis() {
    those_that_never_block_keep_their_leases(&Place::redis());
}
