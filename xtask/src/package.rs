//! Packages the published crates as `cargo publish` would, checks what is in their archives, and runs the first
//! program of the README against the unpacked files.
//!
//! The crates depend on each other and none is on crates.io. `cargo package` therefore gets all of them at once. It does
//! not build them, each with all that it depends on: the compiler checks the unpacked archives in a workspace of their
//! own, which costs less. The README's program is built, in a package outside of it. Both get the other
//! archives by `[patch.crates-io]`.
//!
//! They share `target/packages` for what they are to give, and with this checkout what is compiled of others: most of that
//! is the same, as nobody's has debug information.

mod program;
mod server;
mod unpack;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use serde_json::Value;

use crate::cargo::{self, Call};

use server::Server;

/// The variables of each call of cargo.
fn variables() -> [(&'static str, OsString); 3] {
    [
        // As the workspace has it; these are outside of it.
        ("CARGO_PROFILE_DEV_DEBUG", "0".into()),
        // What is built here is not edited.
        ("CARGO_INCREMENTAL", "0".into()),
        ("CARGO_BUILD_BUILD_DIR", cargo::target().into_os_string()),
    ]
}

/// The longest time for the README's program, which takes milliseconds.
const LONGEST: Duration = Duration::from_secs(60);

/// A package that users get.
#[derive(Debug)]
pub(crate) struct Package {
    name: String,
    version: String,
    rust: String,
}

impl Package {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The oldest Rust that it works with.
    pub(crate) fn rust(&self) -> &str {
        &self.rust
    }

    /// The name of its archive, without the ending, and of the folder inside.
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Packages everything, and runs the program.
pub(crate) fn run(together: bool) -> Result<(), String> {
    let packages = published()?;
    let unpacked = target().join("unpacked");
    package(&packages)?;
    for package in &packages {
        let folder = package.folder();
        let archive = target().join(format!("package/{folder}.crate"));
        unpack::unpack(&archive, &unpacked, &folder)?;
        check_licences(&unpacked.join(folder))?;
    }
    write_workspace(&packages, &unpacked)?;
    if together {
        check(&["--workspace", "--all-features"], &unpacked)?;
    } else {
        for package in &packages {
            check(&["--package", &package.name], &unpacked)?;
        }
    }
    println!("{} packages are checked", packages.len());
    run_program(&packages)
}

/// The folder for archives and builds.
fn target() -> PathBuf {
    cargo::target().join("packages")
}

/// The packages of the workspace that may be published.
pub(crate) fn published() -> Result<Vec<Package>, String> {
    let told = cargo::output("metadata --format-version 1 --no-deps --locked")?;
    let told: Value =
        serde_json::from_str(&told).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = told["packages"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(packages
        .filter(|package| package["publish"].is_null())
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            rust: text(&package["rust_version"]),
        })
        .collect())
}

fn package(packages: &[Package]) -> Result<(), String> {
    // A change that is not committed is checked as well: nothing is published from here.
    const CALL: Call = Call::new("package --locked --allow-dirty --quiet --no-verify");
    let folder = target().display().to_string();
    let names = packages.iter().flat_map(|it| ["--package", &it.name]);
    let words: Vec<&str> = ["--target-dir", &folder].into_iter().chain(names).collect();
    if CALL.run_with(&words) {
        return Ok(());
    }
    Err(format!("this failed: {}", CALL.line()))
}

/// Makes a workspace of the archives, with the versions that dlock is tested with, and tokio compiled as in this workspace.
fn write_workspace(packages: &[Package], unpacked: &Path) -> Result<(), String> {
    let members: Vec<_> = packages
        .iter()
        .map(|it| format!("'{}'", it.folder()))
        .collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[profile.dev.package.tokio]\nopt-level = 1\n\n\
         [patch.crates-io]\n{}\n",
        members.join(", "),
        program::patches(packages, ".")
    );
    let write = || -> io::Result<()> {
        fs::write(unpacked.join("Cargo.toml"), manifest)?;
        fs::copy(
            cargo::root().join("Cargo.lock"),
            unpacked.join("Cargo.lock"),
        )?;
        Ok(())
    };
    write().map_err(|error| format!("{}: {error}", unpacked.display()))
}

