//! Every block of code is one of its language.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use dlock_testkit::{RedisServer, python};
use serde_json::json;

use crate::{
    assert_none,
    document::{self, Block},
    root,
};

/// What blocks may be in. Of the last ones nobody knows whether they are right.
const LANGUAGES: [&str; 11] = [
    "rust", "sh", "console", "toml", "sql", "python", "lua", "conf", "promql", "text", "yaml",
];

/// The page of a program that `examples/tutorial` compiles, and compares with the page.
const PROGRAM: &str = "docs/book/src/tutorial/fencing-column.md";

fn all_in(language: &str) -> Vec<Block> {
    let documents = document::all();
    let blocks = documents.iter().flat_map(|it| it.blocks_in(language));
    blocks.collect()
}

#[test]
fn are_in_a_language_that_is_known_here() {
    let documents = document::all();
    let blocks = documents.iter().flat_map(document::Document::blocks);
    let faults: Vec<_> = blocks
        .filter(|block| !LANGUAGES.contains(&block.language.as_str()))
        .map(|block| format!("{}: `{}` is not checked", block.place, block.language))
        .collect();
    assert_none(&faults);
}

/// A library makes a module of each document with Rust in it, whose blocks are tests of its
/// documentation: the facade, that of this package where they use more crates, or the one that it is about.
#[test]
fn in_rust_are_tests_of_the_documentation() {
    // With the folder that their `../` leads to.
    let libraries = [
        ("src/book.rs", ""),
        ("tests/lib.rs", ""),
        ("dlock-conformance/src/lib.rs", "dlock-conformance/"),
        ("dlock-etcd/src/lib.rs", "dlock-etcd/"),
        ("dlock-postgres/src/lib.rs", "dlock-postgres/"),
        ("dlock-sqlx/src/lib.rs", "dlock-sqlx/"),
        ("dlock-zookeeper/src/lib.rs", "dlock-zookeeper/"),
    ];
    let libraries = libraries.map(|(it, up)| (fs::read_to_string(root().join(it)).unwrap(), up));
    let mut faults = Vec::new();
    for document in document::all() {
        let blocks = document.blocks_in("rust");
        let is_included = |(library, up): &(String, &str)| {
            let inside = document.path.strip_prefix(up);
            inside.is_some_and(|path| {
                library.contains(&format!("doc = include_str!(\"../{path}\")]"))
            })
        };
        if !blocks.is_empty() && !libraries.iter().any(is_included) {
            faults.push(format!("{} is not in a library", document.path));
        }
        for block in blocks {
            // Anything else is not run, or not compiled.
            let is_program = document.path == PROGRAM && block.attributes == "ignore";
            if !is_program && !["", "no_run"].contains(&block.attributes.as_str()) {
                faults.push(format!("{}: `{}`", block.place, block.attributes));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn in_toml_are_read_and_name_this_version() {
    let mut faults = Vec::new();
    for block in all_in("toml") {
        let table: toml::Table = match block.text.parse() {
            Ok(table) => table,
            Err(error) => {
                faults.push(format!("{}: {error}", block.place));
                continue;
            }
        };
        let dependencies = table.get("dependencies").and_then(|it| it.as_table());
        for (name, value) in dependencies.into_iter().flatten() {
            let version = value.get("version").unwrap_or(value).as_str();
            let is_this = version.is_some_and(|it| env!("CARGO_PKG_VERSION").starts_with(it));
            // A clone beside the reader's project has the version that it has.
            let is_clone = value.get("path").is_some();
            if name.starts_with("dlock") && !is_this && !is_clone {
                faults.push(format!("{}: `{name}` of {version:?}", block.place));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn in_sh_can_be_read_by_a_shell() {
    let mut faults = Vec::new();
    for block in all_in("sh").iter().chain(&all_in("console")) {
        let script = crate::commands::script(block);
        let output = Command::new("sh")
            .args(["-n", "-c", &script])
            .output()
            .unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            faults.push(format!("{}: {error}", block.place));
        }
    }
    assert_none(&faults);
}

/// The Python of a document is one program, which compiles. Its SQL runs in `SQLite`, block by block.
#[test]
fn in_python_and_sql_are_understood() {
    let documents = document::all();
    let (mut programs, mut statements, mut count) = (Vec::new(), Vec::new(), 0);
    for document in &documents {
        let program = document.blocks_in("python");
        let sql = document.blocks_in("sql");
        count += usize::from(!program.is_empty()) + sql.len();
        if let Some(first) = program.first() {
            let text: String = program.iter().map(|block| block.text.as_str()).collect();
            programs.push((first.place.clone(), text));
        }
        let sql = sql.into_iter().map(|block| (block.place, block.text));
        statements.push(sql.collect::<Vec<_>>());
    }
    let mut process = python()
        .args(["-c", include_str!("understand.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let blocks = json!({ "python": programs, "sql": statements }).to_string();
    // Dropped behind the call, so that the other side sees the end.
    let written = process.stdin.take().unwrap().write_all(blocks.as_bytes());
    written.unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, format!("{count} understood\n"));
}

#[test]
fn in_lua_are_parts_of_the_scripts() {
    let folder = root().join("dlock-runtime/src/store/redis/protocol");
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let scripts: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "lua"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert!(
        scripts.len() >= 5,
        "there are fewer scripts than there were"
    );
    let is_part = |block: &Block| scripts.iter().any(|script| script.contains(&block.text));
    let faults: Vec<_> = all_in("lua")
        .iter()
        .filter(|block| !is_part(block))
        .map(|block| format!("{}: no script has these lines", block.place))
        .collect();
    assert_none(&faults);
}

/// Each block in `conf` is a configuration with which a server starts.
#[tokio::test]
async fn in_conf_are_taken_by_a_server() {
    for block in all_in("conf") {
        let words: Vec<String> = block
            .text
            .lines()
            .map(|line| line.split('#').next().unwrap().trim())
            .filter(|line| !line.is_empty())
            .flat_map(|line| {
                let (name, value) = line.split_once(' ').expect("a setting has a value");
                [format!("--{name}"), value.trim().to_owned()]
            })
            .collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let server = RedisServer::start_with(&words).await;
        for pair in words.chunks_exact(2) {
            let name = pair[0].trim_start_matches("--");
            let told: Vec<String> = redis::cmd("CONFIG")
                .arg(&["GET", name])
                .query_async(&mut server.connection().await)
                .await
                .unwrap();
            assert_eq!(told, [name, pair[1]], "{}", block.place);
        }
    }
}
