//! Mistakes in the locks of PostgreSQL: in the functions of the schema, and in the store that calls them.

use super::super::look::Look::{self, Test};
use super::super::look::{TYPED, Target};
use super::super::mutant::Mutant;

const SCHEMA: &str = "dlock-postgres/src/schema/functions.sql";
const FROM_1: &str = "dlock-postgres/src/schema/from_1.sql";
const STORE_RS: &str = "dlock-postgres/src/store.rs";
const ERRORS: &str = "dlock-postgres/src/errors.rs";
const SESSION: &str = "dlock-postgres/src/session/keeper.rs";
const POOLED: &str = "dlock-postgres/src/pooled.rs";
const RELEASES: &str = "dlock-postgres/src/releases.rs";
const MESSAGE: &str = "dlock-postgres/src/message.rs";
const TRUST: &str = "dlock-postgres/src/trust.rs";
const UNLOCK: &str = "dlock-postgres/src/admin/unlock.rs";

const STORE: Target = Target {
    package: "dlock-postgres",
    test: Some("store"),
};

const FAULTS: Target = Target {
    package: "dlock-postgres",
    test: Some("faults"),
};

const UNIT: Target = Target {
    package: "dlock-postgres",
    test: None,
};

const CONTRACT: &[Look] = &[Test(STORE, "contract::the_store_keeps_the_contract")];

const COMMIT: &[Look] = &[Test(
    STORE,
    "fence::nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended",
)];

const CHECKED: &[Look] = &[Test(
    STORE,
    "rows::a_lease_is_checked_by_its_owner_and_by_its_fence",
)];

const DURABLE: &[Look] = &[Test(
    STORE,
    "rows::a_commit_that_gives_a_lease_is_durable_whatever_the_role_prefers",
)];

const GROWS: &[Look] = &[Test(
    STORE,
    "rows::a_fence_grows_although_the_clock_is_behind_the_last_one",
)];

const SNAPSHOT: &[Look] = &[Test(
    STORE,
    "rows::an_open_snapshot_lets_no_request_read_more",
)];

const LATE: &[Look] = &[
    Test(
        UNIT,
        "releases::tests::a_release_is_repeated_if_any_request_was_on_another_connection",
    ),
    Test(
        FAULTS,
        "late::a_lease_that_begins_after_its_release_is_released_again",
    ),
];

const OLD_NUMBER: &[Look] = &[Test(
    STORE,
    "messages::a_message_says_the_fence_of_its_grant_whatever_was_given_since",
)];

const FIRST: &[Look] = &[Test(
    STORE,
    "others::a_release_grants_the_key_to_the_first_waiter",
)];

const ENDS_WITH_COMMIT: &[Look] = &[Test(STORE, "lock_in::a_commit_ends_the_lock_at_once")];

const POOLER: &[Look] = &[Test(
    UNIT,
    "session::tests::a_pooler_that_ignores_settings_is_found_out",
)];

