//! Mistakes in what `dlock ls` and `dlock top` show, and in what all views say without locks.

use super::super::look::Look::Test;
use super::super::look::{COMMAND, TYPED, WEB};
use super::super::mutant::Mutant;

const BOARD: &str = "dlock-cli/src/commands/top/board.rs";
const DETAILS: &str = "dlock-cli/src/commands/top/view/details.rs";
const GLOBAL: &str = "dlock-cli/src/global.rs";
const INSPECT: &str = "dlock-runtime/src/store/redis/admin/inspect.rs";
const LS: &str = "dlock-cli/src/commands/ls.rs";
const MODEL: &str = "dlock-cli/src/commands/top/model.rs";
const OPERATOR: &str = "dlock-cli/src/operator.rs";
const PAGES: &str = "dlock-cli/src/pages.rs";
const QUERY: &str = "dlock-admin-web/src/query.rs";
const ROWS: &str = "dlock-cli/src/commands/ls/table.rs";
const SCREEN: &str = "dlock-cli/src/commands/top/screen.rs";
const TABLE: &str = "dlock-cli/src/commands/top/view/table.rs";
const TEXT: &str = "dlock-cli/src/text.rs";
const UNLOCK: &str = "dlock-cli/src/commands/unlock.rs";

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
            WEB,
            "tests::lists::filters_find_keys_holders_and_functions_in_any_case",
        )],
    ),
    Mutant::new(
        "operators-held-shorter",
        "The list of locks that are held for long has the others",
        LS,
        "times.any(|held| «held > limit»)",
        "held < limit",
        &[Test(
            TYPED,
            "reads::locks_that_are_held_for_long_or_have_many_waiters_are_listed",
        )],
    ),
    Mutant::new(
        "operators-waiters-more",
        "A lock with just so many waiters is not listed",
        LS,
        ".is_none_or(|least| «lock.waiter_count >= least»)",
        "lock.waiter_count > least",
        &[Test(
            TYPED,
            "reads::locks_that_are_held_for_long_or_have_many_waiters_are_listed",
        )],
    ),
    Mutant::new(
        "operators-ls-wide",
        "One long key makes each row wider than the terminal",
        ROWS,
        "if let Some(limits) = «self.cut()» {",
        "None",
        &[Test(
            COMMAND,
            "commands::ls::table::tests::rows_fit_in_the_terminal_with_both_ends_of_keys_and_holders",
        )],
    ),
    Mutant::new(
        "operators-ls-cut-in-a-pipe",
        "A program that reads the list gets parts of keys",
        LS,
        "Columns::new(is_colored, «output::columns()»)",
        "Some(80)",
        &[Test(
            TYPED,
            "reads::a_terminal_has_a_line_for_each_lock_and_a_pipe_whole_texts",
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
        "operators-suspend-ignored",
        "Ctrl-Z does nothing in `dlock top`",
        MODEL,
        "KeyCode::Char('z') => «Step::Suspend»,",
        "Step::Go",
        &[Test(
            TYPED,
            "top::control_z_gives_the_terminal_to_the_shell_until_it_is_continued",
        )],
    ),
    Mutant::new(
        "operators-suspended-raw",
        "A shell gets a terminal that echoes nothing",
        SCREEN,
        "self.0.show_cursor()?; «ratatui::try_restore()?;»",
        "",
        &[Test(
            TYPED,
            "top::control_z_gives_the_terminal_to_the_shell_until_it_is_continued",
        )],
    ),
    Mutant::new(
        "operators-not-drawn-again",
        "The screen has only changes after others have had the terminal",
        SCREEN,
        "«self.0.swap_buffers();»",
        "",
        &[Test(
            TYPED,
            "top::a_screen_is_drawn_again_after_the_program_was_stopped_from_outside",
        )],
    ),
    Mutant::new(
        "operators-stop-unnoticed",
        "A stop from outside is not noticed",
        SCREEN,
        "() = continued.next() => { «screen.take_back()?;»",
        "",
        &[Test(
            TYPED,
            "top::a_screen_is_drawn_again_after_the_program_was_stopped_from_outside",
        )],
    ),
    Mutant::new(
        "operators-unlock-unrecorded",
        "A forced release leaves no record",
        UNLOCK,
        "«log(&args.key, &wanted, Ok(outcome));»",
        "",
        &[Test(
            TYPED,
            "unlock::a_release_leaves_a_record_of_who_did_it",
        )],
    ),
    Mutant::new(
        "operators-failure-unrecorded",
        "A forced release that may have been carried out leaves no record",
        UNLOCK,
        "«log(&args.key, &wanted, Err(&error));»",
        "",
        &[Test(
            TYPED,
            "unlock::a_release_that_fails_is_recorded_with_the_reason",
        )],
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
];
