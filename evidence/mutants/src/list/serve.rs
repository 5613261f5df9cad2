//! Mistakes in the page of `dlock serve`.

use super::super::look::Look::{self, Test};
use super::super::look::{COMMAND, TYPED, WEB};
use super::super::mutant::Mutant;

const ATTENTION: &str = "dlock-admin-web/src/attention.rs";
const DESK: &str = "dlock-admin-web/src/desk.rs";
const EVENTS: &str = "dlock-admin-web/src/events.rs";
const LOOKS: &str = "dlock-admin-web/src/looks.rs";
const PLACES: &str = "dlock-cli/src/commands/serve/server/places.rs";
const PROTECT: &str = "dlock-admin-web/src/protect.rs";
const QUERY: &str = "dlock-admin-web/src/query.rs";
const ROOM: &str = "dlock-admin-web/src/room.rs";
const SERVER: &str = "dlock-cli/src/commands/serve/server.rs";
const TOKEN: &str = "dlock-admin-web/src/token.rs";
const UNLOCK: &str = "dlock-admin-web/src/unlock.rs";
const VIEW: &str = "dlock-admin-web/src/history/view.rs";

const ONE_READING: &[Look] = &[Test(
    WEB,
    "tests::following::all_browsers_share_one_reading",
)];

const NOBODY: &[Look] = &[Test(
    WEB,
    "tests::following::nothing_is_read_without_a_browser",
)];

const OTHERWISE: &[Look] = &[Test(WEB, "tests::unlocking::nothing_else_releases_a_lock")];

const SHOWN: &[Look] = &[Test(
    WEB,
    "tests::unlocking::a_lease_that_was_not_shown_is_left_alone",
)];

const GUESSES: &[Look] = &[Test(
    WEB,
    "tests::unlocking::wrong_tokens_of_others_never_refuse_the_right_one",
)];

const CONNECTED: &[Look] = &[Test(
    COMMAND,
    "commands::serve::server::tests::so_many_clients_are_connected_at_the_same_time",
)];

