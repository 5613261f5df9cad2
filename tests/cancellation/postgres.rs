//! The same over PostgreSQL: a real server, real connections, and transactions that rely on a lease.
//!
//! After every single interruption no row of a holder or of a waiter is left, and another process gets the key.

mod env;
mod proxied;
mod transactions;
mod users;

use std::time::Duration;

use dlock_testkit::Polled;
use futures_util::future::join_all;

use self::env::Postgres;
use crate::{
    common::{Env, assert_idle, soon},
    cut,
    driver::{at_every_await, poll},
    operations::{Operation, QUICK},
    runtimes::end_over_a_server,
    stage::{Scale, Stage},
};

crate::common::cases! { real Postgres:
    stores {
        an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
        a_waiter_dropped_anywhere_leaves_its_place,
        a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
        a_writer_dropped_anywhere_lets_in_the_reader_behind_it,
        a_permit_dropped_while_it_is_granted_goes_to_the_next,
        a_run_dropped_anywhere_gives_the_lock_back,
        a_release_dropped_anywhere_is_still_carried_out,
        a_locked_function_under_a_timeout_gives_the_lock_back,
        a_locked_function_that_loses_a_select_gives_the_lock_back,
    }
}

/// The TTL of a lease that is renewed is short: the number of awaits is that of the looks at it.
const SCALE: Scale = Scale {
    short: Duration::from_secs(3),
    ..crate::stage::REAL
};

/// Operations that leave their manager usable.
fn operations() -> impl Iterator<Item = &'static Operation> {
    QUICK.iter().filter(|it| !it.ends_manager())
}

/// The number of interruptions.
async fn dropped_everywhere(env: &Postgres, operation: &Operation) -> usize {
    let (manager, other) = (env.manager().await, env.manager().await);
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let stage = Stage::of(manager.clone(), other.clone(), Vec::new(), SCALE);
        let around = stage.surround(operation).await;
        let scene = stage.noting((operation.begin)(stage.clone()));
        let outcome = soon(poll(scene, polls, drops)).await;
        stage.is_over();
        soon(around).await.unwrap();
        // Before another process comes, which would remove what has ended.
        assert_idle(&[&manager, &other]).await;
        if !operation.keeps {
            assert_eq!(env.rows_of(stage.keys()).await, Vec::<String>::new());
        }
        stage.assert_clean().await;
        assert_eq!(env.rows_of(stage.keys()).await, Vec::<String>::new());
        outcome == Polled::Finished(())
    })
    .await;
    println!("{:>6}  {}", parked + woken, operation.name);
    assert!(parked >= 1 && woken >= 1, "{}", operation.name);
    parked + woken
}

#[tokio::test]
async fn whatever_is_dropped_anywhere_leaves_no_row() {
    let env = Postgres::start().await;
    // Most of the time is the server's.
    let all = operations().map(|operation| dropped_everywhere(&env, operation));
    let counts = join_all(all).await;
    // A request and its answer, a wait and the release of each.
    assert!(counts.iter().sum::<usize>() >= 4 * counts.len());
    assert_eq!(env.locks().await, Vec::<String>::new());
}

#[test]
fn a_runtime_that_ends_while_postgresql_is_asked_leaves_no_row() {
    end_over_a_server::<Postgres>("the runtime ends, over PostgreSQL", 16);
}
