//! Mistakes with servers of ZooKeeper that have lost step, with answers that are lost, with leases that are shortened, and in how
//! a claim goes on after its grant.

use super::super::look::Look::Test;
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const BASE: &str = "dlock-zookeeper/src/base.rs";
const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const FENCE: &str = "dlock-zookeeper/src/fence.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const WAITING: &str = "dlock-zookeeper/src/waiting.rs";
const CREATION: &str = "dlock-zookeeper/src/creation.rs";
const SLOTS: &str = "dlock-zookeeper/src/slots.rs";

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
    // After a grant
    Mutant::new(
        "zookeeper-other-child",
        "A renewal goes on with another child than the one of its grant",
        SLOTS,
        "granted.is_none() || «granted == child»",
        "child.is_some()",
        &[Test(
            UNIT,
            "slots::tests::a_grant_goes_on_with_its_own_child_alone",
        )],
    )
    .breaks("A claim goes on with the child with which it was granted its key"),
    Mutant::new(
        "zookeeper-found-unwritten",
        "A child whose creation got no answer is held without a write",
        CONFIRM,
        "if «child.needs_write» || !may_hold",
        "false",
        &[Test(
            STORE,
            "waiting::a_child_that_was_found_is_not_held_without_a_write",
        )],
    )
    .breaks("A child whose creation or deletion got no answer is held after a write to it alone"),
    Mutant::new(
        "zookeeper-not-alone",
        "A child holds by its creation, whichever children are beside it",
        CREATION,
        "parent.is_some_and(|it| «it.num_children == 1»)",
        "it.num_children > 0",
        &[Test(
            STORE,
            "alone::a_child_that_is_not_alone_holds_by_its_place_in_the_queue",
        )],
    )
    .breaks("A claim holds by its place in the queue"),
];
