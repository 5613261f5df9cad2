//! Mistakes in the locks of ZooKeeper, and in TLS to it.

use super::super::look::Look::{self, Test};
use super::super::look::Target;
use super::super::mutant::Mutant;

const BASE: &str = "dlock-zookeeper/src/base.rs";
const FENCE: &str = "dlock-zookeeper/src/fence.rs";
const CONFIRM: &str = "dlock-zookeeper/src/confirm.rs";
const NAMES: &str = "dlock-zookeeper/src/names.rs";
const PROOF: &str = "dlock-zookeeper/src/proof.rs";
const QUEUE: &str = "dlock-zookeeper/src/queue.rs";
const REQUESTS: &str = "dlock-zookeeper/src/requests.rs";
const SLOTS: &str = "dlock-zookeeper/src/slots.rs";
const WAITING: &str = "dlock-zookeeper/src/waiting.rs";
const DIAL: &str = "dlock-zookeeper/src/dial.rs";
const FILES: &str = "dlock-zookeeper/src/tls/files.rs";
const TRUST: &str = "dlock-zookeeper/src/tls/trust.rs";

pub(super) const STORE: Target = Target {
    package: "dlock-zookeeper",
    test: Some("store"),
};

const FAULTS: Target = Target {
    package: "dlock-zookeeper",
    test: Some("faults"),
};

const NET: Target = Target {
    package: "dlock-net",
    test: None,
};

pub(super) const UNIT: Target = Target {
    package: "dlock-zookeeper",
    test: None,
};

const ONE_TOKEN: &[Look] = &[Test(
    STORE,
    "sharing::readers_that_come_and_go_have_one_token",
)];

const OF_A_BASE: &[Look] = &[Test(
    UNIT,
    "fence::tests::fences_of_a_base_are_below_those_of_the_next",
)];

const VERIFIED: &[Look] = &[Test(
    STORE,
    "tls::both_sides_are_verified_and_a_refusal_says_what_to_do",
)];

