//! The books balance with the fence and not without it, and nothing is left of either.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dlock_testkit::{PostgresServer, Worker};

/// Much longer than a run takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    // The environment of the tests may name another server.
    command.args(arguments).env_remove("DATABASE_URL");
    command
}

/// The exit code, the standard output and the standard error of the program.
async fn run(command: &mut Command) -> (i32, String, String) {
    let program = Worker::spawn(command);
    let status = program.wait(LIMIT).await;
    let code = status.code().expect("it is not killed");
    (code, program.stdout(), program.stderr())
}

/// The schemas that the program has made and not removed.
async fn left_in(server: &PostgresServer) -> i64 {
    let client = server.client("postgres").await;
    let statement = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'ledger%'";
    let row = client.query_one(statement, &[]).await;
    row.expect("the statement is right").get(0)
}

/// The lines of a process, without their times.
fn lines<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    let lines = output.lines().filter_map(|line| line.split_once(" s  "));
    let by_name = lines.filter_map(|(_, line)| line.trim_start().strip_prefix(name));
    by_name.map(str::trim_start).collect()
}

/// The balance of an account, and the one that follows from its entries.
fn balances(output: &str) -> Vec<(&str, &str)> {
    let lines = output.lines().filter(|line| line.starts_with("account "));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (words[2], words[3])).collect()
}

#[tokio::test]
async fn with_the_fence_the_books_balance() {
    let server = PostgresServer::start().await;
    let (code, output, errors) = run(program(&[]).env("DATABASE_URL", server.url())).await;
    assert!(
        !output.contains("WRONG: "),
        "broken promise: the books do not balance: {output}"
    );
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.ends_with("the books balance\n"), "{output}");
    assert!(
        output.contains("42 transfers, 1 refused by the fence"),
        "{output}"
    );
    let right = [
        ("930.00", "930.00"),
        ("1030.00", "1030.00"),
        ("1040.00", "1040.00"),
    ];
    assert_eq!(balances(&output), right, "{output}");

    let late = lines(&output, "late");
    let at = |text: &str| {
        let found = late.iter().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no `{text}` in:\n{output}"))
    };
    assert!(at("has read 1000.00 and 1000.00, and pauses") < at("is refused: "));
    assert!(at("is refused: ") < at("has read 965.00 and 1015.00, has fenced, and pauses"));
    assert!(at("has fenced") < at("the others wait for its transaction"));
    assert_eq!(left_in(&server).await, 0);
}

#[tokio::test]
async fn without_the_fence_they_do_not() {
    let server = PostgresServer::start().await;
    let mut command = program(&["--without-fence"]);
    let (code, output, errors) = run(command.env("DATABASE_URL", server.url())).await;
    assert_eq!(code, 1, "{output}{errors}");
    assert!(
        output.contains("42 transfers without the fence"),
        "{output}"
    );
    let wrong = "WRONG: the balances add up to 3040.00 instead of 3000.00; 2 accounts do not agree \
                 with their entries, 4 entries do not follow from the entry before";
    assert!(output.contains(wrong), "{output}");
    let balances = balances(&output);
    assert_eq!(balances[0], ("950.00", "930.00"), "{output}");
    assert_eq!(balances[2], ("1040.00", "1040.00"), "{output}");
    assert_eq!(left_in(&server).await, 0);
}

#[tokio::test]
async fn it_starts_a_server_of_its_own_and_removes_it() {
    let (code, output, errors) = run(&mut program(&[])).await;
    assert!(
        !output.contains("WRONG: "),
        "broken promise: the books do not balance: {output}"
    );
    assert_eq!(code, 0, "{output}{errors}");
    let (_, place) = output
        .lines()
        .next()
        .and_then(|line| line.rsplit_once(" in "))
        .expect("the first line names the directory");
    assert!(Path::new(place).is_absolute() && !Path::new(place).exists());
    assert!(output.ends_with("the books balance\n"), "{output}");
}

#[tokio::test]
async fn it_says_why_there_is_no_server() {
    let mut command = program(&[]);
    let (code, output, errors) = run(command.env("DLOCK_POSTGRES", "/nowhere")).await;
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(
        errors.contains("no `postgres` and `initdb` in `/nowhere`"),
        "{errors}"
    );

    let server = PostgresServer::start().await;
    server.kill();
    let (code, output, errors) = run(program(&[]).env("DATABASE_URL", server.url())).await;
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("cannot connect to PostgreSQL"), "{errors}");
}
