//! The tutorial is true: its pages have these programs, which do what the pages show.

use std::{path::Path, process::Command, time::Duration};

use dlock_testkit::{RedisServer, Worker};

/// Much longer than any of it takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_mins(3);

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

/// The first block of Rust on a page.
fn program_on(page: &str) -> &str {
    let (_, rest) = page.split_once("```rust").expect("the page has a program");
    let (_, rest) = rest.split_once('\n').expect("the block has lines");
    rest.split_once("```").expect("the block ends").0
}

/// A program without its head, which no reader types.
fn without_head(program: &str) -> &str {
    program.split_once("\n\n").expect("it has a head").1
}

#[test]
fn the_pages_have_these_programs() {
    let first = include_str!("../../../docs/book/src/tutorial/first-lock.md");
    let settle = include_str!("../src/bin/settle.rs");
    assert_eq!(program_on(first), without_head(settle));
    let column = include_str!("../../../docs/book/src/tutorial/fencing-column.md");
    let fenced = include_str!("../src/bin/fenced.rs");
    assert_eq!(program_on(column), without_head(fenced));
}

#[tokio::test]
async fn two_processes_take_turns() {
    let server = RedisServer::start().await;
    let first = start(SETTLE, &server, 1, Path::new("."));
    let earlier = token(&first).await;
    let second = start(SETTLE, &server, 0, Path::new("."));
    second.line("order 42: waiting for the lock", LIMIT).await;
    assert!(token(&second).await > earlier);
    // It had the lock, so the first one has released it.
    assert!(first.wait(LIMIT).await.success(), "{}", first.stderr());
    assert!(first.stdout().ends_with("order 42: settled\n"));
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
    assert!(second.stdout().ends_with("order 42: settled\n"));
}

#[tokio::test]
async fn after_a_crash_the_next_one_gets_the_lock() {
    let server = RedisServer::start().await;
    let first = start(SETTLE, &server, 3600, Path::new("."));
    let earlier = token(&first).await;
    let second = start(SETTLE, &server, 0, Path::new("."));
    second.line("order 42: waiting for the lock", LIMIT).await;
    first.kill();
    assert!(token(&second).await > earlier);
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
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
    assert!(token(&second).await > earlier);
    assert!(second.wait(LIMIT).await.success(), "{}", second.stderr());
    assert!(second.stdout().ends_with("order 42: settled\n"));
    first.resume();
    assert!(first.wait(LIMIT).await.success(), "{}", first.stderr());
    let last = "order 42: refused, a later holder has written\n";
    assert!(first.stdout().ends_with(last), "{}", first.stdout());
}
