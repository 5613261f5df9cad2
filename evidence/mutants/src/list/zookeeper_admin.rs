//! Mistakes in what operators see of ZooKeeper, and in forced releases.

use super::super::look::Look::{self, Test};
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const GRANTS: &str = "dlock-zookeeper/src/admin/grants.rs";
const LINK: &str = "dlock-zookeeper/src/admin/link.rs";
const LOCK: &str = "dlock-zookeeper/src/admin/lock.rs";
const NOTICES: &str = "dlock-zookeeper/src/notices.rs";
const PAGE: &str = "dlock-zookeeper/src/admin/page.rs";
const PERMISSIONS: &str = "dlock-zookeeper/src/admin/permissions.rs";
const READERS: &str = "dlock-zookeeper/src/readers.rs";
const UNLOCK: &str = "dlock-zookeeper/src/admin/unlock.rs";

const TOLD: &[Look] = &[Test(
    STORE,
    "admin::unlock::the_next_waiter_holds_the_key_and_the_old_holder_is_told_at_once",
)];

const READ: &[Look] = &[Test(
    STORE,
    "admin::rights::readers_of_the_url_see_all_and_change_nothing",
)];

const SHARED: &[Look] = &[Test(
    STORE,
    "admin::unlock::of_a_shared_lock_one_holder_or_all_are_ended",
)];

const MANY: &[Look] = &[Test(
    STORE,
    "admin::look::queues_are_read_many_at_once_unless_the_servers_are_too_old_for_it",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "zookeeper-gone-among-many",
        "A directory that has gone since keeps all others from being listed",
        LINK,
        "MultiReadResult::Error { err: Error::NoNode } => «Ok(Vec::new())»,",
        "Err(Error::NoNode)",
        MANY,
    ),
    Mutant::new(
        "zookeeper-no-notice",
        "A forced release leaves no message for the holder",
        UNLOCK,
        "let text = «with_messages(before.as_ref(), told)»;",
        "with_messages(before.as_ref(), told.take(0))",
        TOLD,
    ),
    Mutant::new(
        "zookeeper-notice-once",
        "A session hears of the first forced release alone",
        NOTICES,
        "sinks.wake(&key, owner, 0); } «Ok(Some(watcher))»",
        "{ drop(watcher); std::future::pending().await }",
        TOLD,
    ),
    Mutant::new(
        "zookeeper-notice-open",
        "Every client may write messages for the holders of a user",
        UNLOCK,
        "with_acls(«Acls::new(acls)»)",
        "{ let _ = acls; Acls::anyone_all() }",
        &[Test(
            STORE,
            "admin::rights::who_may_only_read_sees_all_and_ends_nothing",
        )],
    ),
    Mutant::new(
        "zookeeper-unlock-any-owner",
        "A forced release of one holder ends all that share the lock",
        UNLOCK,
        "(self.is_all || «owner == self.owner»)",
        "true",
        SHARED,
    ),
    Mutant::new(
        "zookeeper-few-waiters",
        "A few waiters of a lock are listed",
        PAGE,
        "queue.waiters().iter().take(«MOST»)",
        "8",
        &[Test(
            STORE,
            "admin::look::thousands_of_locks_are_listed_in_order_and_patterns_mean_what_they_mean_in_redis",
        )],
    ),
    Mutant::new(
        "zookeeper-scan-without-pause",
        "Requests count as if they cost the servers nothing",
        PAGE,
        "read => return Ok((read?, «FOR_A_REQUEST + FOR_A_QUEUE * count»)),",
        "Duration::ZERO",
        &[Test(
            STORE,
            "admin::look::a_listing_leaves_the_servers_nearly_all_of_their_time",
        )],
    ),
    Mutant::new(
        "zookeeper-granted-again",
        "A holder that stays while another leaves counts as granted",
        GRANTS,
        "let waited = |it: &&Entry| «before.waiters().iter().any(|was| was.name == it.name)»;",
        "it.place >= 0",
        &[Test(
            UNIT,
            "admin::grants::tests::a_holder_that_has_waited_is_a_grant_and_is_told_once",
        )],
    ),
    Mutant::new(
        "zookeeper-time-of-fence",
        "A holder has held its lock since the time of its fence",
        LOCK,
        "holder.since = «held.map(|held| at(Duration::from_millis(held.since)).min(now))»;",
        "{ let _ = held; holder.since }",
        &[Test(
            UNIT,
            "admin::lock::tests::children_at_the_front_hold_and_the_others_wait",
        )],
    ),
    Mutant::new(
        "zookeeper-doctor-writes",
        "The test of permissions writes what it tries to",
        PERMISSIONS,
        "add_check_version(parent, «i32::MAX»)",
        "-1",
        &[Test(
            STORE,
            "admin::report::each_server_tells_of_itself_and_nothing_is_written",
        )],
    ),
    Mutant::new(
        "zookeeper-readers-write",
        "A reader of the URL may change the nodes",
        READERS,
        "is_valid.then(|| Acl::new(«Permission::READ», AuthId",
        "Permission::ALL",
        READ,
    ),
];
