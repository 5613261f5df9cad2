//! Mistakes in what operators see of etcd, and in forced releases.

use super::super::look::Look::{self, Test};
use super::super::look::TYPED;
use super::super::mutant::Mutant;

const GRANTS: &str = "dlock-etcd/src/admin/grants.rs";
const LOCK: &str = "dlock-etcd/src/admin/lock.rs";
const PAGE: &str = "dlock-etcd/src/admin/page.rs";
const PERMISSIONS: &str = "dlock-etcd/src/admin/permissions.rs";
const UNLOCK: &str = "dlock-etcd/src/admin/unlock.rs";
const NOTICES: &str = "dlock-etcd/src/notices.rs";

const NOTIFIED: &[Look] = &[Test(
    TYPED,
    "etcd::unlock::the_next_waiter_holds_the_lock_and_the_old_holder_is_notified",
)];

const PAGES: &[Look] = &[Test(
    TYPED,
    "etcd::reads::all_pages_are_listed_and_patterns_mean_what_they_mean_in_redis",
)];

const PARTS: &[Look] = &[Test(
    super::etcd::STORE,
    "parts::parts_are_short_and_add_up_to_all_locks_while_others_come_and_go",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "etcd-no-notice",
        "A forced release leaves no message for the holder",
        UNLOCK,
        "success: «delete.chain(tell).collect()»,",
        "delete.collect()",
        NOTIFIED,
    ),
    Mutant::new(
        "etcd-notice-unheard",
        "A message for a holder does not reach its manager",
        NOTICES,
        "«self.sink.hint(&Hint::new(key, owner, 0))»,",
        "{ let _ = (key, owner); true }",
        NOTIFIED,
    ),
    Mutant::new(
        "etcd-unlock-any-owner",
        "A forced release of one holder ends all that share the lock",
        UNLOCK,
        "self.is_all || «owner(it) == self.owner»);",
        "true",
        &[Test(
            TYPED,
            "etcd::unlock::of_a_shared_lock_one_holder_or_all_are_ended",
        )],
    ),
    Mutant::new(
        "etcd-half-a-queue",
        "The claims on a key end with the page",
        PAGE,
        "«kvs.extend(all(link, start, &end, read_at).await?)»; next",
        "()",
        PAGES,
    ),
    Mutant::new(
        "etcd-queue-twice",
        "The claims that were read with a page are read with the next one, too",
        PAGE,
        "«next = Some(end);»",
        "drop(end);",
        PARTS,
    ),
    Mutant::new(
        "etcd-names-order",
        "Locks are listed in the order of their names in etcd",
        "dlock-etcd/src/admin/inspector.rs",
        "«locks.sort_unstable_by(|one, other| one.key.cmp(&other.key))»;",
        "()",
        PAGES,
    ),
    Mutant::new(
        "etcd-granted-again",
        "A holder that stays while another leaves counts as granted",
        GRANTS,
        ".filter(|(name, _)| «waiting.contains(*name)»)",
        "true",
        &[Test(
            TYPED,
            "etcd::watch::grants_to_waiters_are_told_and_nothing_else",
        )],
    ),
    Mutant::new(
        "etcd-time-of-fence",
        "A holder has held its lock since the time of its fence",
        LOCK,
        "holder.since = «match value.map(|it| &it.stage) { Some(Stage::Holds { since }) => Some(moment(*since).min(now)), \
         _ => None, }»;",
        "holder.since",
        &[Test(
            super::etcd::UNIT,
            "admin::lock::tests::claims_at_the_front_hold_and_the_others_wait",
        )],
    ),
    Mutant::new(
        "etcd-doctor-writes",
        "The test of permissions writes what it tries to",
        PERMISSIONS,
        "result: «CompareResult::Less as i32»,",
        "CompareResult::NotEqual as i32",
        &[Test(TYPED, "etcd::doctor::a_server_is_examined")],
    ),
];
