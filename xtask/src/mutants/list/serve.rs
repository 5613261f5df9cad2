//! Mistakes in the page of `dlock serve`.

use super::super::look::Look::{self, Test};
use super::super::look::RUNTIME;
use super::super::mutant::Mutant;

const ATTENTION: &str = "dlock-runtime/src/admin/web/attention.rs";
const DESK: &str = "dlock-runtime/src/admin/web/desk.rs";
const DIFFERENCE: &str = "dlock-runtime/src/admin/web/history/difference.rs";
const DRAFT: &str = "dlock-runtime/src/admin/web/picture/draft.rs";
const FEEDS: &str = "dlock-runtime/src/admin/web/feeds.rs";
const HISTORY: &str = "dlock-runtime/src/admin/web/history.rs";
const LOOKS: &str = "dlock-runtime/src/admin/web/looks.rs";
const PROTECT: &str = "dlock-runtime/src/admin/web/protect.rs";
const QUERY: &str = "dlock-runtime/src/admin/web/query.rs";
const UNLOCK: &str = "dlock-runtime/src/admin/web/unlock.rs";

const ONE_READING: &[Look] = &[Test(
    RUNTIME,
    "admin::web::tests::following::all_browsers_share_one_reading",
)];

const NOBODY: &[Look] = &[Test(
    RUNTIME,
    "admin::web::tests::following::nothing_is_read_without_a_browser",
)];

const OTHERWISE: &[Look] = &[Test(
    RUNTIME,
    "admin::web::tests::unlocking::nothing_else_releases_a_lock",
)];

const SHOWN: &[Look] = &[Test(
    RUNTIME,
    "admin::web::tests::unlocking::a_lease_that_was_not_shown_is_left_alone",
)];

