//! The examples do what their output says, and detect the faults they are about.
#![cfg(feature = "redis")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use dlock_testkit::{RedisServer, Worker, eventually, example_path};

use crate::{document, root};

/// Much longer than any example takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

const WEBHOOKS: &str = include_str!("../../examples/orders/webhooks.csv");

/// The exit code, the standard output and the standard error of an example.
async fn run(name: &str, arguments: &[&str], url: Option<&str>) -> (i32, String, String) {
    let mut command = Command::new(example_path(name));
    // The environment of the tests may name another server.
    command.args(arguments).env_remove("DLOCK_URL");
    command.envs(url.map(|url| ("DLOCK_URL", url)));
    let example = Worker::spawn(&mut command);
    let status = example.wait(LIMIT).await;
    let code = status.code().expect("nobody kills an example");
    (code, example.stdout(), example.stderr())
}

/// Waits until the server contains only fences. A lock of a killed process ends with its TTL.
async fn only_fences_are_left(server: &RedisServer) {
    eventually(LIMIT, "no lock and no queue is left", async || {
        let keys = server.keys("*").await;
        !keys.is_empty() && keys.iter().all(|key| key.contains(":fence:"))
    })
    .await;
}

/// Runs `check` without a server and with one at the same time: both mostly wait.
async fn either_way(server: &RedisServer, check: impl AsyncFn(Option<&str>)) {
    let url = server.url();
    tokio::join!(check(None), check(Some(&url)));
}

/// The word after `label` on the first line that has it.
fn word_after<'a>(output: &'a str, label: &str) -> &'a str {
    let rest = output.split_once(label).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("no `{label}` in:\n{output}"))
        .trim_end_matches(',')
}

fn check_quickstart(output: &str) {
    let parts = output.split_once("with #[distributed_lock");
    let (unlocked, locked) = parts.expect("the second picture has a title");
    let parts = unlocked.split_once("without a lock");
    let (_, unlocked) = parts.expect("the first picture has a title");

    let rows = |picture: &str| -> Vec<String> {
        let rows = picture.lines().filter(|line| line.contains('█'));
        rows.map(ToOwned::to_owned).collect()
    };
    assert_eq!(rows(unlocked).len(), 6, "{output}");
    assert_eq!(rows(locked).len(), 6, "{output}");
    // On a machine that stands still one begins later than the others, in the column in which the first of them ends.
    let begins = |row: &String| row.matches('·').count();
    let ends = |row: &String| begins(row) + row.matches('█').count();
    let last_begin = rows(unlocked).iter().map(begins).max();
    let first_end = rows(unlocked).iter().map(ends).min();
    assert!(last_begin <= first_end, "all overlap:\n{output}");
    let waiting = rows(locked).iter().filter(|row| row.contains('·')).count();
    // The first waits as well when its server is slow to answer.
    assert!(waiting >= 5, "all but the first wait:\n{output}");

    assert!(unlocked.contains("5 of 6 updates lost"), "{output}");
    assert!(
        locked.contains("0 of 6 updates lost"),
        "broken promise: an update was lost:\n{output}"
    );
    assert!(
        output.contains("DLOCK_URL=redis://127.0.0.1:6379 cargo run --example quickstart"),
        "{output}"
    );
    assert!(output.lines().all(|line| line.chars().count() <= 100));
}

/// The archives of the packages compile it as the README has it: `cargo xtask package`.
#[tokio::test]
async fn the_first_program_of_the_readme_locks() {
    let block = document::at("README.md").blocks_in("rust").remove(0);
    let program = block.text.replace(
        "\"redis://127.0.0.1:6379\"",
        "&std::env::var(\"DLOCK_URL\")?",
    );
    let example = std::fs::read_to_string(root().join("examples/readme.rs")).unwrap();
    let (_, example) = example.split_once("\n\n").unwrap();
    // rustfmt breaks lines where the README does not.
    let words = |text: &str| {
        text.split_whitespace()
            .collect::<String>()
            .replace(",)", ")")
    };
    assert_eq!(words(example), words(&program));
    let server = RedisServer::start().await;
    let (code, output, errors) = run("readme", &[], Some(&server.url())).await;
    assert_eq!(code, 0, "{output}{errors}");
    let begin = "order 42 is locked, fencing token ";
    assert!(output.starts_with(begin), "{output}");
    let keys = server.keys("*").await;
    assert!(keys.iter().any(|key| key.contains(":fence:")), "{keys:?}");
}

