//! Builds the published packages with the oldest Rust that they promise to work with.

use std::process::Command;

use crate::{cargo, machine, package};

/// Checks the packages with the toolchain of `rust-version`, which rustup installs if it is missing.
pub(crate) fn run() -> Result<(), String> {
    let packages = package::published()?;
    let versions: Vec<&str> = packages.iter().map(package::Package::rust).collect();
    let version = *versions.first().ok_or("no package is published")?;
    if versions.iter().any(|other| *other != version) {
        return Err(format!(
            "the packages have different values of rust-version: {versions:?}"
        ));
    }
    provide(version)?;
    let mut command = Command::new("rustup");
    command.args([
        "run",
        version,
        "cargo",
        "check",
        "--all-features",
        "--locked",
    ]);
    command.args(packages.iter().flat_map(|it| ["--package", it.name()]));
    command
        .arg("--target-dir")
        .arg(cargo::target().join("msrv"));
    // Both are those of the toolchain that has built this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env_remove("RUSTC").env_remove("RUSTDOC");
    println!("$ rustup run {version} cargo check, of the published packages with all features");
    let status = command
        .current_dir(cargo::root())
        .status()
        .map_err(|error| format!("rustup cannot be run: {error}"))?;
    if !status.success() {
        return Err(format!("the packages do not compile with Rust {version}"));
    }
    println!("{} packages compile with Rust {version}", packages.len());
    Ok(())
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
