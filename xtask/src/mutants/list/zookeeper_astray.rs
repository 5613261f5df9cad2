//! Mistakes with servers of ZooKeeper that have lost step, with answers that are lost, and with leases that are shortened.

use super::super::look::Look::{self, Test};
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const BASE: &str = "dlock-zookeeper/src/base.rs";
const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const FENCE: &str = "dlock-zookeeper/src/fence.rs";
const REPEATS: &str = "dlock-zookeeper/src/repeats.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const WAITING: &str = "dlock-zookeeper/src/waiting.rs";

const PAUSES: &[Look] = &[Test(UNIT, "repeats::tests::repeats_have_pauses_and_end")];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "zookeeper-repeats-without-end",
        "A server that has lost step is asked without an end",
        REPEATS,
        "if «self.0 > MOST» {",
        "false",
        &[Test(
            STORE,
            "astray::a_server_without_the_base_of_the_leader_is_not_asked_without_end",
        )],
    ),
    Mutant::new(
        "zookeeper-repeats-without-pause",
        "A server that has lost step is asked without a pause",
        REPEATS,
        "if «self.0 > AT_ONCE» {",
        "false",
        PAUSES,
    ),
    Mutant::new(
        "zookeeper-lost-base",
        "A base that the leader has lost is not exceeded",
        BASE,
        "|| «values.last().copied() < greatest» {",
        "false",
        &[Test(
            STORE,
            "astray::the_base_that_replaces_several_is_above_one_that_the_leader_has_lost",
        )],
    )
    .breaks("It is also greater than one that the leader does not have"),
    Mutant::new(
        "zookeeper-earlier-connection",
        "A base is known beyond the connection at which it was read",
        FENCE,
        "if «known.state.changed().now_or_never().is_some()» {",
        "{ let _ = known.state.changed().now_or_never(); false }",
        &[Test(
            STORE,
            "astray::a_base_of_an_earlier_connection_makes_no_token",
        )],
    )
    .breaks("That is so with each new leader, and with each new connection"),
    Mutant::new(
        "zookeeper-given-up",
        "A creation without an answer is given up by the answers of a leader that was replaced",
        REQUESTS,
        "«catch_up(session, &self.config.root).await?»;",
        "session.client.sync(&self.config.root).await?",
        &[Test(
            STORE,
            "astray::a_creation_is_not_given_up_by_the_answers_of_a_leader_that_was_replaced",
        )],
    )
    .breaks("A creation without an answer was not carried out if the child is missing after a transaction"),
    Mutant::new(
        "zookeeper-doubtful",
        "A token that was written without an answer is not looked for",
        CONFIRM,
        "«child.is_doubtful» && !it.mode",
        "false",
        &[Test(
            STORE,
            "sharing::a_token_that_was_written_without_an_answer_is_kept",
        )],
    )
    .breaks("All that hold together have one fence"),
    Mutant::new(
        "zookeeper-shortened",
        "A lease that was shortened keeps its late timer",
        WAITING,
        "if «child.timer.is_some_and(|timer| timer <= ends)» {",
        "child.timer.is_some()",
        &[Test(
            STORE,
            "claims::a_lease_that_is_renewed_for_a_shorter_time_ends_then",
        )],
    )
    .breaks("A process deletes its child when the lease has ended"),
];
