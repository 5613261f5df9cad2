//! The commands that documents tell people to type are there.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    assert_none,
    document::{self, Block},
    root,
};

/// Subcommands of cargo that a reader needs.
const CARGO: [&str; 12] = [
    "add", "build", "check", "clippy", "doc", "fmt", "fuzz", "install", "new", "run", "test",
    "xtask",
];

/// What a shell is to read: all of it, or what stands behind `$ `.
pub(crate) fn script(block: &Block) -> String {
    if block.language == "sh" {
        return block.text.clone();
    }
    let lines = block
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("$ "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The packages of this workspace, as cargo tells of them.
struct Packages(Vec<Value>);

impl Packages {
    fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success());
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        Self(metadata["packages"].as_array().unwrap().clone())
    }

    fn named(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|package| package["name"] == name)
    }

    fn fault_of(&self, words: &[&str]) -> Option<String> {
        // Behind `--` come the arguments of the program.
        let words: Vec<_> = words.iter().take_while(|word| **word != "--").collect();
        let mut plain = words.iter().filter(|word| !word.starts_with(['-', '+']));
        let subcommand = plain.next()?;
        if !CARGO.contains(subcommand) {
            return Some(format!("there is no `cargo {subcommand}`"));
        }
        if **subcommand == "xtask" {
            let command = plain.next()?;
            let is_there = xtask_commands().iter().any(|known| known == *command);
            return (!is_there).then(|| format!("there is no `cargo xtask {command}`"));
        }
        let value = |names: [&str; 2]| {
            let at = words.iter().position(|word| names.contains(word))?;
            words.get(at + 1).map(|word| **word)
        };
        let name = match **subcommand {
            "add" | "install" => plain.next().copied().copied(),
            _ => Some(value(["-p", "--package"]).unwrap_or("dlock-rs")),
        };
        let Some(package) = name.and_then(|name| self.named(name)) else {
            let name = name.unwrap_or_default();
            let is_ours = name.starts_with("dlock") || !["add", "install"].contains(*subcommand);
            return is_ours.then(|| format!("there is no package `{name}`"));
        };
        let has_target = |kind: &str, name: &str| {
            let targets = package["targets"].as_array().unwrap();
            targets
                .iter()
                .any(|target| target["kind"][0] == kind && target["name"] == name)
        };
        for kind in ["example", "test", "bin"] {
            if let Some(name) = value([&format!("--{kind}"), ""])
                && !has_target(kind, name)
            {
                return Some(format!("there is no {kind} `{name}`"));
            }
        }
        let features = value(["-F", "--features"]).unwrap_or_default();
        let known = package["features"].as_object().unwrap();
        features
            .split(',')
            .filter(|it| !it.is_empty())
            .find(|feature| !known.contains_key(*feature))
            .map(|feature| format!("there is no feature `{feature}`"))
    }
}

/// The variants of the enumeration, as the command line spells them.
fn xtask_commands() -> Vec<String> {
    let source = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let (_, variants) = source.split_once("\nenum Command {\n").unwrap();
    let (variants, _) = variants.split_once("\n}").unwrap();
    let lines = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    "));
    lines
        .filter(|line| line.starts_with(|it: char| it.is_ascii_uppercase()))
        .map(|line| {
            let end = line.find(|it: char| !it.is_alphanumeric());
            line[..end.unwrap_or(line.len())].to_lowercase()
        })
        .collect()
}

/// The simple commands of a script, word by word, without the variables that are set for them.
fn commands(script: &str) -> Vec<Vec<&str>> {
    let lines = script.lines().map(|line| {
        let comment = line.find(" #").unwrap_or(line.len());
        let is_comment = line.starts_with('#');
        if is_comment { "" } else { &line[..comment] }
    });
    lines
        .flat_map(|line| line.split(['|', ';', '&']))
        .map(|command| {
            let words = command.split_whitespace();
            words.skip_while(|word| word.contains('=')).collect()
        })
        .collect()
}

#[test]
fn of_cargo_are_there() {
    let packages = Packages::read();
    let mut faults = Vec::new();
    for document in document::all() {
        let blocks = document.blocks_in("sh").into_iter();
        for block in blocks.chain(document.blocks_in("console")) {
            let script = script(&block).replace("\\\n", " ");
            for command in commands(&script) {
                if let Some((&"cargo", words)) = command.split_first()
                    && let Some(fault) = packages.fault_of(words)
                {
                    faults.push(format!("{}: {fault}", block.place));
                }
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn that_are_not_there_are_found() {
    let packages = Packages::read();
    for (line, fault) in [
        ("cargo run --example quickstart", None),
        ("A=b cargo xtask test lint # all", None),
        ("cargo add tokio -F macros,rt", None),
        ("cargo add dlock-rs -F registry", None),
        ("cargo test -p dlock-tests --test documents", None),
        ("cargo rum", Some("there is no `cargo rum`")),
        ("cargo xtask rest", Some("there is no `cargo xtask rest`")),
        (
            "cargo run --example none",
            Some("there is no example `none`"),
        ),
        ("cargo run -p none", Some("there is no package `none`")),
        (
            "cargo add dlock-none",
            Some("there is no package `dlock-none`"),
        ),
        (
            "cargo add dlock-rs -F none",
            Some("there is no feature `none`"),
        ),
    ] {
        let command = commands(line).remove(0);
        let told = packages.fault_of(&command[1..]);
        assert_eq!(told.as_deref(), fault, "{line}");
    }
}
