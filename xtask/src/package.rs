//! The published packages as users get them: `cargo package` makes the archives, and `cargo hack` compiles each of them by
//! itself, the first program of the README as well.
//!
//! The crates depend on each other and none is on crates.io. The unpacked archives are therefore a workspace of their own, in
//! which `[patch.crates-io]` has all of them. `cargo package` could compile them too, each with all that it depends on. Here
//! they share that with each other and with this checkout: most of it is the same, as nobody's has debug information.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::cargo::{self, Call};
use crate::steps::Step;
use crate::{files, tools};

/// All of them have the version of the workspace, as this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The packages that users get.
pub(crate) fn published() -> Vec<&'static str> {
    let words: Vec<_> = Step::documentation().words().collect();
    let pairs = words.windows(2).filter(|it| it[0] == "--package");
    pairs.map(|it| it[1]).collect()
}

/// Packages everything, and compiles each package with its default features, or with each of its features by itself.
pub(crate) fn run(each_feature: bool) -> Result<(), String> {
    // A change that is not committed is checked as well: nothing is published from here.
    const PACKAGE: Call = Call::new("package --locked --allow-dirty --quiet --no-verify");
    let hack = tools::program(&tools::CARGO_HACK)?;
    let target = cargo::target().join("packages");
    let (packages, folder) = (published(), target.display().to_string());
    let names = packages.iter().flat_map(|it| ["--package", it]);
    let words: Vec<_> = ["--target-dir", &folder].into_iter().chain(names).collect();
    if !PACKAGE.run_with(&words) {
        return Err(format!("this failed: {}", PACKAGE.line()));
    }
    let unpacked = target.join("unpacked");
    for package in &packages {
        let folder = format!("{package}-{VERSION}");
        let archive = target.join(format!("package/{folder}.crate"));
        unpack(&archive, &unpacked, &folder).map_err(|error| format!("{folder}: {error}"))?;
        check_licences(&unpacked.join(folder))?;
    }
    let readme = files::read(&cargo::root().join("README.md"))?;
    write_workspace(&packages, &readme, &unpacked)
        .map_err(|error| format!("{}: {error}", unpacked.display()))?;
    // With the dependencies that the step `doc` has compiled. What some features need may be missing in an archive.
    let all = ["check", "--quiet", "--workspace", "--all-features"];
    cargo::run_in(&unpacked, Path::new(&cargo::program()), &all)?;
    let each = each_feature.then_some("--each-feature");
    let words = ["hack", "check", "--quiet", "--workspace"];
    let words: Vec<_> = words.into_iter().chain(each).collect();
    cargo::run_in(&unpacked, &hack, &words)
}

/// Unpacks an archive, unless it was unpacked before. All files of archives have one old time, by which cargo would not see a
/// change: they get the time of now.
fn unpack(archive: &Path, into: &Path, folder: &str) -> io::Result<()> {
    let (bytes, copy) = (fs::read(archive)?, into.join(format!("{folder}.crate")));
    if fs::read(&copy).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if into.join(folder).exists() {
        fs::remove_dir_all(into.join(folder))?;
    }
    fs::create_dir_all(into)?;
    let tar = Command::new("tar")
        .arg("-xmzf")
        .arg(archive)
        .current_dir(into)
        .status()?;
    if !tar.success() {
        return Err(io::Error::other("it cannot be unpacked"));
    }
    fs::write(copy, bytes)
}

