//! Builds the published packages with the oldest Rust that they promise to work with.

use crate::{cargo, machine, package, tools};

/// The `rust-version` of the workspace, which this package and the published ones have.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Checks each package by itself with that toolchain, which `cargo hack` installs by rustup if it is missing.
pub(crate) fn run() -> Result<(), String> {
    let is_there = machine::succeeds("rustup", &["run", OLDEST, "cargo", "--version"]);
    if machine::nothing_may_be_installed() && !is_there {
        return Err(format!(
            "no toolchain {OLDEST} found, and DLOCK_NO_INSTALL is set"
        ));
    }
    let folder = cargo::target().join("msrv").display().to_string();
    let all = ["hack", "check", "--rust-version", "--all-features"];
    let place = ["--locked", "--target-dir", &folder];
    let packages = package::published();
    let names = packages.iter().flat_map(|it| ["--package", it]);
    let words: Vec<_> = all.into_iter().chain(place).chain(names).collect();
    cargo::run_tool(&tools::program(&tools::CARGO_HACK)?, &words)?;
    println!("the published packages compile with Rust {OLDEST}");
    Ok(())
}
