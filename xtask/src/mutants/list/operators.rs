//! Mistakes in what `dlock ls` and `dlock top` show, and in what all views say without locks.

use super::super::look::Look::Test;
use super::super::look::{COMMAND, RUNTIME, TYPED};
use super::super::mutant::Mutant;

const BOARD: &str = "dlock-cli/src/commands/top/board.rs";
const DETAILS: &str = "dlock-cli/src/commands/top/view/details.rs";
const GLOBAL: &str = "dlock-cli/src/global.rs";
const INSPECT: &str = "dlock-runtime/src/store/redis/admin/inspect.rs";
const LS: &str = "dlock-cli/src/commands/ls.rs";
const MODEL: &str = "dlock-cli/src/commands/top/model.rs";
const PAGES: &str = "dlock-cli/src/pages.rs";
const QUERY: &str = "dlock-runtime/src/admin/web/query.rs";
const SOURCE: &str = "dlock-cli/src/source.rs";
const TABLE: &str = "dlock-cli/src/commands/top/view/table.rs";
const TOP: &str = "dlock-cli/src/commands/top/source.rs";

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
        "operators-namespace-of-option",
        "A list without locks names the namespace of the option, and the URL names another",
        SOURCE,
        "let named = named.filter(|it| «!it.is_empty()»);",
        "it.is_empty()",
        &[Test(COMMAND, "source::tests::a_url_can_name_the_namespace")],
    ),
    Mutant::new(
        "operators-listed-twice",
        "A lock that a store lists twice is shown twice",
        PAGES,
        "if «self.keys.insert(lock.key.as_str().into())» {",
        "self.keys.insert(lock.key.as_str().into()) || !self.keys.is_empty()",
        &[Test(
            COMMAND,
            "pages::tests::a_full_page_is_passed_on_before_the_listing_ends_and_each_lock_once",
        )],
    ),
    Mutant::new(
        "operators-page-waits",
        "A page is not shown before it is full",
        PAGES,
        "self.page.len() >= FULL || «self.passed.elapsed() >= SOON»",
        "false",
        &[Test(
            COMMAND,
            "pages::tests::a_page_that_is_not_full_is_passed_on_after_a_while",
        )],
    ),
    Mutant::new(
        "operators-page-lost",
        "What was read before an outage is not shown",
        PAGES,
        "shown too. «pages.pass()?;»",
        "",
        &[Test(
            COMMAND,
            "pages::tests::the_locks_before_an_outage_are_passed_on",
        )],
    ),
    Mutant::new(
        "operators-waiter-of-any",
        "The list of what a process waits for has what it holds",
        LS,
        "«args.waiter.as_ref().is_none_or(is_awaited)»",
        "args.waiter.as_ref().is_none_or(|it| is_held(it) || is_awaited(it))",
        &[Test(
            TYPED,
            "reads::what_a_process_waits_for_and_holds_is_listed",
        )],
    ),
    Mutant::new(
        "operators-parts-unnamed",
        "Locks that are passed on in parts have no names of processes",
        INSPECT,
        "«self.name(&mut found, &mut named).await»;",
        "named.clear()",
        &[Test(
            TYPED,
            "reads::what_a_process_waits_for_and_holds_is_listed",
        )],
    ),
    Mutant::new(
        "operators-first-scan-hidden",
        "`dlock top` shows no lock before the first scan has ended",
        TOP,
        "«self.show(board).await;»",
        "",
        &[Test(
            TYPED,
            "top::many_locks_are_shown_before_the_first_scan_has_ended",
        )],
    ),
    Mutant::new(
        "operators-free-stays",
        "A lock that the last scan has not shown stays on the screen",
        BOARD,
        ".filter(|it| «it.scan < scan»)",
        "it.scan < scan && it.lock.is_none()",
        &[Test(
            COMMAND,
            "commands::top::board::tests::a_part_of_the_first_scan_is_shown_at_once_and_a_later_scan_takes_nothing_away_before_its_end",
        )],
    ),
    Mutant::new(
        "operators-reads-all-again",
        "Thousands of locks are read again while a scan reads them",
        BOARD,
        "if «self.follows()» {",
        "!self.known.is_empty()",
        &[Test(
            COMMAND,
            "commands::top::board::tests::between_two_scans_known_locks_are_read_if_they_are_few_and_always_those_with_a_grant",
        )],
    ),
    Mutant::new(
        "operators-holder-cut",
        "The end of a long holder is cut, which has its host and process id",
        TABLE,
        "Some(it) => (fit(&it.name, width, «Elide::Middle»), plain),",
        "Elide::End",
        &[Test(
            COMMAND,
            "commands::top::view::tests::a_usual_terminal_shows_both_ends_of_long_names",
        )],
    ),
    Mutant::new(
        "operators-details-cut",
        "The details cut a long name",
        DETAILS,
        "for part in «wrapped(&value, width.saturating_sub(NAMES))» {",
        "vec![fit(&value, width.saturating_sub(NAMES), Elide::End)]",
        &[Test(
            COMMAND,
            "commands::top::view::tests::a_usual_terminal_shows_whole_names_in_the_details",
        )],
    ),
    Mutant::new(
        "operators-top-waiters-unfound",
        "The filter of `dlock top` does not find what a process waits for",
        MODEL,
        "let of_waiters = «lock.waiters.iter()».map(",
        "lock.waiters[..0].iter()",
        &[Test(
            COMMAND,
            "commands::top::model::tests::a_filter_matches_keys_holders_waiters_and_functions",
        )],
    ),
    Mutant::new(
        "operators-page-waiters-unfound",
        "The page does not find what a process waits for",
        QUERY,
        "let of_waiters = || «lock.waiters().map(Waiter::text).any(matches)»;",
        "lock.waiters().count() == usize::MAX",
        &[Test(
            RUNTIME,
            "admin::web::tests::lists::filters_find_keys_holders_and_functions_in_any_case",
        )],
    ),
];