#[tokio::test]
async fn quickstart_shows_lost_updates_and_their_absence() {
    let (code, output, errors) = run("quickstart", &[], None).await;
    assert_eq!(code, 0, "{output}{errors}");
    check_quickstart(&output);
}

#[tokio::test]
async fn quickstart_uses_the_server_it_is_given() {
    let server = RedisServer::start().await;
    let (code, output, errors) = run("quickstart", &[], Some(&server.url())).await;
    assert_eq!(code, 0, "{output}{errors}");
    check_quickstart(&output);
    only_fences_are_left(&server).await;
}

#[tokio::test]
async fn quickstart_does_not_fall_back_when_the_server_is_away() {
    let server = RedisServer::start().await;
    server.kill();
    let (code, output, errors) = run("quickstart", &[], Some(&server.url())).await;
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("cannot use the store"), "{errors}");
}

#[tokio::test]
async fn transfers_in_both_directions_lose_no_money() {
    let (code, output, errors) = run("transfer", &[], None).await;
    is_kept(&output, "WRONG: ");
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.contains("320 transfers"), "{output}");
    assert_eq!(word_after(&output, "  sum "), "4000.00", "{output}");
    assert!(output.contains("the sum has not changed"), "{output}");
}

#[tokio::test]
async fn transfers_of_several_processes_lose_no_money() {
    let server = RedisServer::start().await;
    let arguments = ["--processes", "3"];
    let (code, output, errors) = run("transfer", &arguments, Some(&server.url())).await;
    is_kept(&output, "WRONG: ");
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.contains("960 transfers"), "{output}");
    assert_eq!(word_after(&output, "  sum "), "4000.00", "{output}");
    only_fences_are_left(&server).await;
}

#[tokio::test]
async fn transfer_notices_what_happens_without_locks() {
    for arguments in [
        &["--without-lock"][..],
        &["--without-lock", "--processes", "2"],
    ] {
        let (code, output, errors) = run("transfer", arguments, None).await;
        assert_eq!(code, 1, "{output}{errors}");
        assert_ne!(word_after(&output, "  sum "), "4000.00", "{output}");
        assert!(output.contains("WRONG: "), "{output}");
    }
}

#[tokio::test]
async fn transfer_asks_for_a_server_where_several_processes_meet() {
    for url in [None, Some("memory://")] {
        let (code, output, errors) = run("transfer", &["--processes", "2"], url).await;
        assert_eq!((code, output.as_str()), (2, ""), "{url:?}: {errors}");
        assert!(errors.contains("DLOCK_URL=redis://"), "{url:?}: {errors}");
    }
}

/// Asserts that a program has not said this, by which it tells of locks that have not held.
#[track_caller]
fn is_kept(output: &str, broken: &str) {
    assert!(!output.contains(broken), "broken promise: {output}");
}

/// The replica or candidate of each line that contains `what`.
fn who_says(output: &str, what: &str) -> Vec<u32> {
    let lines = output.lines().filter_map(|line| line.split_once(what));
    let who = lines.map(|(before, _)| before.split_whitespace().last().expect("it has a number"));
    who.map(|who| who.parse().expect("it is a number"))
        .collect()
}

/// The numbers that stand behind `label`, in the order of the lines.
fn numbers_after(output: &str, label: &str) -> Vec<i64> {
    let lines = output.lines().filter_map(|line| line.split_once(label));
    lines
        .map(|(_, number)| number.parse().expect("it is a number"))
        .collect()
}

