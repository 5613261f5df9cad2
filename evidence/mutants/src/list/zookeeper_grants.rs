//! Mistakes in how a claim in ZooKeeper goes on after its grant, and in grants without a write of their own.

use super::super::look::Look::Test;
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const CREATION: &str = "dlock-zookeeper/src/creation.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const SLOTS: &str = "dlock-zookeeper/src/slots.rs";

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "zookeeper-replaced",
        "A child that was granted and is gone is replaced by another one",
        REQUESTS,
        "owner).await?; } if «slot.has_lost_its_grant()» {",
        "false",
        &[Test(
            STORE,
            "claims::a_child_that_was_granted_is_not_replaced",
        )],
    )
    .breaks("A claim goes on with the child with which it was granted its key"),
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