const ORDERS: &[Look] = &[Test(
    WEB,
    "tests::lists::orders_put_locks_without_a_value_last",
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
        "serve-old-picture",
        "A browser is shown a picture from before the last browser left",
        DESK,
        "«shown.state = DeskState::Reading(None); shown.picture = None;»",
        "",
        NOBODY,
    ),
    Mutant::new(
        "serve-outage-anew",
        "Each failure of an outage is its beginning",
        DESK,
        "DeskState::Away { since_ms, since, .. } => («since_ms», since),",
        "{ let _ = since_ms; shown.server.now_ms() + 1 }",
        &[Test(
            WEB,
            "tests::following::an_outage_is_shown_with_its_reason_and_the_last_picture",
        )],
    ),
    Mutant::new(
        "serve-stream-outlives",
        "A stream of events goes on after the end of the server",
        ROOM,
        "Some(end) => «end.clone().await»,",
        "pending::<()>().await",
        &[Test(
            WEB,
            "tests::following::streams_end_with_the_server_and_are_never_quiet_for_long",
        )],
    ),
    Mutant::new(
        "serve-any-number-of-locks",
        "Any number of locks is read one by one",
        LOOKS,
        "if «looks.len() >= MOST» && !looks.contains_key(key) {",
        "false",
        &[Test(
            WEB,
            "tests::documents::a_lock_is_read_once_for_all_that_look_at_it",
        )],
    ),
    Mutant::new(
        "serve-any-host",
        "A name that another site lets point to this machine is answered",
        PROTECT,
        "if «!room.hosts.have(host(request.headers(), request.uri()))» {",
        "host(request.headers(), request.uri()).is_none()",
        &[Test(
            WEB,
            "tests::protection::a_page_answers_no_name_that_another_site_may_have",
        )],
    ),
    Mutant::new(
        "serve-any-site-reads",
        "A page of another site has the locks read",
        PROTECT,
        "if is_data && «is_other» {",
        "is_other && false",
        &[Test(
            WEB,
            "tests::protection::another_site_reads_no_data_but_may_link_to_the_page",
        )],
    ),
    Mutant::new(
        "serve-cached",
        "A browser keeps the locks on its disk",
        PROTECT,
        "HeaderValue::from_static(«\"no-store\"»)",
        "\"max-age=60\"",
        &[Test(WEB, "tests::protection::all_responses_are_protected")],
    ),
    Mutant::new(
        "serve-token-begins",
        "A token is right if it begins as the right one does",
        TOKEN,
        "let mut different = «right.len() ^ given.len()»;",
        "0",
        &[Test(WEB, "token::tests::a_token_is_right_as_a_whole")],
    ),
    Mutant::new(
        "serve-any-token",
        "Any token releases a lock",
        UNLOCK,
        "let given = «token.compare(given, client.address)»;",
        "{ token.compare(given, client.address); Given::Right }",
        OTHERWISE,
    ),
    Mutant::new(
        "serve-later-lease",
        "A later lease of the same owner is ended",
        UNLOCK,
        "seen.holders().find(is_it).filter(|it| «it.fence == fence»)",
        "fence > 0",
        SHOWN,
    ),
    Mutant::new(
        "serve-any-holder",
        "Another holder than that with the handle is released",
        UNLOCK,
        "«handle.is_none()» || it.owner.map(OwnerId::handle) == handle;",
        "true",
        SHOWN,
    ),
    Mutant::new(
        "serve-owner-ids",
        "The page tells the owner ids of holders",
        "dlock-admin-web/src/views.rs",
        "handle: holder.owner.map(|owner| «owner.handle().to_string()»),",
        "owner.to_string()",
        &[Test(
            WEB,
            "tests::documents::a_lock_has_its_holders_and_its_queue",
        )],
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
        &[Test(WEB, "tests::lists::pages_of_many_locks_are_in_order")],
    ),
    Mutant::new(
        "serve-any-number-of-streams",
        "Any number of streams is open at the same time",
        EVENTS,
        "let Ok(permit) = «streams.0.clone().try_acquire_owned()» else {",
        "Arc::new(Semaphore::new(1)).try_acquire_owned()",
        &[Test(
            WEB,
            "tests::following::so_many_streams_are_open_at_the_same_time",
        )],
    ),
    Mutant::new(
        "serve-unread-stream",
        "A stream whose client reads nothing goes on",
        EVENTS,
        "(«next <= now»).then(|| place.take())",
        "false",
        &[Test(
            WEB,
            "tests::following::a_stream_ends_when_its_client_reads_nothing",
        )],
    ),
    Mutant::new(
        "serve-slow-stream",
        "A stream ends although its client reads it, slowly",
        EVENTS,
        "let since = «place.as_ref().map_or(now, |(_, since)| *since)»;",
        "next - PATIENCE",
        &[Test(
            WEB,
            "tests::following::a_stream_whose_client_reads_slowly_goes_on",
        )],
    ),
    Mutant::new(
        "serve-guesses-lock-out",
        "The right token is refused after too many wrong ones",
        TOKEN,
        "if «is_same(&self.text, given)» {",
        "is_same(&self.text, given) && self.guesses.lock().is_ok_and(|it| it.get(&address).is_none_or(|it| it.until.is_none()))",
        GUESSES,
    ),
    Mutant::new(
        "serve-guesses-of-all",
        "The guesses of one address count for all",
        TOKEN,
        "let guesses = guesses.entry(«address.filter(|_| is_known)»)",
        "address.filter(|_| is_known && false)",
        GUESSES,
    ),
    Mutant::new(
        "serve-any-number-of-addresses",
        "Each address that guesses is remembered, however many there are",
        TOKEN,
        "let is_known = «guesses.len() < ADDRESSES || guesses.contains_key(&address)»;",
        "true",
        &[Test(WEB, "token::tests::many_addresses_count_as_one")],
    ),
    Mutant::new(
        "serve-no-token-is-a-guess",
        "A request without a token counts as a guess",
        UNLOCK,
        "else { «»// It guesses nothing.",
        "token.compare(\"\", client.address);",
        GUESSES,
    ),
    Mutant::new(
        "serve-each-guess-logged",
        "Wrong tokens are logged after too many of an address",
        UNLOCK,
        "Given::Guess(left) => «Some(too_many(left))»,",
        "{ warn!(target: TARGET, \"too many wrong tokens\"); Some(too_many(left)) }",
        &[Test(
            TYPED,
            "serve::locks::guesses_of_the_token_are_refused_and_logged_once",
        )],
    ),
    Mutant::new(
        "serve-easy-token",
        "A token of few characters is accepted",
        TOKEN,
        "(«bits < BITS»).then(|| {",
        "false",
        &[Test(
            WEB,
            "token::tests::a_token_that_is_easy_to_guess_has_a_fault",
        )],
    ),
    Mutant::new(
        "serve-endless-body",
        "A request to release a lock may take any time",
        UNLOCK,
        "let body = timeout(«PATIENCE», axum::body::to_bytes(body, MOST)).await;",
        "PATIENCE * 60",
        &[Test(
            WEB,
            "tests::unlocking::a_request_that_does_not_end_is_refused",
        )],
    ),
    Mutant::new(
        "serve-refusal-is-outage",
        "A release that the store refuses counts as an outage",
        UNLOCK,
        "let is_refused = «error.kind() == StoreErrorKind::Refused && error.has_no_effect()»;",
        "false",
        &[Test(
            WEB,
            "tests::unlocking::a_refusal_and_an_outage_are_told_apart",
        )],
    ),
    Mutant::new(
        "serve-endless-head",
        "The head of a request may take any time",
        SERVER,
        ".header_read_timeout(«limits.head»);",
        "limits.head * 1000",
        &[Test(
            COMMAND,
            "commands::serve::server::tests::a_client_that_never_ends_its_request_loses_its_connection",
        )],
    ),
    Mutant::new(
        "serve-endless-write",
        "A client may read nothing for any time",
        SERVER,
        "Progress::within(«self.limits.write», stream)",
        "self.limits.write * 1000",
        &[Test(
            COMMAND,
            "commands::serve::server::tests::a_client_that_reads_nothing_loses_its_stream",
        )],
    ),
    Mutant::new(
        "serve-any-number-of-connections",
        "Any number of clients is connected at the same time",
        PLACES,
        "if «of_kind().count() < most» {",
        "true",
        CONNECTED,
    ),
    Mutant::new(
        "serve-any-number-of-refusals",
        "Any number of clients is refused at the same time",
        PLACES,
        "open.has_room(true, «self.refused»)",
        "usize::MAX",
        &[Test(
            COMMAND,
            "commands::serve::server::places::tests::a_request_keeps_its_place_until_its_response_is_complete",
        )],
    ),
    Mutant::new(
        "serve-silence-keeps-places",
        "Clients that send nothing keep others from the page",
        PLACES,
        "let Some((_, _, id)) = «most_idle» else {",
        "None::<(usize, u64, u64)>",
        &[Test(
            COMMAND,
            "commands::serve::server::tests::clients_without_a_request_make_way_for_others",
        )],
    ),
    Mutant::new(
        "serve-response-cut",
        "A connection makes way while a request is answered",
        PLACES,
        "entry.idle_since = «is_idle.then_some(now)»;",
        "Some(now).filter(|_| is_idle || now > 0)",
        &[Test(
            COMMAND,
            "commands::serve::server::places::tests::a_request_keeps_its_place_until_its_response_is_complete",
        )],
    ),
    Mutant::new(
        "serve-idle-keeps-its-place",
        "A client without a further request keeps its place",
        PLACES,
        "«self.0.set_idle(true);»",
        "",
        &[Test(
            COMMAND,
            "commands::serve::server::places::tests::a_request_keeps_its_place_until_its_response_is_complete",
        )],
    ),
    Mutant::new(
        "serve-many-push-out-one",
        "An address that opens many connections takes the place of another one",
        PLACES,
        ".max_by_key(|(count, first, _)| («*count», u64::MAX - first));",
        "usize::from(*count > usize::MAX / 2)",
        &[Test(
            COMMAND,
            "commands::serve::server::places::tests::the_address_with_the_most_connections_without_a_request_makes_way",
        )],
    ),
    Mutant::new(
        "serve-made-way-open",
        "A connection that makes way stays open",
        PLACES,
        "«entry.makes_way.notify_one();»",
        "",
        &[Test(
            COMMAND,
            "commands::serve::server::places::tests::the_address_with_the_most_connections_without_a_request_makes_way",
        )],
    ),
    Mutant::new(
        "serve-login-is-token",
        "The login of a proxy is taken for the token",
        UNLOCK,
        "if let Some(token) = «headers.get(\"x-dlock-token\")» {",
        "headers.get(\"x-dlock-token\").filter(|_| false)",
        &[Test(
            WEB,
            "tests::unlocking::the_token_may_come_beside_the_login_of_a_proxy",
        )],
    ),
    Mutant::new(
        "serve-release-unattributed",
        "The history does not say who has ended a lease",
        VIEW,
        "by: hold.by.map(|by| «by.to_string()»),",
        "by[..0].to_owned()",
        &[Test(
            WEB,
            "tests::unlocking::a_forced_release_is_in_the_history",
        )],
    ),
];
