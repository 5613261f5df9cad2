//! clippy in place of the compiler, where a whole run builds the tests: clippy is the compiler with more lints, so
//! nothing is read a second time for them.
//!
//! `cargo clippy` tells it the lints that are errors in a variable, which nothing promises to stay. So it first has to find
//! a mistake that is written for it. Where it does not, or something else stands in the compiler's place
//! already, lints are checked by a call of their own.

use std::ffi::OsString;
use std::{env, fs, io};

use crate::cargo;

/// The variables that cargo and clippy read.
pub(crate) const VARIABLES: [&str; 2] = ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"];

const CLIPPY: &str = "clippy-driver";
const ERRORS: &str = "-Dwarnings";

const PACKAGE: &str =
    "[package]\nname = \"linted\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n[workspace]\n";
/// For the compiler nothing is wrong with it.
const MISTAKE: &str = "pub fn two() -> u32 {\n    return 2;\n}\n";

const BOTH: &str = "with all lints as errors; `cargo xtask test lint` checks them alone";

/// Whether a build checks all lints.
pub(crate) struct Lints {
    variables: Vec<(String, OsString)>,
}

impl Lints {
    pub(crate) fn unchecked() -> Self {
        let variables = Vec::new();
        Self { variables }
    }

    /// Builds with all lints, if clippy can be had for it.
    fn checked() -> Self {
        let checked = Self::by_clippy();
        let is_free = VARIABLES.iter().all(|it| env::var_os(it).is_none());
        if is_free && finds_a_mistake(&checked.variables).unwrap_or(false) {
            return checked;
        }
        Self::unchecked()
    }

    /// Builds everything once. What the compiler would note for the next change takes a seventh of its time.
    pub(crate) fn of_whole_run(are_checked: bool) -> Self {
        let mut lints = if are_checked {
            Self::checked()
        } else {
            Self::unchecked()
        };
        let once = ("CARGO_INCREMENTAL".to_owned(), "0".into());
        lints.variables.push(once);
        lints
    }

    fn by_clippy() -> Self {
        let variables = VARIABLES.into_iter().zip([CLIPPY, ERRORS]);
        let variables = variables.map(|(name, value)| (name.to_owned(), value.into()));
        Self {
            variables: variables.collect(),
        }
    }

    pub(crate) fn are_checked(&self) -> bool {
        self.variables.iter().any(|(name, _)| name == VARIABLES[0])
    }

    /// The variables of a build.
    pub(crate) fn variables(&self) -> &[(String, OsString)] {
        &self.variables
    }

    /// The failure of a build, and how to see the lints alone.
    pub(crate) fn explain(&self, failure: String) -> String {
        if self.are_checked() {
            return failure + "\n" + BOTH;
        }
        failure
    }
}

/// Whether a build finds a mistake under these variables, and none where there is none.
fn finds_a_mistake(variables: &[(String, OsString)]) -> io::Result<bool> {
    let folder = cargo::target().join("linted");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("Cargo.toml"), PACKAGE)?;
    let finds_one = |source: &str| -> io::Result<bool> {
        fs::write(folder.join("lib.rs"), source)?;
        let mut build = cargo::command(&folder);
        build.args(["check", "--quiet", "--offline", "--target-dir", "target"]);
        let outcome = build.envs(variables.iter().cloned()).output()?;
        let said = String::from_utf8_lossy(&outcome.stderr);
        Ok(!outcome.status.success() && said.contains("clippy::needless_return"))
    };
    Ok(finds_one(MISTAKE)? && !finds_one(&MISTAKE.replace("return 2;", "2"))?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn clippy_finds_a_mistake_in_place_of_the_compiler() {
        let by = |lints: &Lints| finds_a_mistake(&lints.variables).expect("cargo can be run");
        assert!(by(&Lints::by_clippy()));
        assert!(!by(&Lints::unchecked()));
    }

    /// A program without tests of its own is built for those of its package, a library for both.
    #[test]
    fn the_tests_are_built_with_every_target() {
        let told = cargo::output("metadata --format-version 1 --no-deps --locked").unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let is = |target: &Value, kind: &str| target["kind"][0] == kind;
        let mut programs = 0;
        for package in told["packages"].as_array().unwrap() {
            let targets = package["targets"].as_array().unwrap();
            let is_tested = targets
                .iter()
                .any(|it| is(it, "test") && it["test"] == true);
            for target in targets.iter().filter(|it| it["test"] == false) {
                let is_built =
                    is(target, "example") || is_tested || targets.len() > 1 && is(target, "lib");
                assert!(is_built, "no test needs {target}, so it has no lints");
                programs += u32::from(is(target, "bin"));
            }
        }
        assert!(programs > 0, "some are without tests");
    }
}