/// Makes a workspace of the archives and the README's program, with the versions that dlock is tested with. They share what is
/// compiled, so their profile is that of this workspace.
fn write_workspace(packages: &[&str], readme: &str, unpacked: &Path) -> io::Result<()> {
    let target = cargo::target();
    let patches = packages
        .iter()
        .map(|it| format!("{it} = {{ path = '{it}-{VERSION}' }}\n"));
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"dlock-*-{VERSION}\", \"readme\"]\n\n\
         [profile.dev]\ndebug = false\nincremental = false\n\n[profile.dev.package.tokio]\nopt-level = 1\n\n\
         [patch.crates-io]\n{}",
        patches.collect::<String>()
    );
    let config = format!(
        "[build]\nbuild-dir = '{}'\ntarget-dir = '{}'\n",
        target.display(),
        target.join("packages").display()
    );
    let [manifest_of_program, source] = program(readme)?;
    for folder in [".cargo", "readme/src"] {
        fs::create_dir_all(unpacked.join(folder))?;
    }
    fs::write(unpacked.join("Cargo.toml"), manifest)?;
    fs::write(unpacked.join(".cargo/config.toml"), config)?;
    fs::write(unpacked.join("readme/Cargo.toml"), manifest_of_program)?;
    fs::write(unpacked.join("readme/src/main.rs"), source)?;
    fs::copy(
        cargo::root().join("Cargo.lock"),
        unpacked.join("Cargo.lock"),
    )
    .map(drop)
}

/// The manifest and the source of the first program of the README, with the dependencies that it tells to add.
fn program(readme: &str) -> io::Result<[String; 2]> {
    let block = |language: &str| {
        let mut blocks = readme.split("\n```").filter(|it| it.starts_with(language));
        let text = blocks.find_map(|it| it.split_once('\n'));
        text.map(|(_, text)| text.to_owned() + "\n")
            .ok_or_else(|| io::Error::other(format!("README.md has no block of {language}")))
    };
    let dependencies = block("toml")?.replace("{ path = \"../dlock\" }", &format!("{VERSION:?}"));
    let manifest = format!("[package]\nname = \"readme\"\nedition = \"2024\"\n\n{dependencies}");
    Ok([manifest, block("rust")?])
}

/// Both licences are in each archive.
fn check_licences(folder: &Path) -> Result<(), String> {
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        if files::read(&folder.join(name))? != files::read(&cargo::root().join(name))? {
            return Err(format!("{}: {name} is another text", folder.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn these_packages_are_published() {
        let told = cargo::output("metadata --format-version 1 --no-deps --locked");
        let told: Value =
            serde_json::from_str(&told.expect("cargo knows the workspace")).expect("it is JSON");
        let packages = told["packages"].as_array().expect("it has packages");
        let published = packages.iter().filter(|it| it["publish"].is_null());
        let is_usual = |it: &Value| {
            it["version"] == VERSION && it["rust_version"] == env!("CARGO_PKG_RUST_VERSION")
        };
        assert!(published.clone().all(is_usual), "one version for all");
        let mut names: Vec<_> = published.filter_map(|it| it["name"].as_str()).collect();
        names.sort_unstable();
        let mut documented = super::published();
        documented.sort_unstable();
        assert_eq!(names, documented);
        assert_eq!(
            names,
            [
                "dlock-admin",
                "dlock-admin-web",
                "dlock-cli",
                "dlock-conformance",
                "dlock-etcd",
                "dlock-macros",
                "dlock-net",
                "dlock-postgres",
                "dlock-rs",
                "dlock-runtime",
                "dlock-zookeeper"
            ]
        );
    }

    #[test]
    fn licences_lie_in_the_folder_of_each_package() {
        for package in published() {
            let folder = if package == "dlock-rs" { "." } else { package };
            check_licences(&cargo::root().join(folder)).expect("the links to the licences work");
        }
    }

    #[test]
    fn the_readme_begins_with_a_whole_program() {
        let readme = files::read(&cargo::root().join("README.md")).expect("it is there");
        let [manifest, source] = program(&readme).expect("it has a program");
        assert!(
            source.contains("#[tokio::main]\nasync fn main()"),
            "{source}"
        );
        for line in [format!("dlock-rs = \"{VERSION}\""), "tokio = {".to_owned()] {
            assert!(manifest.contains(&format!("\n{line}")), "{manifest}");
        }
        assert!(program("no block").is_err());
    }
}