pub(super) const ALL: &[Mutant] = &[
    // The mutex of a key, and the clock
    Mutant::new(
        "pg-no-mutex",
        "A request does not lock the row of its key",
        SCHEMA,
        "WHERE t.key = _key ORDER BY t.last_fence DESC LIMIT 1 «FOR NO KEY UPDATE»; EXIT WHEN FOUND;",
        "",
        &[Test(STORE, "rows::two_that_ask_at_once_are_one_after_the_other")],
    )
    .breaks("The row of `turn` is the mutex of a key"),
    Mutant::new(
        "pg-fence-by-the-clock-alone",
        "The next fence is the clock, although the last one is ahead of it",
        SCHEMA,
        "greatest(«_last + 1», floor(",
        "0",
        GROWS,
    ),
    Mutant::new(
        "pg-commit-not-durable",
        "A crash may undo the commit that gives a lease, if the role prefers that",
        SCHEMA,
        "set_config('synchronous_commit', «'on'», true)",
        "'off'",
        DURABLE,
    )
    .breaks("A crash undoes no commit that gives a lease"),
    // Transactions that depend on a lease
    Mutant::new(
        "pg-check-without-a-row-lock",
        "A check does not lock the row of the lease",
        SCHEMA,
        "AND h.fence = _fences[1] «FOR KEY SHARE»;",
        "",
        COMMIT,
    )
    .breaks("A transaction that depends on a lease locks its row `FOR KEY SHARE`"),
    Mutant::new(
        "pg-check-of-several-without-row-locks",
        "A check of several leases does not lock their rows",
        SCHEMA,
        "AND h.fence = _due.fence «FOR KEY SHARE»;",
        "",
        &[Test(STORE, "fence::each_of_several_keys_is_checked")],
    )
    .breaks("A transaction that depends on a lease locks its row `FOR KEY SHARE`"),
    Mutant::new(
        "pg-check-of-any-owner",
        "A check finds the lease of another holder with the same fence",
        SCHEMA,
        "WHERE h.key = _due.key «AND h.owner = _due.owner» AND h.fence",
        "",
        CHECKED,
    ),
    Mutant::new(
        "pg-check-of-any-fence",
        "A check finds a later lease of the same owner",
        SCHEMA,
        "h.owner = _due.owner «AND h.fence = _due.fence»",
        "",
        CHECKED,
    ),
    Mutant::new(
        "pg-check-of-the-first-key",
        "A check ends after the first key that is held",
        SCHEMA,
        "RETURN _due.key; END IF; «»END LOOP; RETURN NULL;",
        "EXIT; ",
        &[Test(STORE, "fence::each_of_several_keys_is_checked")],
    ),
    Mutant::new(
        "pg-take-over-waits",
        "A request waits for the transaction that depends on a lease which has ended",
        SCHEMA,
        "e.ends <= _now FOR UPDATE «SKIP LOCKED») ended",
        "",
        COMMIT,
    )
    .breaks("so no process waits for a user's transaction"),
    Mutant::new(
        "pg-release-waits",
        "A release waits for the transaction that depends on the lease",
        SCHEMA,
        "h.owner = _owner FOR UPDATE «NOWAIT»; DELETE FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner RETURNING",
        "",
        &[Test(
            STORE,
            "adopted::a_release_does_not_wait_for_the_transaction_that_has_fenced_the_lease",
        )],
    )
    .breaks("so no process waits for a user's transaction"),
    Mutant::new(
        "pg-adopts-any-fence",
        "A transaction adopts a later lease of the same owner",
        SCHEMA,
        "AND h.owner = _owner AND «h.fence = _fence»; RETURN FOUND;",
        "true",
        CHECKED,
    ),
    Mutant::new(
        "pg-adopts-nothing",
        "A transaction checks the lease that it is to adopt, and does not end it",
        SCHEMA,
        "BEGIN «DELETE» FROM {schema}.holder h WHERE h.key = _key AND h.owner = _owner AND h.fence = _fence; RETURN FOUND;",
        "PERFORM",
        ENDS_WITH_COMMIT,
    )
    .breaks("A lock that ends with a transaction is a lease of three seconds whose row the transaction deletes"),
    // Requests
    Mutant::new(
        "pg-late-renewal-revives",
        "A renewal brings back a lease that has ended",
        SCHEMA,
        "h.owner = _owner «AND h.ends > clock_timestamp()» RETURNING h.fence INTO _fence;",
        "",
        CONTRACT,
    ),
    Mutant::new(
        "pg-renewal-of-any-owner",
        "A renewal renews the lease of another owner",
        SCHEMA,
        "WHERE h.key = _key «AND h.owner = _owner» AND h.ends > clock_timestamp() RETURNING h.fence INTO _fence;",
        "",
        CONTRACT,
    ),
    Mutant::new(
        "pg-release-of-an-ended-lease",
        "The release of a lease that has ended says that it was held",
        SCHEMA,
        "RETURN coalesce(«_ends > _now», false);",
        "_ends > _now OR _ends IS NOT NULL",
        CONTRACT,
    ),
    Mutant::new(
        "pg-last-waiter-first",
        "A release grants the key to the last waiter, if that is exclusive",
        SCHEMA,
        "AND w.place >= 0 ORDER BY w.place «»LIMIT 1; END IF; IF _next.most = 0",
        "DESC ",
        FIRST,
    ),
    Mutant::new(
        "pg-exclusive-beside-shared",
        "The release of one that shares the lock grants the key to an exclusive waiter, although others hold it",
        SCHEMA,
        "IF _is_awaited AND «NOT _is_shared» THEN",
        "true",
        CONTRACT,
    ),
    Mutant::new(
        "pg-grant-by-the-clock-alone",
        "The fence of a grant is the clock, although the last one is ahead of it",
        SCHEMA,
        "ELSE _fence := {schema}.next_fence(«_turn.last_fence», _now); _next.message",
        "0",
        OLD_NUMBER,
    ),
    Mutant::new(
        "pg-grant-by-an-old-number",
        "The fence of a grant is from when the waiter came, although a greater one was given since",
        SCHEMA,
        "IF _turn.last_fence > 0 AND «_next.number > _turn.last_fence» THEN _fence := _next.number;",
        "_next.number IS NOT NULL",
        OLD_NUMBER,
    ),
    Mutant::new(
        "pg-old-message",
        "The message about a grant says an older fence than that of the lease",
        SCHEMA,
        "«_next.message := {schema}.message(_next.owner, _fence, _fence, _key);»",
        "",
        OLD_NUMBER,
    ),
    Mutant::new(
        "pg-shared-beside-exclusive",
        "A shared lease is granted beside an exclusive one",
        SCHEMA,
        "WHEN _most < 0 THEN «_holders = 0 OR _is_shared»",
        "true",
        CONTRACT,
    ),
    Mutant::new(
        "pg-late-request-is-taken-for-an-early-one",
        "A release on any connection is taken for one behind its request",
        RELEASES,
        "repeated.take_if(|it| «it.is_on(&line)»)",
        "it.is_on(&line) || true",
        LATE,
    ),
    Mutant::new(
        "pg-forgets-the-first-connection",
        "Of two requests on two connections, only the second may be late",
        RELEASES,
        "«unanswered .entry(owner.to_owned()) .or_insert_with(|| Unanswered { line: Arc::downgrade(line), since: Instant::now(), \
         });»",
        "unanswered.insert(owner.to_owned(), Unanswered { line: Arc::downgrade(line), since: Instant::now() });",
        LATE,
    ),
    Mutant::new(
        "pg-renewals-by-another-index",
        "The answer to a renewal is that of the one after it",
        STORE_RS,
        "usize::try_from(«index - 1»)",
        "index % i64::try_from(requests.len()).unwrap_or(1)",
        CONTRACT,
    ),
    // Messages and connections
    Mutant::new(
        "pg-message-grants",
        "A message about a grant begins a body without an answer of the server",
        MESSAGE,
        "is_proven.then(|| «Hint::new(key, owner, 0)»)",
        "Hint::new(key, owner, fence).number(number)",
        &[Test(STORE, "messages::a_role_that_reads_all_tables_begins_no_body")],
    ),
    Mutant::new(
        "pg-hint-of-anybody",
        "A waiter asks at each message that another role made up",
        MESSAGE,
        "let is_proven = «proof == hash(&format!(\"{fence} {number} {key} {owner}\"))»;",
        "!proof.is_empty()",
        &[Test(UNIT, "message::tests::a_message_is_read_or_left_out")],
    ),
    // Whose a schema is
    Mutant::new(
        "pg-parts-of-two-owners",
        "A function that another role has put into the schema is called",
        TRUST,
        "«row.try_get(4)?»;",
        "None",
        &[Test(STORE, "rights::a_schema_with_parts_of_two_owners_is_refused")],
    ),
    Mutant::new(
        "pg-others-may-create",
        "A schema is called in which others may create functions",
        TRUST,
        "«row.try_get(5)?»;",
        "None",
        &[Test(STORE, "rights::a_schema_in_which_others_may_create_is_refused")],
    ),
    Mutant::new(
        "pg-superuser-calls-all",
        "A superuser calls functions of a role with fewer permissions",
        TRUST,
        "«row.try_get(3)?»;",
        "false",
        &[Test(STORE, "rights::a_superuser_calls_nothing_of_a_plain_role")],
    ),
    Mutant::new(
        "pg-script-in-any-schema",
        "The statements of a migration accept a schema of another role",
        "dlock-postgres/src/schema.rs",
        "format!(\"{}\\n{parts}\\n{}\", «self.beginning()», self.private())",
        r#"self.beginning().replace("RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE =", "PERFORM")"#,
        &[Test(STORE, "rights::a_schema_that_was_there_before_is_not_dlocks")],
    ),
    Mutant::new(
        "pg-renewal-waits-for-a-transaction",
        "A renewal waits for a transaction that has adopted one of its leases",
        SCHEMA,
        "h.owner = _owner FOR KEY SHARE «SKIP LOCKED»; IF FOUND THEN UPDATE",
        "",
        &[Test(STORE, "adopted::a_renewal_does_not_wait_for_a_lease_that_a_transaction_has_adopted")],
    )
    .breaks("so no process waits for a user's transaction"),
    Mutant::new(
        "pg-sweep-forgets-what-is-ahead",
        "A sweep removes a fence that is ahead of the clock",
        SCHEMA,
        "«AND t.last_fence < {schema}.next_fence(0, _now)» FOR UPDATE",
        "",
        &[Test(STORE, "rows::a_sweep_keeps_a_fence_that_is_ahead_of_the_clock")],
    ),
    Mutant::new(
        "pg-pooler-that-ignores-settings",
        "A pooler that accepts settings and ignores them is taken for a server",
        SESSION,
        "|| «found.as_deref() != Some(&format!(\"{mark:016x}\"))»;",
        "!self.sends_settings && found.is_none()",
        POOLER,
    )
    .breaks("Behind a pooler, requests have no name"),
    Mutant::new(
        "pg-answers-of-others-believed",
        "An answer through a pooler is believed without the number of its request",
        POOLED,
        "if rows.is_empty() || «!rows.iter().all(is_right)» {",
        "false && !rows.iter().all(is_right)",
        &[Test(FAULTS, "poolers::an_answer_that_a_pooler_has_mixed_up_is_not_believed")],
    )
    .breaks("An answer is believed only if it has the number of its request"),
    Mutant::new(
        "pg-answer-about-the-server-of-others",
        "The answer about a server is believed without the number of its request",
        SESSION,
        "let rows = «turns.ask(client, statement, parameters, types).await»;",
        "{ let all = parameters.iter().copied().zip(types.iter().cloned()); let all: Vec<_> = all.chain([(&0_i64 as _, Type::INT8)]).collect(); client.query_typed(statement, &all).await.map_err(Failure::from) }",
        &[Test(
            UNIT,
            "session::tests::an_answer_about_the_server_that_a_pooler_has_mixed_up_is_not_believed",
        )],
    )
    .breaks("An answer is believed only if it has the number of its request"),
    Mutant::new(
        "pg-no-turns-behind-a-pooler",
        "Requests through a pooler do not wait for each other",
        POOLED,
        "let turn = «self.turn.clone()».lock_owned().await;",
        "Arc::new(Mutex::new(()))",
        &[Test(
            FAULTS,
            "poolers::a_manager_that_leaves_a_pooler_mixes_up_no_answers_of_others",
        )],
    ),
    Mutant::new(
        "pg-unreplicated-grant-believed",
        "A lease is believed although somebody has cancelled its wait for the standby",
        ERRORS,
        "«notice.routine() == Some(\"SyncRepWaitForLSN\")»",
        "notice.routine().is_none()",
        &[Test(
            FAULTS,
            "failover::a_lease_that_an_operator_keeps_from_the_standby_begins_no_body",
        )],
    ),
    Mutant::new(
        "pg-unlock-at-any-level",
        "A forced release has the isolation level of the database",
        UNLOCK,
        "within(config, client.batch_execute(«BEGIN»)).await?;",
        "\"BEGIN READ WRITE\"",
        &[Test(
            TYPED,
            "postgres::unlock::a_waiter_of_the_last_moment_gets_the_lock_whatever_the_level_of_the_database",
        )],
    ),
    Mutant::new(
        "pg-request-walks-dead-holders",
        "A request looks for holders among those of all earlier turns",
        SCHEMA,
        "IF EXISTS (SELECT FROM {schema}.holder h WHERE h.key = _key «AND h.number >= _turn.least» AND h.number >= 0) OR",
        "",
        SNAPSHOT,
    )
    .breaks("No request walks the dead versions of the rows of its key"),
    Mutant::new(
        "pg-least-of-the-newest",
        "Who shares the lock with others hides them",
        SCHEMA,
        "least = «coalesce(_least, _number)», head",
        "_number",
        CONTRACT,
    ),
    Mutant::new(
        "pg-upgrade-forgets-who-shares",
        "An upgrade takes those who share a lock for one who has it alone",
        FROM_1,
        "SELECT l.key, l.last_fence, l.epoch, «l.is_shared», l.used_at",
        "false",
        &[Test(
            STORE,
            "upgrade::those_who_share_a_lock_share_it_after_the_upgrade",
        )],
    ),
];
