//! The machine of a server: its disk is full, or its clock is set.

use std::time::Duration;

use dlock_faults::grew;
use dlock_postgres::FenceError;
use dlock_runtime::LockError;
use dlock_testkit::{Disk, PostgresOptions, WallClock};

use crate::world::{DEADLINE, END, World, builder, connect_by, is_refused};

#[tokio::test]
async fn a_full_disk_refuses_new_locks_and_renews_those_that_are_held() {
    let disk = Disk::new();
    let world = World::new(PostgresOptions::new().disk(&disk)).await;
    let manager = builder().wait(Duration::from_secs(3));
    let manager = connect_by(manager, &world.url()).await;
    let mut guards = vec![manager.holds("order:42", Duration::from_secs(20)).await];
    disk.fill();
    let mut attempts = 0;
    let (refused, text) = loop {
        let key = format!("order:{attempts:0>200}");
        match manager.lock(key.clone()).ttl(4 * DEADLINE).acquire().await {
            Ok(guard) => guards.push(guard),
            Err(error) => {
                assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
                let text = error.to_string();
                if text.contains("No space left on device") {
                    break (key, text);
                }
                // Its answer was late.
            }
        }
        attempts += 1;
        assert!(attempts < 1000, "the tables do not grow");
    };
    assert!(text.contains("free space on the server's disk"), "{text}");
    let mine = format!("SELECT count(*) FROM dlock.holder WHERE key = '{refused}'");
    assert_eq!(world.number(&mine).await, 0, "it had no effect");
    let end = END.replace("dlock.holder", "dlock.holder WHERE key = 'order:42'");
    let first = world.number(&end).await;
    world.until("it is renewed", &end, |now| now > first).await;
    guards[0].ensure_held().unwrap();
    disk.free();
    let lock = manager.lock(refused).wait(DEADLINE);
    guards.push(lock.acquire().await.unwrap());
    for guard in guards {
        guard.release().await.unwrap();
    }
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_clock_that_is_set_moves_leases_but_no_order_and_no_check() {
    let clock = WallClock::new();
    let world = World::new(PostgresOptions::new().clock(&clock)).await;
    // A request that is repeated would count another fence.
    let patient = || builder().response_timeout(DEADLINE).connect(world.url());
    let (one, other) = (patient().await.unwrap(), patient().await.unwrap());
    let lock = one.lock("account:7").ttl(DEADLINE).renew(false);
    let early = lock.acquire().await.unwrap();
    clock.put_forward(4 * DEADLINE);
    let next = other.lock("account:7").acquire().await.unwrap();
    grew(early.fencing_token(), next.fencing_token());
    // The first holder still believes in its lease.
    early.ensure_held().unwrap();
    let refused = is_refused(&early, &mut world.client().await).await;
    assert!(matches!(refused, FenceError::NotHeld { .. }), "{refused:?}");
    // The next attempt of its process would wait behind it.
    drop(early);
    let mut last = next.fencing_token();
    next.release().await.unwrap();

    // A release that is under way would meet the other time.
    world.nothing_is_left().await;
    clock.put_back(8 * DEADLINE);
    for manager in [&one, &other] {
        let guard = manager.lock("account:7").acquire().await.unwrap();
        assert_eq!(guard.fencing_token().fence(), last.fence() + 1);
        last = guard.fencing_token();
        guard.release().await.unwrap();
    }
    world.nothing_is_left().await;
}
