//! Mistakes in how a claim in ZooKeeper goes on after its grant, and in grants without a write of their own.

use super::super::look::Look::Test;
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
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
        "zookeeper-old-queue",
        "A waiter is granted its key by a queue that was read before another request",
        SLOTS,
        "None => (lock.await, «false»)",
        "true",
        &[Test(
            UNIT,
            "slots::tests::a_slot_that_had_to_be_waited_for_says_so",
        )],
    ),
    Mutant::new(
        "zookeeper-found-unwritten",
        "A child whose creation got no answer is held without a write",
        CONFIRM,
        "if «child.is_found» || !may_hold",
        "false",
        &[Test(
            STORE,
            "waiting::a_child_that_was_found_is_not_held_without_a_write",
        )],
    )
    .breaks("A child whose creation got no answer is held after a write to it alone"),
];
