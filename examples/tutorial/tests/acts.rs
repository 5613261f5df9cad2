//! The tutorial is true: its pages have these programs, which do what the pages show.

use std::{path::Path, process::Command, time::Duration};

use dlock_testkit::{RedisServer, Worker};

/// Much longer than any of it takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_mins(3);

const FIRST_LOCK: &str = include_str!("../../../docs/book/src/tutorial/first-lock.md");
const CRASH: &str = include_str!("../../../docs/book/src/tutorial/crash.md");
const COLUMN: &str = include_str!("../../../docs/book/src/tutorial/fencing-column.md");

const SETTLE: &str = env!("CARGO_BIN_EXE_settle");
const FENCED: &str = env!("CARGO_BIN_EXE_fenced");

/// A program that works for so many seconds, in this folder.
fn start(program: &str, server: &RedisServer, seconds: u32, folder: &Path) -> Worker {
    let mut command = Command::new(program);
    command.arg(seconds.to_string()).current_dir(folder);
    Worker::spawn(command.env("DLOCK_URL", server.url()))
}

/// The token with which it settles the order.
async fn token(worker: &Worker) -> u64 {
    let line = worker.line("order 42: settling with token", LIMIT).await;
    let token = line.rsplit(' ').next().expect("it has words");
    token.parse().expect("a token is a number")
}

/// The first block in a language on a page.
fn block_on<'page>(page: &'page str, language: &str) -> &'page str {
    let begin = format!("```{language}");
    let (_, rest) = page.split_once(&begin).expect("the page has the block");
    let (_, rest) = rest.split_once('\n').expect("the block has lines");
    rest.split_once("```").expect("the block ends").0
}

/// The lines of an output without commands, and without tokens, which differ in each run.
fn lines(output: &str) -> Vec<&str> {
    let lines = output.lines().filter(|line| !line.starts_with("$ "));
    lines
        .map(|line| line.split_once(" token ").map_or(line, |(text, _)| text))
        .collect()
}

/// A program without its head, which no reader types.
fn without_head(program: &str) -> &str {
    program.split_once("\n\n").expect("it has a head").1
}

#[test]
fn the_pages_have_these_programs() {
    let settle = include_str!("../src/bin/settle.rs");
    assert_eq!(block_on(FIRST_LOCK, "rust"), without_head(settle));
    let fenced = include_str!("../src/bin/fenced.rs");
    assert_eq!(block_on(COLUMN, "rust"), without_head(fenced));
}

#[tokio::test]
async fn two_processes_take_turns() {
    let server = RedisServer::start().await;
    let first = start(SETTLE, &server, 1, Path::new("."));
    let earlier = token(&first).await;
    let second = start(SETTLE, &server, 0, Path::new("."));
    second.line("order 42: waiting for the lock", LIMIT).await;
    assert!(
        token(&second).await > earlier,
        "broken promise: the token did not grow"
    );
    assert!(first.wait(LIMIT).await.success(), "{}", first.stderr());
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
    let shown = lines(block_on(FIRST_LOCK, "text"));
    assert_eq!(lines(&first.stdout()), shown);
    assert_eq!(lines(&second.stdout()), shown);
}

#[tokio::test]
async fn the_second_process_begins_after_the_first_has_settled() {
    let server = RedisServer::start().await;
    // Both write to one pipe, so the order of the lines is the order of the writes.
    let mut command = Command::new("sh");
    command.args(["-c", r#""$0" 1 & "$0" 1 & wait"#, SETTLE]);
    let both = Worker::spawn(command.env("DLOCK_URL", server.url()));
    assert!(both.wait(LIMIT).await.success(), "{}", both.stderr());
    let output = both.stdout();
    let mut lines = lines(&output);
    lines.retain(|line| !line.contains("waiting"));
    let one = ["order 42: settling with", "order 42: settled"];
    assert_eq!(lines, [one, one].concat(), "{output}");
}

#[tokio::test]
async fn after_a_crash_the_next_one_gets_the_lock() {
    let server = RedisServer::start().await;
    let first = start(SETTLE, &server, 3600, Path::new("."));
    let earlier = token(&first).await;
    let second = start(SETTLE, &server, 0, Path::new("."));
    second.line("order 42: waiting for the lock", LIMIT).await;
    first.kill();
    assert!(
        token(&second).await > earlier,
        "broken promise: the token did not grow"
    );
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
    assert_eq!(lines(&second.stdout()), lines(block_on(CRASH, "text")));
    assert!(!first.stdout().contains("settled"));
}

#[tokio::test]
async fn the_database_refuses_the_paused_one() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let first = start(FENCED, &server, 10, folder.path());
    let earlier = token(&first).await;
    first.pause();
    let second = start(FENCED, &server, 0, folder.path());
    assert!(
        token(&second).await > earlier,
        "broken promise: the token did not grow"
    );
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
    assert_eq!(lines(&second.stdout()), lines(block_on(COLUMN, "console")));
    first.resume();
    assert!(first.wait(LIMIT).await.success(), "{}", first.stderr());
    assert_eq!(lines(&first.stdout()), lines(block_on(COLUMN, "text")));
}
