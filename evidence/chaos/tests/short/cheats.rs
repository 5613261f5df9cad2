//! Crowds that deceive themselves, and what finds them out.
//!
//! The program does not call a broken promise what it finds in such a crowd. Some of them have real locks: a test says the
//! words where these do not hold.

use super::{Report, run};

/// Some mistakes show only if somebody else is inside at the right moment.
const TRIES: usize = 10;

/// One fault, during which others come in, so that there is something to be found.
async fn of_cheats(cheat: &str) -> Report {
    of_cheats_over("single", cheat).await
}

async fn of_cheats_over(topology: &str, cheat: &str) -> Report {
    let words = [
        "--minutes",
        "0",
        "--topology",
        topology,
        "--kind",
        "holder-stopped",
        "--cheat",
        cheat,
    ];
    let report = run(&words).await.remove(0);
    assert_eq!(report.violations == 0, report.wrong.is_empty());
    report
}

#[tokio::test]
async fn a_crowd_without_locks_is_found_out() {
    let report = of_cheats("no-lock").await;
    assert!(report.overlaps > 0);
    assert!(
        report.wrong[0].starts_with("two at once"),
        "{}",
        report.wrong[0]
    );
}

/// Nobody may have been inside when a lock was deleted.
#[tokio::test]
async fn a_lock_that_anybody_deletes_is_found_out() {
    for _ in 0..TRIES {
        if of_cheats("blind-delete").await.overlaps > 0 {
            return;
        }
    }
    panic!("nothing was found in {TRIES} runs");
}

/// The mistake that was found above is the deletion and nothing else.
#[tokio::test]
async fn the_same_lock_that_only_its_owner_deletes_is_well() {
    let report = of_cheats("own-delete").await;
    assert_eq!(report.wrong, [""; 0]);
    report.assert_no_violation();
    assert!(report.sections >= 3 && report.exclusive == report.sections);
}

#[tokio::test]
async fn readers_without_a_lock_are_found_out() {
    assert!(of_cheats("readers-without-lock").await.overlaps > 0);
}

#[tokio::test]
async fn one_permit_too_many_is_found_out() {
    let report = of_cheats("one-permit-more").await;
    let first = report.wrong.first().map_or("nothing", String::as_str);
    assert!(first.starts_with("too many at once"), "{first}");
    report.assert_no_overlap();
    assert_eq!(report.shared, report.sections);
}

/// A stopped process may have had nothing more to write.
#[tokio::test]
async fn a_resource_that_does_not_look_at_tokens_is_found_out() {
    for _ in 0..TRIES {
        let report = of_cheats("no-fence").await;
        report.assert_no_overlap();
        assert_eq!(report.refused, 0);
        if let Some(first) = report.wrong.first() {
            assert!(first.starts_with("the resource went back"), "{first}");
            return;
        }
    }
    panic!("nothing was found in {TRIES} runs");
}

/// A stopped process may have been outside of a transaction.
#[tokio::test]
async fn transactions_that_do_not_check_their_lease_are_found_out() {
    for _ in 0..TRIES {
        let report = of_cheats_over("postgres", "no-fence").await;
        report.assert_no_overlap();
        let found = report.wrong.iter().find(|it| {
            let what = [
                "two transactions at once",
                "a transaction after one with a greater token",
                "the books do not balance",
            ];
            what.iter().any(|what| it.starts_with(what))
        });
        if found.is_some() {
            return;
        }
        assert_eq!(report.wrong, [""; 0]);
    }
    panic!("nothing was found in {TRIES} runs");
}

#[tokio::test]
async fn transactions_without_a_lock_are_found_out() {
    let report = of_cheats_over("postgres", "no-lock").await;
    assert!(report.overlaps > 0);
    let first = report.wrong.iter().find(|it| it.contains("transaction"));
    assert!(first.is_some(), "{:?}", report.wrong);
}

/// A dead process is inside nothing: it must not be taken for one that waits, and be killed once more.
///
/// Processes that are killed before they come to abort make room for others that do: the run goes on until
/// one of them has.
#[tokio::test]
async fn processes_that_end_by_themselves_are_found_out() {
    let words = [
        "--minutes",
        "5",
        "--topology",
        "single",
        "--kind",
        "waiter-killed",
        "--cheat",
        "panic",
    ];
    let report = run(&words).await.remove(0);
    let found = report
        .wrong
        .iter()
        .find(|it| it.contains(" by itself with "));
    let found = found.unwrap_or_else(|| panic!("{:?}", report.wrong));
    assert!(
        found.contains("SIGABRT") && found.contains("nobody looks"),
        "{found}"
    );
    report.assert_no_violation();
}