/// Compiles some of the archives, as far as finds all errors. A package alone has the features that a user gets who names
/// none. All of them together have all features, as the step `doc` has compiled their dependencies.
fn check(which: &[&str], unpacked: &Path) -> Result<(), String> {
    let named = which.join(" ");
    println!("$ cargo check {named}, in {}", unpacked.display());
    let mut check = cargo::command(unpacked);
    check.args(["check", "--quiet"]).args(which);
    check.arg("--target-dir").arg(target()).envs(variables());
    let status = check.status();
    let status = status.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the archives do not compile: cargo check {named}"))
}

/// Both licences are in each archive.
fn check_licences(folder: &Path) -> Result<(), String> {
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        if read(folder.join(name))? != read(cargo::root().join(name))? {
            return Err(format!("{}: {name} is another text", folder.display()));
        }
    }
    Ok(())
}

/// Builds and runs the first program of the README against a server of its own.
fn run_program(packages: &[Package]) -> Result<(), String> {
    let readme = cargo::root().join("README.md");
    let readme = fs::read_to_string(&readme)
        .map_err(|error| format!("{} cannot be read: {error}", readme.display()))?;
    let server = Server::start()?;
    let folder = target().join("readme");
    program::write(&folder, &readme, &server.url(), packages)?;
    let mut build = cargo::command(&folder);
    build
        .args(["build", "--quiet", "--target-dir"])
        .arg(target());
    println!(
        "$ cargo build, of the README's program in {}",
        folder.display()
    );
    let status = build
        .envs(variables())
        .status()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !status.success() {
        return Err("the first program of README.md does not compile".to_owned());
    }
    let mut child = Command::new(target().join("debug").join(program::NAME))
        .env("DLOCK_URL", server.url())
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("the first program of README.md cannot be run: {error}"))?;
    let status = server::wait(&mut child, LONGEST)
        .ok_or_else(|| format!("the first program of README.md has not ended after {LONGEST:?}"))?;
    if !status.success() {
        return Err(format!("the first program of README.md: {status}"));
    }
    let scripts = server.scripts()?;
    if scripts == 0 {
        return Err("the first program of README.md has sent no request to the server".to_owned());
    }
    println!("the first program of README.md ends well; the server ran {scripts} scripts for it");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Step;

    #[test]
    fn these_packages_are_published() {
        let packages = published().expect("cargo describes the workspace");
        let mut names: Vec<_> = packages.iter().map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "dlock-cli",
                "dlock-conformance",
                "dlock-etcd",
                "dlock-macros",
                "dlock-postgres",
                "dlock-rs",
                "dlock-runtime",
                "dlock-zookeeper"
            ]
        );
    }

    #[test]
    fn their_documentation_is_checked() {
        let packages = published().expect("cargo describes the workspace");
        let words: Vec<_> = Step::documentation().words().collect();
        let documented = words.windows(2).filter(|it| it[0] == "--package");
        let mut documented: Vec<_> = documented.map(|it| it[1]).collect();
        documented.sort_unstable();
        let mut names: Vec<_> = packages.iter().map(Package::name).collect();
        names.sort_unstable();
        assert_eq!(documented, names);
    }

    #[test]
    fn licences_lie_in_the_folder_of_each_package() {
        for folder in [
            "dlock-cli",
            "dlock-conformance",
            "dlock-etcd",
            "dlock-macros",
            "dlock-postgres",
            "dlock-runtime",
            "dlock-zookeeper",
        ] {
            check_licences(&cargo::root().join(folder)).expect("the links to the licences work");
        }
    }
}
