//! Builds the published packages with the oldest Rust that they promise to work with.

use std::collections::BTreeMap;
use std::process::Command;

use crate::package::{self, Package};
use crate::{cargo, machine};

/// Checks the packages with the toolchain of their `rust-version`, which rustup installs if it is missing.
pub(crate) fn run() -> Result<(), String> {
    let packages = package::published()?;
    if packages.is_empty() {
        return Err("no package is published".to_owned());
    }
    let mut groups = BTreeMap::<&str, Vec<&str>>::new();
    for package in &packages {
        let group = groups.entry(package.rust()).or_default();
        group.push(Package::name(package));
    }
    for (version, names) in groups {
        provide(version)?;
        check(version, &names)?;
        println!("{} compile with Rust {version}", names.join(", "));
    }
    Ok(())
}

/// Compiles packages with a toolchain.
fn check(version: &str, names: &[&str]) -> Result<(), String> {
    let mut command = Command::new("rustup");
    command.args([
        "run",
        version,
        "cargo",
        "check",
        "--all-features",
        "--locked",
    ]);
    command.args(names.iter().flat_map(|name| ["--package", name]));
    command
        .arg("--target-dir")
        .arg(cargo::target().join("msrv"));
    // Both are those of the toolchain that has built this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env_remove("RUSTC").env_remove("RUSTDOC");
    println!(
        "$ rustup run {version} cargo check, of {} with all features",
        names.join(", ")
    );
    let status = command
        .current_dir(cargo::root())
        .status()
        .map_err(|error| format!("rustup cannot be run: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "{} do not compile with Rust {version}",
            names.join(", ")
        ))
    }
}

fn provide(version: &str) -> Result<(), String> {
    if machine::succeeds("rustup", &["run", version, "cargo", "--version"]) {
        return Ok(());
    }
    if machine::nothing_may_be_installed() {
        return Err(format!(
            "no toolchain {version} found, and DLOCK_NO_INSTALL is set"
        ));
    }
    let install = [
        "rustup",
        "toolchain",
        "install",
        version,
        "--profile",
        "minimal",
    ];
    machine::run(&install)
        .then_some(())
        .ok_or_else(|| format!("the toolchain {version} cannot be installed"))
}