pub(super) const ALL: &[Mutant] = &[
    // The queue
    Mutant::new(
        "zookeeper-unknown-mode",
        "A child with an unknown mode counts as shared",
        NAMES,
        "map_or(«LockMode::Exclusive», LockMode::Permits)",
        "LockMode::Shared",
        &[Test(
            UNIT,
            "queue::tests::a_child_with_an_unknown_mode_lets_nothing_in",
        )],
    )
    .breaks("A child with an unknown mode counts as exclusive"),
    Mutant::new(
        "zookeeper-wrong-obstacle",
        "A waiter for a permit watches one child alone",
        QUEUE,
        "let crowd = |at: usize, most: usize| &self.0[«at.saturating_sub(most)»..at];",
        "at - 1",
        &[Test(
            UNIT,
            "queue::tests::a_waiter_watches_children_of_which_one_has_to_go",
        )],
    ),
    // Fences
    Mutant::new(
        "zookeeper-no-epoch",
        "A claim that joins others has a fence of its own",
        CONFIRM,
        "«(fence, Some(path))»,",
        "{ drop((fence, path)); (child.fence, None) }",
        ONE_TOKEN,
    )
    .breaks("All that hold together have one fence"),
    Mutant::new(
        "zookeeper-endless-base",
        "A base has fences without an end",
        FENCE,
        "let is_own = «(1..RANGE).contains(&since)»;",
        "true",
        OF_A_BASE,
    )
    .breaks("A fence is less than base and [`RANGE`]"),
    Mutant::new(
        "zookeeper-base-by-the-clock",
        "A base follows the clock although that is behind",
        FENCE,
        "«clock.max(least)»",
        "clock",
        OF_A_BASE,
    )
    .breaks("by one that is greater by [`RANGE`] or more"),
    Mutant::new(
        "zookeeper-base-without-clock",
        "A new base does not reach the clock",
        FENCE,
        "«clock.max(least)»",
        "{ let _ = clock; least }",
        &[Test(
            FAULTS,
            "restore::an_ensemble_that_has_lost_its_data_gives_greater_tokens",
        )],
    )
    .breaks("A new base reaches the clock"),
    Mutant::new(
        "zookeeper-old-base",
        "A base that was replaced and has come back stays beside the new one",
        BASE,
        "while «values.len() > 1 || values.last().copied() < greatest» {",
        "{ let _ = greatest; false }",
        &[Test(
            FAULTS,
            "restore::a_base_that_comes_back_stops_no_lock",
        )],
    )
    .breaks("Of several bases one is made"),
    // Leases
    Mutant::new(
        "zookeeper-uncertain",
        "A lease is confirmed that its session may not last for",
        CONFIRM,
        "if «session.proof.lasts_until(lease_end)» {",
        "true",
        &[Test(
            STORE,
            "sessions::a_lease_that_its_session_may_not_last_for_is_not_confirmed",
        )],
    )
    .breaks("A lease that would last longer is not confirmed"),
    Mutant::new(
        "zookeeper-proof-at-once",
        "An answer proves at once that the leader has heard of the session",
        PROOF,
        "is_by_both(earlier.answered.plus(«self.tick»), sent)",
        "Duration::ZERO",
        &[Test(
            UNIT,
            "proof::tests::a_request_counts_for_a_write_after_one_that_was_sent_a_tick_later",
        )],
    ),
    Mutant::new(
        "zookeeper-proof-passes-pings",
        "A write proves that the leader has heard of the session, though it may have passed a ping",
        PROOF,
        "earlier.counts_from = Some(«answered»);",
        "sent",
        &[Test(
            UNIT,
            "proof::tests::a_request_counts_for_a_write_after_one_that_was_sent_a_tick_later",
        )],
    ),
    Mutant::new(
        "zookeeper-asleep",
        "A session lasts while the machine sleeps",
        PROOF,
        "moment.monotonic <= other.monotonic && «moment.boot <= other.boot»",
        "true",
        &[Test(
            UNIT,
            "proof::tests::time_asleep_counts_for_the_session",
        )],
    )
    .breaks("Time asleep counts"),
    Mutant::new(
        "zookeeper-earlier-session",
        "A child is held although another session created it",
        REQUESTS,
        "let is_own = «stat.ephemeral_owner == session.client.session_id().0»;",
        "true",
        &[Test(
            STORE,
            "claims::a_child_of_an_earlier_session_is_never_held",
        )],
    )
    .breaks("A child is held only in the session that created it"),
    Mutant::new(
        "zookeeper-overtaken",
        "A release overtakes an acquire that waits for a session",
        REQUESTS,
        "let mut slot = «self.slots.lock(&request.key, request.owner).await»; let answer = match self.session_of(&mut slot).await { Ok(session) => match self.known(",
        "{ session::current(&self.status).await?; self.slots.lock(&request.key, request.owner).await }",
        &[Test(
            STORE,
            "sessions::requests_that_wait_for_a_session_keep_their_order",
        )],
    ),
    // Waiters
    Mutant::new(
        "zookeeper-no-node",
        "A check has the node of a waiter, or of none",
        SLOTS,
        "let held = «child.map(Child::path)»;",
        "child.map(|_| \"/\".to_owned())",
        &[Test(
            STORE,
            "check::a_transaction_is_carried_out_only_while_the_lease_is_held",
        )],
    ),
    // Leases without a write of their own
    Mutant::new(
        "zookeeper-unseen-grant",
        "A waiter whose child is gone holds the key",
        WAITING,
        "if obstacles.is_empty() { return «queue.holds(name)»;",
        "true",
        &[Test(
            STORE,
            "waiting::a_waiter_whose_child_was_deleted_holds_nothing",
        )],
    ),
    Mutant::new(
        "zookeeper-past-the-end",
        "A child that has one number with others holds the key",
        "dlock-zookeeper/src/creation.rs",
        "is_none_or(|it| «it.is_past_the_end()»)",
        "it.place < 0",
        &[Test(
            FAULTS,
            "counters::a_key_that_has_used_up_its_places_lets_in_no_claim_until_it_is_made_anew",
        )],
    ),
    // TLS
    Mutant::new(
        "zookeeper-tls-plain",
        "A session is not encrypted, although the URL asks for it",
        TRUST,
        "Ok(«connector.with_tls(options).secure_connect(hosts).await?»)",
        "connector.with_tls(options).connect(hosts).await?",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-plain-word",
        "A connection beside the session is not encrypted",
        DIAL,
        "«return encrypted(trust, host).await;»",
        "let _ = trust;",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-revoked",
        "A server is trusted although its certificate was revoked",
        FILES,
        "TlsCerts::builder().with_ca(«TlsCa::from_pem(&roots)?»)",
        "TlsCa::from_pem(roots.split(\"-----BEGIN X509 CRL-----\").next().unwrap_or_default())?",
        &[Test(
            STORE,
            "tls::a_server_whose_certificate_was_revoked_is_refused",
        )],
    ),
    Mutant::new(
        "tls-shows-key",
        "An error shows the text of a key",
        "dlock-net/src/tls/pem.rs",
        "«self.refused(option, reason)»\n        })",
        "self.refused(option, &format!(\"{reason}: {}\", String::from_utf8_lossy(text)))",
        &[Test(NET, "tls::files::tests::no_error_shows_a_key")],
    ),
];
