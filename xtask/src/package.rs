//! Packages the published crates as `cargo publish` would, builds them from their archives, and runs the first
//! program of the README against the unpacked files.
//!
//! The crates depend on each other and none is on crates.io. `cargo package` therefore gets all of them at once: it
//! serves the archives to each other from a local registry. The README's program gets the unpacked archives
//! by `[patch.crates-io]`, in a package outside of the workspace.
//!
//! All builds share `target/packages`. They have no debug information, so that what they share is small.

mod program;
mod server;
mod unpack;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use serde_json::Value;

use crate::cargo::{self, Call};
use crate::machine;

use server::Server;

/// The variables of each call of cargo.
const VARIABLES: [(&str, &str); 2] = [
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    // What is built here is not edited.
    ("CARGO_INCREMENTAL", "0"),
];

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
pub(crate) fn run() -> Result<(), String> {
    let packages = published()?;
    let unpacked = target().join("unpacked");
    forget_earlier(&packages).map_err(|error| format!("{}: {error}", target().display()))?;
    package(&packages)?;
    for package in &packages {
        let folder = package.folder();
        let archive = target().join(format!("package/{folder}.crate"));
        unpack::unpack(&archive, &unpacked, &folder)?;
        check_licences(&unpacked.join(folder))?;
    }
    println!("{} packages are verified and unpacked", packages.len());
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

/// Removes what cargo has unpacked and built of these packages from earlier archives.
///
/// Cargo takes a package of a registry for unchanged as long as its version is: it would build what an earlier
/// run has packaged.
fn forget_earlier(packages: &[Package]) -> io::Result<()> {
    let is_one = |name: &str| {
        packages.iter().any(|package| {
            let hash = name.strip_prefix(&package.name);
            hash.and_then(|hash| hash.strip_prefix('-'))
                .is_some_and(|hash| !hash.contains('-'))
        })
    };
    remove(&target().join("debug/.fingerprint"), is_one)?;
    let Some(home) = home() else { return Ok(()) };
    let sources = home.join("registry/src");
    if !sources.is_dir() {
        return Ok(());
    }
    for registry in fs::read_dir(sources)? {
        let registry = registry?;
        // The local registry has no host, which other names begin with.
        if registry.file_name().to_string_lossy().starts_with('-') {
            remove(&registry.path(), is_one)?;
        }
    }
    Ok(())
}

/// Removes the folders with these names, if there are any.
fn remove(root: &Path, is_one: impl Fn(&str) -> bool) -> io::Result<()> {
    if !root.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if is_one(&entry.file_name().to_string_lossy()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The folder in which cargo unpacks packages.
fn home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    machine::variable("CARGO_HOME").map_or_else(home, |it| Some(it.into()))
}

fn package(packages: &[Package]) -> Result<(), String> {
    // A change that is not committed is checked as well: nothing is published from here.
    const CALL: Call = Call::new("package --locked --allow-dirty --quiet");
    let folder = target().display().to_string();
    let names = packages.iter().flat_map(|it| ["--package", &it.name]);
    let words: Vec<&str> = ["--target-dir", &folder].into_iter().chain(names).collect();
    let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.into()));
    if CALL.run_with_under(&words, &variables) {
        return Ok(());
    }
    Err(format!("this failed: {}", CALL.line()))
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
        .envs(VARIABLES)
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
                "dlock-runtime"
            ]
        );
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
        ] {
            check_licences(&cargo::root().join(folder)).expect("the links to the licences work");
        }
    }
}
