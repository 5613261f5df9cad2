//! The dependencies of dlock, against `deny.toml`, by `cargo deny`.
//!
//! Advisories come from outside and change without a change here, so that only `cargo xtask deny` reads them.

use std::path::Path;

use crate::{cargo, tools};

/// Checks what needs nothing from outside. Returns the reason if the tool cannot be had.
pub(crate) fn check() -> Result<Option<String>, String> {
    match tools::program(&tools::CARGO_DENY) {
        Ok(tool) => check_by(&tool, &["licenses", "bans", "sources"]).map(|()| None),
        Err(reason) => Ok(Some(reason)),
    }
}

/// Checks everything, and says which checks were run.
pub(crate) fn deny() -> Result<(), String> {
    if let Some(reason) = check()? {
        return Err(reason);
    }
    let tool = tools::program(&tools::CARGO_DENY)?;
    if cargo::run_tool(&tool, &["fetch", "db"]).is_err() {
        eprintln!(
            "advisories LEFT OUT: their database cannot be got from here; licences, bans and \
             sources are as deny.toml says"
        );
        return Ok(());
    }
    check_by(&tool, &["advisories"])?;
    println!("advisories, licences, bans and sources are as deny.toml says");
    Ok(())
}

/// Runs some of the checks. What is written in `deny.toml` and not needed is a warning of the tool, and an error here.
fn check_by(tool: &Path, checks: &[&str]) -> Result<(), String> {
    let all = ["--workspace", "--locked", "check", "--deny", "warnings"];
    cargo::run_tool(tool, &[&all, checks].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trees of packages, and the clients of stores that are in none of them. `deny.toml` cannot say it of packages without
    /// some of their features.
    const UNASKED: [(&str, &[&str]); 2] = [
        (
            "--package dlock-rs --all-features",
            &["tokio-postgres", "sqlx", "tonic", "zookeeper-client"],
        ),
        (
            "--package dlock-cli",
            &["sqlx", "tonic", "zookeeper-client"],
        ),
    ];

    #[test]
    fn a_program_gets_no_client_that_it_did_not_ask_for() {
        for (words, clients) in UNASKED {
            let tree = cargo::output(&format!(
                "tree {words} --edges normal,build --target all --prefix none --locked"
            ));
            let tree = tree.expect("cargo knows the workspace");
            let names: Vec<_> = tree.lines().map(|it| it.split(' ').next()).collect();
            assert!(names.contains(&Some("redis")), "{tree}");
            for client in clients {
                assert!(!names.contains(&Some(client)), "{client} in `{words}`");
            }
        }
    }
}