#[tokio::test]
async fn the_cron_job_runs_on_one_replica_and_late_replicas_skip_it() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("cron", &[], url).await;
        is_kept(&output, "WRONG: the invoices");
        assert_eq!(code, 0, "{output}{errors}");
        assert_eq!(who_says(&output, "  runs the job").len(), 1, "{output}");
        assert_eq!(who_says(&output, "  skips the job").len(), 2, "{output}");
        assert!(
            output.contains("the invoices were sent exactly once"),
            "{output}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_cron_job_of_a_killed_replica_is_done_by_another() {
    let server = RedisServer::start().await;
    let (code, output, errors) = run("cron", &["--kill"], Some(&server.url())).await;
    is_kept(&output, "WRONG: the invoices");
    assert_eq!(code, 0, "{output}{errors}");
    let killed = who_says(&output, "  was killed during the job");
    let began = who_says(&output, "  runs the job");
    assert_eq!((killed.len(), began.len()), (1, 2), "{output}");
    assert_eq!(began[0], killed[0], "{output}");
    let sent = who_says(&output, "  sent the invoices");
    assert_eq!(sent, began[1..], "{output}");
    let tokens = numbers_after(&output, "runs the job, token ");
    assert!(
        tokens[0] < tokens[1],
        "broken promise: the token did not grow: {output}"
    );
}

#[tokio::test]
async fn cron_notices_what_happens_without_min_hold() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let arguments = ["--without-min-hold"];
        let (code, output, errors) = run("cron", &arguments, url).await;
        assert_eq!(code, 1, "{output}{errors}");
        let sent = word_after(&output, "WRONG: the invoices were sent ");
        assert!(sent.parse::<u32>().unwrap() > 1, "{output}");
    })
    .await;
}

#[tokio::test]
async fn cron_asks_for_a_server_to_kill_a_replica() {
    for url in [None, Some("memory://")] {
        let (code, output, errors) = run("cron", &["--kill"], url).await;
        assert_eq!((code, output.as_str()), (2, ""), "{url:?}: {errors}");
        assert!(errors.contains("DLOCK_URL=redis://"), "{url:?}: {errors}");
    }
}

#[tokio::test]
async fn one_copy_imports_and_the_others_find_it_done() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("import", &[], url).await;
        assert_eq!(code, 0, "{output}{errors}");
        assert_eq!(
            output.matches(" imported 25 rows, token ").count(),
            1,
            "{output}"
        );
        assert_eq!(output.matches(" skipped: ").count(), 2, "{output}");
        assert!(
            output.contains("25 rows, 0 of them duplicated"),
            "broken promise: rows were imported twice:\n{output}"
        );
        // A program releases its lock before it ends.
        if url.is_some() {
            only_fences_are_left(&server).await;
        }
    })
    .await;
}

#[tokio::test]
async fn import_notices_what_happens_without_the_lock() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("import", &["--without-lock"], url).await;
        assert_eq!(code, 1, "{output}{errors}");
        assert!(
            output.contains("25 rows, 25 of them duplicated"),
            "{output}"
        );
    })
    .await;
}

#[tokio::test]
async fn readers_of_the_catalog_share_the_lock_and_its_writer_holds_it_alone() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("catalog", &["--readers", "5"], url).await;
        for label in [
            "overlaps of the writer with a reader: ",
            "reads of a half-written catalog: ",
            "tokens out of order: ",
        ] {
            assert!(output.contains(label), "{code}: {output}{errors}");
            let count = word_after(&output, label);
            assert_eq!(count, "0", "broken promise: {label}{count}\n{output}");
        }
        assert_eq!(code, 0, "{output}{errors}");
        let rows = |visitor: &str| {
            let rows = output.lines().filter(|line| line.contains(visitor));
            rows.filter(|line| line.contains(['▒', '█'])).count()
        };
        assert_eq!((rows("  reader "), rows("  writer ")), (5, 1), "{output}");
        let count = |label| word_after(&output, label).parse::<usize>().unwrap();
        assert!(count("most readers at the same time: ") >= 2, "{output}");
        assert!(count("writes: ") >= 1, "{output}");
        assert!(output.contains("longest wait of the writer: "), "{output}");
        assert!(!output.contains('\x1b'), "plain in a pipe:\n{output}");
        if url.is_some() {
            assert!(output.contains("1 writer as processes"), "{output}");
            only_fences_are_left(&server).await;
        }
    })
    .await;
}