const ORDERS: &[Look] = &[Test(
    RUNTIME,
    "admin::web::tests::lists::orders_put_locks_without_a_value_last",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "serve-each-reads",
        "Each browser has the locks read for itself",
        ATTENTION,
        "let starts = «!std::mem::replace(&mut state.is_served, true)»;",
        "{ state.is_served = true; true }",
        ONE_READING,
    ),
    Mutant::new(
        "serve-reads-for-nobody",
        "The locks are read on after the last browser has left",
        ATTENTION,
        "if «until.is_some_and(|until| until <= Instant::now())» {",
        "false",
        NOBODY,
    ),
    Mutant::new(
        "serve-old-picture",
        "A browser is shown a picture from before the last browser left",
        DESK,
        "«shown.state = State::Reading(None); shown.picture = None;»",
        "",
        NOBODY,
    ),
    Mutant::new(
        "serve-outage-anew",
        "Each failure of an outage is its beginning",
        DESK,
        "State::Away { since_ms, since, .. } => («since_ms», since),",
        "{ let _ = since_ms; shown.server.now_ms() + 1 }",
        &[Test(
            RUNTIME,
            "admin::web::tests::following::an_outage_is_shown_with_its_reason_and_the_last_picture",
        )],
    ),
    Mutant::new(
        "serve-stream-outlives",
        "A stream of events goes on after the end of the server",
        FEEDS,
        "self.looker = self.room.desk.look().0, () = «self.room.ended()» => return false, } } } async fn document",
        "std::future::pending::<()>()",
        &[Test(
            RUNTIME,
            "admin::web::tests::following::streams_end_with_the_server_and_are_never_quiet_for_long",
        )],
    ),
    Mutant::new(
        "serve-any-number-of-locks",
        "Any number of locks is read one by one",
        LOOKS,
        "if «looks.len() >= MOST» && !looks.contains_key(key) {",
        "false",
        &[Test(
            RUNTIME,
            "admin::web::tests::documents::a_lock_is_read_once_for_all_that_look_at_it",
        )],
    ),
    Mutant::new(
        "serve-any-host",
        "A name that another site lets point to this machine is answered",
        PROTECT,
        "if «!room.hosts.have(host(request.headers(), request.uri()))» {",
        "host(request.headers(), request.uri()).is_none()",
        &[Test(
            RUNTIME,
            "admin::web::tests::protection::a_page_answers_no_name_that_another_site_may_have",
        )],
    ),
    Mutant::new(
        "serve-any-site-reads",
        "A page of another site has the locks read",
        PROTECT,
        "if is_data && «is_other» {",
        "is_other && false",
        &[Test(
            RUNTIME,
            "admin::web::tests::protection::another_site_reads_no_data_but_may_link_to_the_page",
        )],
    ),
    Mutant::new(
        "serve-cached",
        "A browser keeps the locks on its disk",
        PROTECT,
        "HeaderValue::from_static(«\"no-store\"»)",
        "\"max-age=60\"",
        &[Test(
            RUNTIME,
            "admin::web::tests::protection::all_responses_are_protected",
        )],
    ),
    Mutant::new(
        "serve-token-begins",
        "A token is right if it begins as the right one does",
        PROTECT,
        "let mut different = «right.len() ^ given.len()»;",
        "0",
        &[Test(
            RUNTIME,
            "admin::web::protect::tests::a_token_is_right_as_a_whole",
        )],
    ),
    Mutant::new(
        "serve-any-token",
        "Any token releases a lock",
        UNLOCK,
        "if «!bearer(&head.headers).is_some_and(|given| is_token(token, given))» {",
        "bearer(&head.headers).is_none()",
        OTHERWISE,
    ),
    Mutant::new(
        "serve-any-origin",
        "A page of another site releases a lock",
        UNLOCK,
        "if «!is_same_origin(&head.headers, &head.uri)» {",
        "false",
        OTHERWISE,
    ),
    Mutant::new(
        "serve-any-type",
        "A form of another site is taken for a request of the page",
        UNLOCK,
        "if «kind.split(';').next().map(str::trim) != Some(\"application/json\")» {",
        "false",
        OTHERWISE,
    ),
    Mutant::new(
        "serve-untyped",
        "The key need not be typed",
        UNLOCK,
        "if «wanted.key != wanted.typed» {",
        "false",
        OTHERWISE,
    ),
    Mutant::new(
        "serve-later-lease",
        "A later lease of the same owner is ended",
        UNLOCK,
        "holder.owner == Some(owner) && «holder.fence == fence»),",
        "fence > 0",
        SHOWN,
    ),
    Mutant::new(
        "serve-later-holder",
        "Without an owner, a later holder of the lock is released",
        UNLOCK,
        "is_some_and(|holder| «holder.fence == fence»),",
        "holder.fence > 0",
        SHOWN,
    ),
    Mutant::new(
        "serve-nulls-first",
        "Locks without a value come first in one of the orders",
        QUERY,
        "[Some(_), None] => «Ordering::Less»,",
        "if self.is_descending { Ordering::Greater } else { Ordering::Less }",
        ORDERS,
    ),
    Mutant::new(
        "serve-half-a-page",
        "A lock is on two pages",
        QUERY,
        "locks.select_nth_unstable_by(«end - 1», order);",
        "(end - 1) / 2",
        &[Test(
            RUNTIME,
            "admin::web::tests::lists::pages_hold_each_lock_once_in_every_order",
        )],
    ),
    Mutant::new(
        "serve-earlier-reading",
        "Of a lock that was read twice, the earlier reading is shown",
        DRAFT,
        "if is_same { «*kept = *later;» }",
        "",
        &[Test(
            RUNTIME,
            "admin::web::tests::lists::totals_count_what_the_picture_has",
        )],
    ),
    Mutant::new(
        "serve-history-without-end",
        "The history of all locks grows without a limit",
        HISTORY,
        "if «self.events.len() == EVENTS» && let",
        "false",
        &[Test(
            RUNTIME,
            "admin::web::tests::past::what_is_forgotten_is_a_gap",
        )],
    ),
    Mutant::new(
        "serve-one-lock-fills-it",
        "The grants of one busy lock push all others out of the history",
        HISTORY,
        "if «count <= GRANTS» {",
        "true",
        &[Test(
            RUNTIME,
            "admin::web::tests::past::one_busy_lock_is_remembered_in_part",
        )],
    ),
    Mutant::new(
        "serve-concludes-from-nothing",
        "A lease that ended while no browser looked counts as released",
        DIFFERENCE,
        "if «between.is_gap» { return (between.from_ms, End::Unknown); }",
        "false",
        &[Test(
            RUNTIME,
            "admin::web::tests::past::nothing_is_concluded_from_a_time_without_readings",
        )],
    ),
    Mutant::new(
        "serve-expired-unseen",
        "A lease that may have been renewed counts as expired",
        DIFFERENCE,
        "return if has_expired && «passed.saturating_mul(3) < holder.longest_ms()» {",
        "true",
        &[Test(
            RUNTIME,
            "admin::web::tests::past::a_lease_that_was_not_renewed_has_expired",
        )],
    ),
    Mutant::new(
        "serve-forced-unnoted",
        "The history does not say that the page has ended a lease",
        UNLOCK,
        "«room.desk.forced(key, of, fence);»",
        "",
        &[Test(
            RUNTIME,
            "admin::web::tests::unlocking::a_forced_release_is_in_the_history",
        )],
    ),
];
