//! Compares the JSON and the exit codes in `docs/book/src/reference/cli.md` with the program.

use std::collections::BTreeSet;

use dlock_testkit::{RedisServer, Worker};
use serde_json::Value;

use super::{LIMIT, call, dlock, reads::scene};

/// Returns the first block below a heading.
fn documented(heading: &str) -> Value {
    let text = include_str!("../../../docs/book/src/reference/cli.md");
    let (_, section) = text
        .split_once(&format!("\n### {heading}\n"))
        .expect("there is such a heading");
    let (_, block) = section.split_once("```text\n").expect("it has a block");
    let (block, _) = block.split_once("\n```").expect("which has an end");
    serde_json::from_str(block).expect("it is JSON")
}

/// Returns the paths of all fields.
fn fields(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(value, "", &mut found);
    found
}

fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                collect(member, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, found)),
        _ => {}
    }
}

/// Returns the paths of the fields, without those of the holders and the waiter.
fn own_fields(value: &Value) -> BTreeSet<String> {
    let mut value = value.clone();
    for name in ["holder", "holders", "waiter"] {
        if value.get(name).is_some() {
            value[name] = Value::Null;
        }
    }
    fields(&value)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[tokio::test]
async fn fields_are_as_documented() {
    let server = RedisServer::start().await;
    let words = ["watch", "--json", "-i", "20ms"];
    let watch = Worker::spawn(&mut dlock(&server, &words));
    let scene = scene(&server).await;
    let of_a_lock = documented("`dlock inspect --json`");
    let shown = call(&mut dlock(&server, &["inspect", "--json", "order:1"]))
        .await
        .with(0);
    assert_eq!(fields(&parsed(&shown.stdout)), fields(&of_a_lock));
    let shown = call(&mut dlock(&server, &["ls", "--json"])).await.with(0);
    assert_eq!(fields(&parsed(&shown.stdout)[0]), fields(&of_a_lock));

    let event = parsed(&watch.line("\"event\":\"waits\"", LIMIT).await);
    assert_eq!(
        own_fields(&event),
        own_fields(&documented("`dlock watch --json`"))
    );
    assert_eq!(fields(&event["waiter"]), fields(&of_a_lock["waiters"][0]));

    let shown = call(&mut dlock(
        &server,
        &["run", "-n", "--json", "order:1", "true"],
    ))
    .await
    .with(75);
    assert_eq!(
        fields(&parsed(&shown.stderr)),
        fields(&documented("Errors"))
    );

    let shown = call(&mut dlock(&server, &["unlock", "-y", "--json", "order:1"]))
        .await
        .with(0);
    let shown = parsed(&shown.stdout);
    assert_eq!(
        own_fields(&shown),
        own_fields(&documented("`dlock unlock --json`"))
    );
    assert_eq!(fields(&shown["holder"]), fields(&of_a_lock["holder"]));
    drop(scene);
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_dlock"))
        .arg("--help")
        .output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("it is text");
    let codes = help
        .lines()
        .skip_while(|line| *line != "Exit codes:")
        .skip(1);
    let codes: Vec<_> = codes.take_while(|line| !line.is_empty()).collect();
    assert_eq!(codes.len(), 7);
    for line in codes {
        let (code, meaning) = line
            .trim()
            .split_once("  ")
            .expect("a code and its meaning");
        let row = format!("| {code} | {meaning} |");
        assert!(
            include_str!("../../../docs/book/src/reference/cli.md").contains(&row),
            "{row}"
        );
    }
}