#[tokio::test]
async fn catalog_notices_what_happens_without_the_lock() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("catalog", &["--without-lock"], url).await;
        assert_eq!(code, 1, "{output}{errors}");
        let overlaps = word_after(&output, "overlaps of the writer with a reader: ");
        assert_ne!(overlaps, "0", "{output}");
        assert!(output.contains("WRONG: "), "{output}");
    })
    .await;
}

#[tokio::test]
async fn there_is_one_leader_in_each_term() {
    one_leader_in_each_term("stop", 0).await;
}

#[tokio::test]
async fn there_is_one_leader_in_each_term_although_the_last_one_finishes_its_work() {
    one_leader_in_each_term("finish", 1).await;
}

/// Only the leader that was paused finishes its work after the loss.
async fn one_leader_in_each_term(on_lost: &str, finishing: usize) {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let arguments = ["--on-lost", on_lost];
        let (code, output, errors) = run("leader", &arguments, url).await;
        is_kept(&output, "leads at the same time");
        assert_eq!(code, 0, "{output}{errors}");
        assert!(output.contains("5 terms with one leader each"));
        let terms = numbers_after(&output, "leads, term ");
        assert!(terms.len() == 5 && terms.is_sorted(), "{output}");

        let leaders = who_says(&output, "  leads, term ");
        assert_eq!(who_says(&output, "  is killed"), leaders[1..2], "{output}");
        assert!(!leaders[2..].contains(&leaders[1]), "{output}");
        let stalled = &leaders[2..3];
        assert_eq!(who_says(&output, "  is paused"), stalled, "{output}");
        let refused = who_says(&output, "  is refused by the board");
        assert_eq!(refused, stalled, "{output}");
        assert_eq!(who_says(&output, "  stopped leading"), stalled, "{output}");
        assert_eq!(leaders[4..], *stalled, "it comes back:\n{output}");
        let told = who_says(&output, "  finishes its work");
        assert_eq!(told.len(), finishing, "{output}");
    })
    .await;
    only_fences_are_left(&server).await;
}

#[tokio::test]
async fn leader_notices_what_happens_without_locks() {
    let server = RedisServer::start().await;
    either_way(&server, async |url| {
        let (code, output, errors) = run("leader", &["--without-lock"], url).await;
        assert_eq!(code, 1, "{output}{errors}");
        assert!(output.contains("leads at the same time"), "{output}");
        assert!(output.contains("WRONG: candidates "), "{output}");
    })
    .await;
}

#[tokio::test]
async fn replicas_and_candidates_do_not_start_when_the_server_is_away() {
    let server = RedisServer::start().await;
    server.kill();
    let url = server.url();
    let does_not_start = async |name| {
        let (code, output, errors) = run(name, &[], Some(&url)).await;
        assert_eq!((code, output.as_str()), (1, ""), "{errors}");
        assert!(errors.contains("cannot use the store"), "{errors}");
    };
    tokio::join!(
        does_not_start("cron"),
        does_not_start("leader"),
        does_not_start("import"),
        does_not_start("catalog")
    );
}

/// The table of the example, from its input.
fn totals() -> BTreeMap<String, u64> {
    let distinct: BTreeSet<&str> = WEBHOOKS.lines().skip(1).collect();
    let mut totals = BTreeMap::new();
    for line in distinct {
        let [_, merchant, cents] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("`{line}` has not three fields");
        };
        let cents: u64 = cents.parse().expect("the amount is a number");
        *totals.entry(merchant.to_owned()).or_default() += cents;
    }
    totals
}

