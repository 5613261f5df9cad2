//! Mistakes in what operators see, in who did what, in forced releases, and in the permissions for them.

use super::super::look::Look::{self, Test};
use super::super::look::{COMMAND, TYPED};
use super::super::mutant::Mutant;
use super::zookeeper::STORE;

const GLOBAL: &str = "dlock-cli/src/global.rs";
const OPERATOR: &str = "dlock-cli/src/operator.rs";
const TEXT: &str = "dlock-cli/src/text.rs";
const ETCD_PERMISSIONS: &str = "dlock-etcd/src/admin/permissions.rs";
const ETCD_UNLOCK: &str = "dlock-etcd/src/admin/unlock.rs";
const ZOOKEEPER_PERMISSIONS: &str = "dlock-zookeeper/src/admin/permissions.rs";
const ZOOKEEPER_READERS: &str = "dlock-zookeeper/src/readers.rs";
const ZOOKEEPER_UNLOCK: &str = "dlock-zookeeper/src/admin/unlock.rs";

const READ: &[Look] = &[Test(
    STORE,
    "admin::rights::readers_of_the_url_see_all_and_change_nothing",
)];

const SHARED: &[Look] = &[Test(
    STORE,
    "admin::unlock::of_a_shared_lock_one_holder_or_all_are_ended",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "operators-namespace-unread",
        "The namespace of the environment is not read",
        GLOBAL,
        "env = «\"DLOCK_NAMESPACE\"»,",
        "\"DLOCK_NAMESPACES\"",
        &[Test(
            TYPED,
            "reads::the_namespace_is_that_of_the_environment_unless_an_option_names_another",
        )],
    ),
    Mutant::new(
        "operators-mark-unseen",
        "Two keys look the same, as one has an invisible mark",
        TEXT,
        "if «is_unseen(c)» {",
        "is_unseen(c) && c != '\\u{fe0f}'",
        &[Test(COMMAND, "text::tests::no_character_is_unseen")],
    ),
    Mutant::new(
        "operators-root-did-it",
        "The record names root in place of the user of `sudo`",
        OPERATOR,
        "let names = «USERS.iter()»",
        "USERS[1..].iter()",
        &[Test(
            TYPED,
            "unlock::a_release_leaves_a_record_of_who_did_it",
        )],
    ),
    // etcd.
    Mutant::new(
        "etcd-unlock-any-owner",
        "A forced release of one holder ends all that share the lock",
        ETCD_UNLOCK,
        "self.is_all || «owner(it) == self.owner»);",
        "true",
        &[Test(
            TYPED,
            "etcd::unlock::of_a_shared_lock_one_holder_or_all_are_ended",
        )],
    ),
    Mutant::new(
        "etcd-doctor-writes",
        "The test of permissions writes what it tries to",
        ETCD_PERMISSIONS,
        "result: «CompareResult::Less as i32»,",
        "CompareResult::NotEqual as i32",
        &[Test(TYPED, "etcd::doctor::a_server_is_examined")],
    ),
    // ZooKeeper.
    Mutant::new(
        "zookeeper-notice-open",
        "Every client may write messages for the holders of a user",
        ZOOKEEPER_UNLOCK,
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
        ZOOKEEPER_UNLOCK,
        "(self.is_all || «owner == self.owner»)",
        "true",
        SHARED,
    ),
    Mutant::new(
        "zookeeper-doctor-writes",
        "The test of permissions writes what it tries to",
        ZOOKEEPER_PERMISSIONS,
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
        ZOOKEEPER_READERS,
        "is_valid.then(|| Acl::new(«Permission::READ», AuthId",
        "Permission::ALL",
        READ,
    ),
];
