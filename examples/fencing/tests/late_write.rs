//! The program shows a late write, with and without the conditions that refuse it.

use std::process::Command;
use std::time::Duration;

use dlock_testkit::{RedisServer, Worker};

/// Much longer than a run takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_mins(3);

/// The exit code, the standard output and the standard error of the program.
async fn run(arguments: &[&str], url: Option<&str>) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencing"));
    // The environment of the tests may name another server.
    command.args(arguments).env_remove("DLOCK_URL");
    command.envs(url.map(|url| ("DLOCK_URL", url)));
    let program = Worker::spawn(&mut command);
    let status = program.wait(LIMIT).await;
    let code = status.code().expect("it is not killed");
    (code, program.stdout(), program.stderr())
}

/// The lines of a seller.
fn lines<'a>(output: &'a str, seller: &str) -> Vec<&'a str> {
    let lines = output.lines().filter_map(|line| line.split_once(" s  "));
    let of_seller = lines.filter_map(|(_, line)| line.trim_start().strip_prefix(seller));
    of_seller.map(str::trim_start).collect()
}

/// The token in a line such as `holds the lock with token 7, reads 9`.
fn token(line: &str) -> i64 {
    let (_, rest) = line.split_once("token ").expect("the line has a token");
    let number = rest.split(',').next().expect("it begins with one");
    number.parse().expect("it is a number")
}

#[tokio::test]
async fn the_database_refuses_a_paused_seller() {
    let server = RedisServer::start().await;
    for url in [None, Some(server.url())] {
        let (code, output, errors) = run(&[], url.as_deref()).await;
        assert!(
            !output.contains("WRONG: "),
            "broken promise: an update was lost: {output}"
        );
        assert_eq!(code, 0, "{output}{errors}");
        assert!(output.contains("two were sold, 8 are left"), "{output}");

        let (slow, quick) = (lines(&output, "slow"), lines(&output, "quick"));
        assert_eq!(slow.len(), 9, "{output}");
        assert!(slow[0].ends_with("reads 10"), "{output}");
        assert!(quick[0].ends_with("reads 10"), "{output}");
        let what = if url.is_some() { "process" } else { "thread" };
        assert!(slow[2].starts_with("is paused") && slow[2].contains(what));
        assert!(slow[4].starts_with("writes 9"), "{output}");
        let refused = format!("refused token {}", token(slow[0]));
        assert!(slow[5].contains(&refused), "{output}");
        assert!(
            slow[6].ends_with("reads 9"),
            "it repeats the sale:\n{output}"
        );
        assert!(
            token(slow[0]) < token(quick[0]),
            "broken promise: the token did not grow: {output}"
        );
        assert!(
            token(quick[0]) < token(slow[6]),
            "broken promise: the token did not grow: {output}"
        );
    }
}

#[tokio::test]
async fn without_the_condition_an_update_is_lost() {
    let server = RedisServer::start().await;
    for url in [None, Some(server.url())] {
        let (code, output, errors) = run(&["--without-fencing"], url.as_deref()).await;
        assert_eq!(code, 1, "{output}{errors}");
        assert!(output.contains("WRONG: two were sold, 9 are left"));
        assert!(!output.contains("refused"), "{output}");
    }
}

#[tokio::test]
async fn it_does_not_start_when_the_server_is_unreachable() {
    let server = RedisServer::start().await;
    server.kill();
    let (code, output, errors) = run(&[], Some(&server.url())).await;
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("cannot use the store"), "{errors}");
}
