//! Mistakes with servers of ZooKeeper that have lost step, with answers that are lost, and with leases that are shortened.

use super::super::look::Look::Test;
use super::super::mutant::Mutant;
use super::zookeeper::STORE;

const BASE: &str = "dlock-zookeeper/src/base.rs";
const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const FENCE: &str = "dlock-zookeeper/src/fence.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const WAITING: &str = "dlock-zookeeper/src/waiting.rs";

pub(super) const ALL: &[Mutant] = &[
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
