//! Runtimes that end while something is at any of its awaits, on them, and others that live on.

mod experiment;
mod series;

use std::sync::Arc;

use self::{
    experiment::{Fate, Flavor, Home},
    series::Series,
};
use crate::{
    driver::{ONE_STORE, QUORUM},
    operations::{ALL, Operation, QUICK},
    stage::{Scale, Stage},
    stepwise::Steps,
};

const EVERYWHERE: [(Flavor, Home); 4] = [
    (Flavor::OneThread, Home::Here),
    (Flavor::OneThread, Home::Elsewhere),
    (Flavor::Threads, Home::Here),
    (Flavor::Threads, Home::Elsewhere),
];

fn every_operation(
    what: &'static str,
    operations: &[Operation],
    make: fn(Scale, bool) -> (Stage, Arc<Steps>),
    runtimes: &[(Flavor, Home)],
    fate: Fate,
) {
    let operations: Vec<_> = operations.iter().collect();
    let series = Series {
        what,
        operations: &operations,
        runtimes,
        fate,
        // Two threads that do something at the same time wake it once.
        least: |operation| [operation.awaits.div_ceil(2), operation.steps],
        workers: 64,
    };
    series.run(|| make);
}

#[test]
fn a_runtime_that_ends_with_whatever_it_runs_leaves_nothing() {
    every_operation(
        "the runtime ends, with the task",
        ALL,
        ONE_STORE.make,
        &EVERYWHERE,
        Fate::EndsWithIt,
    );
}

#[test]
fn a_runtime_that_ends_before_what_it_was_blocked_on_leaves_nothing() {
    every_operation(
        "the runtime ends, and the future is dropped later",
        QUICK,
        ONE_STORE.make,
        &EVERYWHERE[1..3],
        Fate::IsDroppedLater,
    );
}

#[test]
fn whatever_goes_on_on_another_runtime_than_it_began_ends_there() {
    every_operation(
        "the runtime ends, and another one polls the future",
        QUICK,
        ONE_STORE.make,
        &EVERYWHERE[1..3],
        Fate::GoesOnElsewhere,
    );
}

#[test]
fn a_runtime_that_ends_alone_leaves_the_rest_to_the_ttl() {
    every_operation(
        "the only runtime ends, and the store cannot release without one",
        // Each interruption costs a TTL.
        &ALL[..8],
        ONE_STORE.make,
        &[
            (Flavor::OneThread, Home::HereAndUnableToRelease),
            (Flavor::Threads, Home::HereAndUnableToRelease),
        ],
        Fate::EndsWithIt,
    );
}

#[test]
fn a_runtime_that_ends_while_a_quorum_is_asked_leaves_nothing() {
    every_operation(
        "the runtime ends, of several stores",
        QUORUM.operations,
        QUORUM.make,
        &EVERYWHERE,
        Fate::EndsWithIt,
    );
}

/// Over a real connection, which lives where the manager was made, and to a real server.
#[cfg(feature = "redis")]
#[test]
fn a_runtime_that_ends_while_a_server_is_asked_leaves_nothing() {
    // Each thread connects two managers.
    end_over_a_server::<crate::common::Redis>("the runtime ends, over a server", 32);
}

/// Ends runtimes over a real server, in so many threads; `what` is the name of this in the output.
#[cfg(feature = "redis")]
pub(crate) fn end_over_a_server<E: crate::common::Env + Sync>(what: &'static str, workers: usize) {
    let runtime = Flavor::Threads.runtime();
    let env = runtime.block_on(E::start());
    let operations: Vec<_> = QUICK.iter().filter(|it| !it.ends_manager()).collect();
    let series = Series {
        what,
        operations: &operations,
        runtimes: &[
            (Flavor::OneThread, Home::Elsewhere),
            (Flavor::Threads, Home::Elsewhere),
        ],
        fate: Fate::EndsWithIt,
        // The test cannot time an answer: some of its awaits may not be. A server is not stopped at its
        // steps.
        least: |_| [1, 0],
        workers,
    };
    series.run(|| {
        let connect = async { [env.manager().await, env.manager().await] };
        let [manager, other] = tokio::runtime::Handle::current().block_on(connect);
        move |scale, _| {
            let stage = Stage::of(manager.clone(), other.clone(), Vec::new(), scale);
            (stage, Arc::default())
        }
    });
    runtime.block_on(async {
        assert_eq!(env.locks().await, Vec::<String>::new());
    });
}
