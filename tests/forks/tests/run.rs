//! Locks in a process that forks or cannot start a thread: with real forks, and a real server.

#[expect(dead_code, reason = "it is looked at for two errors only")]
#[path = "../../documents/error_page/page.rs"]
mod page;

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use dlock_postgres::Schema;
use dlock_testkit::{EtcdServer, PostgresServer, RedisServer, eventually};
use page::Page;

const LIMIT: Duration = Duration::from_secs(20);

/// What the processes of a program have said, when all of them have ended.
async fn said(arguments: &[&str]) -> Vec<(String, String)> {
    said_with(arguments, &[]).await
}

async fn said_with(arguments: &[&str], environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock-forks"));
    command.args(arguments).stderr(Stdio::inherit());
    command.envs(environment.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("it is waited for").expect("it starts");
    let said = String::from_utf8(output.stdout).expect("it writes text");
    assert!(output.status.success(), "{}: {said}", output.status);
    let lines = said.lines().map(|line| {
        let (word, what) = line.split_once(' ').expect("a line begins with a word");
        (word.to_owned(), what.to_owned())
    });
    lines.collect()
}

fn words(said: &[(String, String)]) -> Vec<&str> {
    said.iter().map(|(word, _)| word.as_str()).collect()
}

/// Every refusal is on the page of errors, names a key and says what to do.
fn assert_explained(said: &[(String, String)]) {
    let page = Page::read();
    for (word, text) in said {
        match word.as_str() {
            "refused" => {
                page.assert_shows("forked", text);
                page.assert_shows("unavailable", text);
            }
            "lost" => {
                page.assert_shows("other-process", text);
                page.assert_shows("lost", text);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn two_children_of_one_process_never_share_a_lease() {
    let server = RedisServer::start().await;
    let said = said(&["twins", &server.url()]).await;
    assert_eq!(
        words(&said),
        ["got", "busy"],
        "broken promise: two children hold the key: {said:?}"
    );
}

/// The child was refused, its copies were lost, and nothing is left.
fn assert_guarded(said: &[(String, String)]) {
    let expected = [
        "refused", "refused", "refused", "lost", "lost", "lost", "done",
    ];
    assert_eq!(words(said), expected, "{said:?}");
    assert_eq!(said.last().expect("it is there").1, "0", "nothing is left");
}

#[tokio::test]
async fn a_child_is_refused_and_its_copy_of_a_guard_releases_nothing() {
    let server = RedisServer::start().await;
    let said = said(&["guard", &server.url()]).await;
    assert_guarded(&said);
    for ((_, text), key) in said.iter().zip(["order:7", "a", "order:42"]) {
        assert!(text.contains(&format!("`{key}`")), "{text}");
    }
    assert_explained(&said);
    // The parent has taken it twice, and another manager has asked once.
    let asked = server.success_count("evalsha").await;
    assert_eq!(asked, 5, "the child has sent nothing");
}

#[tokio::test]
async fn a_body_that_goes_on_in_a_child_is_ended_and_its_lease_not_renewed() {
    let server = RedisServer::start().await;
    let said = said(&["body", &server.url()]).await;
    assert_eq!(
        words(&said),
        ["lost", "lost"],
        "broken promise: a child believes in the lease of its parent: {said:?}"
    );
    assert_explained(&said);
    eventually(LIMIT, "the lease has ended", async || {
        server.keys("dlock:{order:42}").await.is_empty()
    })
    .await;
    let asked = server.success_count("evalsha").await;
    assert_eq!(asked, 1, "the child has sent nothing");
}

#[tokio::test]
async fn a_child_asks_nothing_over_the_connection_of_its_parent() {
    let server = RedisServer::start().await;
    let before = server.command_count("ping").await;
    let said = said(&["idle", &server.url()]).await;
    assert_eq!(words(&said), ["done"], "{said:?}");
    assert_eq!(server.command_count("ping").await, before);
}

/// The connection of requests is on the runtime of the callers, which a child has a copy of.
#[tokio::test]
async fn a_child_takes_no_answer_from_the_connection_of_its_parent_to_postgresql() {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    let client = server.client(&name).await;
    let migration = Schema::new("dlock").expect("a name").migration(None);
    let migration = migration.expect("a migration");
    client.batch_execute(&migration).await.expect("it is new");
    let said = said(&["guard", &server.url_of("postgres", &name)]).await;
    assert_guarded(&said);
}

#[tokio::test]
async fn a_child_takes_no_answer_from_the_connections_of_its_parent_to_etcd() {
    let server = EtcdServer::start().await;
    let said = said(&["guard", &server.url()]).await;
    assert_guarded(&said);
    let left = server.keys("dlock/order:42/").await;
    assert_eq!(left, [""; 0]);
}

/// It would be one in the selector of the parent, which has no value for it.
#[tokio::test]
async fn a_child_makes_no_connection_to_etcd_on_the_runtime_of_its_parent() {
    let server = EtcdServer::start().await;
    let said = said(&["early", &server.url()]).await;
    assert_eq!(words(&said), ["done"], "{said:?}");
}

#[tokio::test]
async fn locks_in_memory_are_of_one_process_too() {
    let said = said(&["memory"]).await;
    assert_eq!(words(&said), ["refused", "lost", "done"], "{said:?}");
    assert_explained(&said);
}

#[tokio::test]
async fn a_child_acquires_a_lock_although_other_threads_did_so_during_the_fork() {
    let said = said(&["threads"]).await;
    assert_eq!(words(&said), ["done"], "{said:?}");
}

#[tokio::test]
async fn without_a_thread_async_calls_run_and_blocking_calls_are_refused() {
    let said = said_with(&["no-threads"], &[("RUST_MIN_STACK", "100000000000000")]).await;
    assert_eq!(words(&said), ["ran", "refused", "done"], "{said:?}");
    assert!(said[1].1.contains("cannot start a thread"), "{said:?}");
    assert_eq!(said[2].1, "0", "nothing is left");
}
