//! Mistakes in the locks of etcd about the connection on the runtime of the callers, and about leases that are fresh.

use super::super::look::{
    FORKS,
    Look::{self, Test},
};
use super::super::mutant::Mutant;
use super::etcd::{STORE, UNIT};

const CLAIMS: &str = "dlock-etcd/src/claims.rs";
const DIAL: &str = "dlock-etcd/src/dial.rs";
const LEASES: &str = "dlock-etcd/src/leases.rs";
const NEAR: &str = "dlock-etcd/src/near.rs";
const STORE_RS: &str = "dlock-etcd/src/store.rs";

const NEXT_CALLER: &[Look] = &[Test(
    UNIT,
    "near::tests::the_runtime_of_the_next_caller_follows_one_that_has_ended",
)];

const FRESH: &[Look] = &[Test(
    UNIT,
    "leases::tests::a_fresh_lease_outlasts_the_deadline_of_its_claim",
)];

const WITHOUT_KEEP_ALIVE: &[Look] = &[Test(
    STORE,
    "fresh::a_lease_that_was_used_just_now_needs_no_keep_alive",
)];

pub(super) const ALL: &[Mutant] = &[
    // The connection on the runtime of the callers
    Mutant::new(
        "etcd-near-anywhere",
        "A request uses a connection on another runtime, which may be blocked",
        NEAR,
        "Home::Of(home) if «home.id() == caller.id()» => {",
        "true || home.id() == caller.id()",
        &[
            Test(
                STORE,
                "runtimes::a_body_that_blocks_its_thread_keeps_the_leases_of_its_store",
            ),
            Test(
                STORE,
                "runtimes::requests_of_other_runtimes_do_not_wait_for_that_of_the_first_caller",
            ),
        ],
    )
    .breaks("A lease does not depend on a runtime that may be blocked or end"),
    Mutant::new(
        "etcd-near-ended",
        "No connection follows one whose runtime has ended",
        NEAR,
        "Lost::Ended => self.state().home = «Home::Unknown»,",
        "Home::Left",
        NEXT_CALLER,
    ),
    Mutant::new(
        "etcd-near-in-a-fork",
        "A forked child uses the socket of its parent",
        DIAL,
        "if «self.process == process::id()» {",
        "self.process > 0",
        &[Test(UNIT, "dial::tests::a_socket_is_not_used_by_a_child")],
    )
    .breaks("there the socket is never ready"),
    Mutant::new(
        "etcd-near-dials-in-a-fork",
        "A forked child makes a connection on the runtime of its parent",
        DIAL,
        "if «process == process::id()» {",
        "process != 0",
        &[Test(
            FORKS,
            "a_child_makes_no_connection_to_etcd_on_the_runtime_of_its_parent",
        )],
    )
    .breaks("A child that runs the runtime of its parent makes no connection there"),
    // Leases that are fresh
    Mutant::new(
        "etcd-fresh-for-longer",
        "A lease is used without a keep-alive for longer than the drift allows",
        LEASES,
        "since.elapsed(asked) <= «FRESH»",
        "2 * FRESH",
        FRESH,
    )
    .breaks("A lease that was made or kept alive in the last 0.1 s is used as it is"),
    Mutant::new(
        "etcd-fresh-by-one-clock",
        "A lease is fresh although the machine slept",
        LEASES,
        "«since.elapsed(asked)» <= FRESH",
        "asked.monotonic.saturating_duration_since(since.monotonic)",
        FRESH,
    )
    .breaks("Both clocks are read"),
    Mutant::new(
        "etcd-fresh-from-now",
        "A lease that is used as it is counts as kept alive now",
        LEASES,
        "since: if «is_fresh» { since } else { asked },",
        "false && is_fresh",
        FRESH,
    ),
    Mutant::new(
        "etcd-fresh-by-use",
        "A lease that is used as it is grows younger by being used",
        CLAIMS,
        "«self.place = Some(Place { create, base: value.base, mode: value.mode, lease, held: None, \
         label: value.label.clone(), function: value.function.clone(), since, });» true",
        "let since = dlock_runtime::clock::Clock::now(&dlock_runtime::clock::SystemClock); \
         self.place = Some(Place { create, base: value.base, mode: value.mode, lease, held: None, \
         label: value.label.clone(), function: value.function.clone(), since });",
        &[Test(
            UNIT,
            "claims::tests::a_key_is_as_old_as_the_last_keep_alive_of_its_lease",
        )],
    ),
    Mutant::new(
        "etcd-usual-drift",
        "A deadline leaves no room for the time that a fresh lease has lost",
        STORE_RS,
        ".drift(«DRIFT»)",
        "dlock_runtime::store::Drift::USUAL",
        WITHOUT_KEEP_ALIVE,
    )
    .breaks("The drift of the store is longer by as much"),
];
