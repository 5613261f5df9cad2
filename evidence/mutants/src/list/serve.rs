//! Mistakes in the page of `dlock serve`.

use super::super::look::Look::{self, Test};
use super::super::look::{COMMAND, WEB};
use super::super::mutant::Mutant;

const DESK: &str = "dlock-admin-web/src/desk.rs";
const PLACES: &str = "dlock-cli/src/commands/serve/server/places.rs";
const PROTECT: &str = "dlock-admin-web/src/protect.rs";
const TOKEN: &str = "dlock-admin-web/src/token.rs";
const UNLOCK: &str = "dlock-admin-web/src/unlock.rs";

const WITHOUT_BROWSER: &[Look] = &[Test(
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

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "serve-old-picture",
        "A browser is shown a picture from before the last browser left",
        DESK,
        "«shown.state = DeskState::Reading(None); shown.picture = None;»",
        "",
        WITHOUT_BROWSER,
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
        "found.filter(|it| «view::token(it.fence) == self.token»)",
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
        "dlock-admin/src/view.rs",
        "handle: holder.owner.map(|owner| «owner.handle().to_string()»),",
        "owner.to_string()",
        &[Test(
            WEB,
            "tests::documents::a_lock_has_its_holders_and_its_queue",
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
        "serve-no-token-is-a-guess",
        "A request without a token counts as a guess",
        UNLOCK,
        "else { «»// It guesses nothing.",
        "token.compare(\"\", client.address);",
        GUESSES,
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
];