#[tokio::test]
async fn orders_are_settled_once_although_a_worker_is_killed() {
    let server = RedisServer::start().await;
    let arguments = ["--processes", "4"];
    let (code, output, errors) = run("orders", &arguments, Some(&server.url())).await;
    is_kept(&output, "settled more than once");
    assert_eq!(code, 0, "{output}{errors}");

    for (merchant, cents) in totals() {
        let row = output.lines().find(|line| line.starts_with(&merchant));
        let row = row.unwrap_or_else(|| panic!("no `{merchant}` in:\n{output}"));
        let amount = format!("{}.{:02}", cents / 100, cents % 100);
        let columns: Vec<_> = row.split_whitespace().collect();
        assert_eq!(columns, [&merchant, &amount, &amount], "{output}");
    }
    let orders: BTreeSet<_> = WEBHOOKS.lines().skip(1).collect();
    let all = format!("all {} orders settled exactly once", orders.len());
    assert!(output.contains(&all), "{output}");

    assert_eq!(word_after(&output, "take-overs:"), "1", "{output}");
    let killed = word_after(&output, "in the critical section of ");
    assert!(output.contains(&format!("took {killed} over")), "{output}");
    // Three workers have processed the whole file.
    let sections = 3 * WEBHOOKS.lines().skip(1).count();
    assert_eq!(
        word_after(&output, "critical sections: "),
        sections.to_string()
    );
    assert_eq!(word_after(&output, "errors: "), "0", "{output}{errors}");
    assert_eq!(word_after(&output, "not released: "), "0", "{output}");
    assert!(output.contains("waits for a lock: median"), "{output}");

    only_fences_are_left(&server).await;
}

#[tokio::test]
async fn orders_notices_what_happens_without_locks() {
    let (code, output, errors) = run("orders", &["--without-lock"], None).await;
    assert_eq!(code, 1, "{output}{errors}");
    let orders: usize = word_after(&output, "WRONG: ").parse().unwrap();
    assert!(orders > 0, "{output}");
    assert!(
        output.contains("orders settled more than once: ord-"),
        "{output}"
    );
    assert!(!output.contains("exactly once"), "{output}");
}

#[tokio::test]
async fn orders_fails_if_no_worker_was_killed() {
    let server = RedisServer::start().await;
    let mut input = tempfile::NamedTempFile::new().unwrap();
    writeln!(input, "order,merchant,amount_cents").unwrap();
    let arguments = ["--input", input.path().to_str().unwrap()];
    let (code, output, errors) = run("orders", &arguments, Some(&server.url())).await;
    assert_eq!(code, 1, "{output}{errors}");
    assert_eq!(word_after(&output, "take-overs:"), "0", "{output}");
    assert!(output.contains("WRONG: no worker was killed"), "{output}");
}

#[tokio::test]
async fn orders_refuses_an_input_that_contradicts_itself() {
    let mut input = tempfile::NamedTempFile::new().unwrap();
    write!(
        input,
        "order,merchant,amount_cents\no-1,shop,100\no-1,shop,200\n"
    )
    .unwrap();
    let arguments = ["--without-lock", "--input", input.path().to_str().unwrap()];
    let (code, output, errors) = run("orders", &arguments, None).await;
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(
        errors.contains("line 3: an earlier line has other values for this order"),
        "{errors}"
    );
}

#[tokio::test]
async fn orders_asks_for_a_server() {
    for url in [None, Some(""), Some("memory://")] {
        let (code, output, errors) = run("orders", &[], url).await;
        assert_eq!((code, output.as_str()), (2, ""), "{url:?}: {errors}");
        assert!(errors.contains("DLOCK_URL=redis://"), "{url:?}: {errors}");
    }
}

#[tokio::test]
async fn orders_needs_a_second_process_to_take_over() {
    let (code, output, errors) = run("orders", &["--processes", "1"], None).await;
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("--no-kill"), "{errors}");
}
