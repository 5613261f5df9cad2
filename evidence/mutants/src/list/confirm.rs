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
        "grant-not-confirmed",
        "A grant does not wait for replicas",
        REQUESTS,
        "«confirmer.granted(renewal, left).await?;»",
        "drop((renewal, left));",
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
        "url-replicas-ignored",
        "The number of replicas in the URL is ignored",
        ASSEMBLE,
        "let min_replicas = «config.min_replicas.max(location.min_replicas())»;",
        "config.min_replicas",
        REPLICAS,
    ),
    Mutant::new(
        "one-replica-less",
        "One replica less than asked for is enough",
        CONFIRM,
        "if «*count >= i64::from(self.replicas)» {",
        "*count + 1 >= i64::from(self.replicas)",
        REPLICAS,
    ),
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
        "unsent-confirmation-leaves-nothing",
        "A grant whose confirmation was never sent leaves nothing",
        CONFIRM,
        "Err(error) if «error.left_nothing()» =>",
        "false && error.left_nothing()",
        REPLICAS,
    )
    .breaks("A request without an answer may have been carried out"),
    Mutant::new(
        "unready-for-good",
        "A server that refuses to wait for replicas counts as ready",
        CONFIRM,
        "Err(error) if «error.is_final()» => Err(error),",
        "false && error.is_final()",
        REPLICAS,
    ),
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
    Mutant::new(
        "waits-for-ever-for-replicas",
        "`WAIT` waits for ever for replicas that are slow",
        CONFIRM,
        ".arg(«milliseconds.max(1)»)",
        "milliseconds * 0",
        REPLICAS,
    ),
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
        "older-master-believed",
        "A master that is older than what is known is believed at once",
        SENTINEL,
        "masters.len() >= enough && «masters.iter().any(|it| it.epoch >= least)»",
        "{ let _ = least; true }",
        REPLICAS,
    ),
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
        "older-master-never-believed",
        "A master that is older than what is known is never believed",
        SENTINEL,
        "known.filter(|known| «!is_all && known.epoch > best.epoch»)",
        "{ let _ = is_all; known.epoch > best.epoch }",
        REPLICAS,
    ),
    Mutant::new(
        "watch-asks-a-majority",
        "Who watches a master believes a majority of the Sentinels, without the others",
        SENTINEL,
        "self.master(limit, «self.all.len()»).await;",
        "self.majority()",
        REPLICAS,
    )
    .breaks("when the others have answered or failed"),
    Mutant::new(
        "word-of-another-service",
        "The word of a Sentinel about another service makes all of them be asked",
        SENTINEL,
        "&& «text.split(|byte| *byte == b' ').next() == Some(service.as_bytes())»",
        "{ let _ = (text, service); true }",
        REPLICAS,
    ),
    Mutant::new(
        "sentinels-not-asked-again",
        "A Sentinel that is not heard of any more is listened to for ever",
        SENTINEL,
        "Ok(false) => «news = None»,",
        "()",
        REPLICAS,
    ),
];
