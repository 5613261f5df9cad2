//! Mistakes in the confirmation by replicas, and in the choice of the master.

use super::super::look::Look::{self, Tests};
use super::super::look::{RUNTIME, facade};
use super::super::mutant::Mutant;

const CONFIRM: &str = "dlock-runtime/src/store/redis/topology/replicas.rs";
const ASSEMBLE: &str = "dlock-runtime/src/store/redis/assemble.rs";
const REQUESTS: &str = "dlock-runtime/src/store/redis/requests.rs";
const SENTINEL: &str = "dlock-runtime/src/store/redis/topology/sentinel.rs";

const REPLICAS: &[Look] = &[
    Tests(RUNTIME, &["topology::replicas", "topology::sentinel"]),
    Tests(RUNTIME, &["redis"]),
    Tests(facade("failover"), &["sentinel::replicas"]),
    Tests(facade("failover"), &["sentinel::"]),
];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "group-not-confirmed",
        "The renewals of two leases do not wait for replicas",
        REQUESTS,
        "lane::renew_all(config, batch.requests, limit, self.lane.get(), «own»)",
        "match batch.requests { [_] => own, _ => Box::leak(Box::new(Connections::Plain(self.servers.clone()))) }",
        REPLICAS,
    )
    .breaks("an answer that is not confirmed in time is no answer"),
    Mutant::new(
        "raise-not-confirmed",
        "A raise does not wait for replicas",
        REQUESTS,
        "Some(confirmer) => «confirmer.execute(command, limit).await»,",
        "{ let _ = (confirmer, limit); self.execute(command).await }",
        REPLICAS,
    ),
    Mutant::new(
        "hints-with-replicas",
        "A hint is believed although replicas have not confirmed the grant",
        ASSEMBLE,
        "hints(«min_replicas > 0»)",
        "false",
        REPLICAS,
    )
    .breaks("A hint gets the fence 0, so that the waiter asks"),
    Mutant::new(
        "unconfirmed-answers",
        "An answer counts that replicas have not confirmed",
        CONFIRM,
        "answer.and_then(|value| «confirmed.clone().map(|()| value)»)",
        "Ok(value)",
        REPLICAS,
    )
    .breaks("an answer that is not confirmed in time is no answer"),
    Mutant::new(
        "gone-is-confirmed",
        "A lease that is gone where replicas are counted counts as confirmed",
        CONFIRM,
        "Ok(Renewal::NotOwner) => «Err(unconfirmed(\"the lease had ended\"))»,",
        "Ok(())",
        REPLICAS,
    )
    .breaks("A lease that is not found where replicas are counted was not confirmed"),
    Mutant::new(
        "late-confirmation-left-nothing",
        "A confirmation that does not come in time counts as never asked for",
        CONFIRM,
        "«Err(StoreError::timed_out(limit))»",
        "Err(StoreError::timed_out(limit).unsent())",
        REPLICAS,
    )
    .breaks("A request without an answer may have been carried out"),
    Mutant::new(
        "lost-runtime-left-nothing",
        "A confirmation that went with its runtime counts as never sent",
        CONFIRM,
        "error = self.task.keep_going() => Err(«error.with_possible_effect()»),",
        "error",
        REPLICAS,
    )
    .breaks("A request without an answer may have been carried out"),
    // Sentinels.
    Mutant::new(
        "one-sentinel-is-enough",
        "One Sentinel is a majority",
        SENTINEL,
        "self.all.len() / 2 + 1",
        "1",
        REPLICAS,
    )
    .breaks("The answer with the greatest configuration epoch counts once a majority of Sentinels has named a master"),
    Mutant::new(
        "older-master-of-all",
        "What is known of a master is given up for what any Sentinels say",
        SENTINEL,
        "known.filter(|known| «!is_all && known.epoch > best.epoch»)",
        "{ let _ = (is_all, known); false }",
        REPLICAS,
    )
    .breaks("A master that is older than a known one counts only by a majority"),
    Mutant::new(
        "watch-asks-a-majority",
        "Who watches a master believes a majority of the Sentinels, without the others",
        SENTINEL,
        "self.master(limit, «self.all.len()»).await;",
        "self.majority()",
        REPLICAS,
    )
    .breaks("when the others have answered or failed"),
];
