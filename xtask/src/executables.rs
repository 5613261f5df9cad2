//! The test executables, as cargo would start them.
//!
//! Cargo builds them and calls this program as its runner once for each. The runner starts no test: it writes down
//! the program, arguments, folder and variables that it was given. They are exactly those of `cargo test`, and go to
//! a pipe, as the variables of a user may be secrets that no file should keep.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cargo::{self, Call};
use crate::linted::{self, Lints};

/// The arguments of cargo that choose features; those of a package alone are chosen by the same.
const FEATURES: [&str; 2] = ["--all-features", "--no-default-features"];

/// A test executable with everything that a process begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    program: OsString,
    arguments: Vec<OsString>,
    folder: OsString,
    variables: Vec<(OsString, OsString)>,
}

/// A test executable and the call by which a user repeats it.
#[derive(Clone)]
pub(crate) struct Executable {
    record: Record,
    /// The call of cargo that runs this executable and no other one.
    pub(crate) repeated_by: String,
}

/// Writes down how cargo starts a test executable.
pub(crate) fn record(program: &Path, arguments: Vec<OsString>) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", program.display());
    let is_of_the_build = |name: &OsString| {
        let name = name.to_string_lossy();
        let is_runner = name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER");
        is_runner || linted::VARIABLES.contains(&name.as_ref())
    };
    let folder = env::current_dir().map_err(failed)?;
    let record = Record {
        // Cargo names it relative to its own folder in some versions.
        program: program.canonicalize().map_err(failed)?.into_os_string(),
        arguments,
        folder: folder.into_os_string(),
        // Tests call cargo as well, and are not to call this program or clippy by it.
        variables: env::vars_os()
            .filter(|(it, _)| !is_of_the_build(it))
            .collect(),
    };
    let record = serde_json::to_string(&record).map_err(|error| error.to_string())?;
    println!("{record}");
    Ok(())
}

/// Builds the test executables of a call; `None` where cargo cannot be given the runner.
pub(crate) fn built(call: &Call, lints: &Lints) -> Result<Option<Vec<Executable>>, String> {
    let Some(runner) = runner() else {
        return Ok(None);
    };
    let variables = [&[runner], lints.variables()].concat();
    let records = call.output_under(&variables);
    let records = records.map_err(|failure| lints.explain(failure))?;
    let records: Result<Vec<Record>, _> = records.lines().map(serde_json::from_str).collect();
    let records =
        records.map_err(|error| format!("{}: no runner wrote this: {error}", call.line()))?;
    let described = cargo::output("metadata --no-deps --format-version 1 --locked")?;
    let described = serde_json::from_str(&described).map_err(|error| error.to_string())?;
    let executables = records.into_iter().map(|record| Executable {
        repeated_by: record.repeated_by(call, &described),
        record,
    });
    Ok(Some(executables.collect()))
}

/// The variable by which cargo runs test executables through this program; `None` where another runner is set,
/// or this program cannot be named to cargo.
fn runner() -> Option<(String, OsString)> {
    let variable = runner_of(&cargo::output("-vV").ok()?)?;
    let program = env::current_exe().ok()?;
    let has_space = program.to_str()?.contains(char::is_whitespace);
    if has_space || env::var_os(&variable).is_some() {
        return None;
    }
    let mut runner = program.into_os_string();
    runner.push(" record");
    Some((variable, runner))
}

/// The variable that names the runner for this machine, by the answer to `cargo -vV`.
fn runner_of(version: &str) -> Option<String> {
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))?;
    let host = host.to_uppercase().replace(['-', '.'], "_");
    Some(format!("CARGO_TARGET_{host}_RUNNER"))
}

impl Executable {
    /// Describes the process as cargo would start it.
    pub(crate) fn command(&self) -> Command {
        let Record {
            program,
            arguments,
            folder,
            variables,
        } = &self.record;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.env_clear();
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// The same with further arguments of the harness.
    pub(crate) fn with(&self, arguments: &[&str]) -> Self {
        let mut other = self.clone();
        if !other.repeated_by.contains(" -- ") {
            other.repeated_by += " --";
        }
        for argument in arguments {
            other.repeated_by.extend([" ", argument]);
        }
        let arguments = arguments.iter().map(Into::into);
        other.record.arguments.extend(arguments);
        other
    }

    /// A shell with a script; `$1` is the first argument of the harness.
    #[cfg(test)]
    pub(crate) fn of_shell(script: &str, repeated_by: &str) -> Self {
        let path = env::var_os("PATH").expect("a shell has been found by it");
        Self {
            record: Record {
                program: "/bin/sh".into(),
                arguments: ["-c", script, "sh"].map(Into::into).into(),
                folder: "/".into(),
                variables: vec![("PATH".into(), path)],
            },
            repeated_by: repeated_by.to_owned(),
        }
    }

    /// The value of a variable that the process gets.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.record.variable(name)
    }

    /// The name of the target, as Rust names its crate.
    pub(crate) fn name(&self) -> String {
        self.record.name()
    }

    /// The name of its package.
    pub(crate) fn package(&self) -> String {
        self.variable("CARGO_PKG_NAME").unwrap_or_default()
    }
}

impl Record {
    fn variable(&self, name: &str) -> Option<String> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(it, _)| it == name)?;
        value.to_str().map(ToOwned::to_owned)
    }

    /// The name of the file without the hash that cargo appends.
    fn name(&self) -> String {
        let path = PathBuf::from(&self.program);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let end = stem.rfind('-').unwrap_or(stem.len());
        stem[..end].to_owned()
    }

    /// The call for this executable alone, by the description of the packages that cargo gives.
    fn repeated_by(&self, call: &Call, described: &Value) -> String {
        let package = self.variable("CARGO_PKG_NAME").unwrap_or_default();
        let mut words = vec!["cargo test --package".to_owned(), package.clone()];
        let features = call.words().filter(|it| FEATURES.contains(it));
        words.extend(features.map(ToOwned::to_owned));
        words.push("--locked".to_owned());
        words.extend(target(described, &package, &self.name()));
        if !self.arguments.is_empty() {
            words.push("--".to_owned());
            let arguments = self.arguments.iter().map(|it| it.to_string_lossy());
            words.extend(arguments.map(Into::into));
        }
        words.join(" ")
    }
}

/// The arguments that choose the target of a package whose crate has this name.
fn target(described: &Value, package: &str, name: &str) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&described["packages"]);
    let package = packages.iter().find(|it| it["name"] == package);
    let targets = package.map_or_else(Vec::new, |it| list(&it["targets"]));
    // A library and a program may have one name. Then both are chosen.
    let mut words = Vec::new();
    for target in targets.iter().filter(|it| it["test"] == true) {
        let own = target["name"].as_str().unwrap_or_default();
        if own.replace('-', "_") != name {
            continue;
        }
        match target["kind"][0].as_str() {
            Some(kind @ ("bin" | "test" | "example" | "bench")) => {
                words.extend([format!("--{kind}"), own.to_owned()]);
            }
            _ => words.push("--lib".to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Record {
        let text = |it: &str| OsString::from(it);
        Record {
            program: text("/t/debug/deps/in_process-28c99331f51c7225"),
            arguments: Vec::new(),
            folder: text("/"),
            variables: vec![
                (text("CARGO_PKG_NAME"), text("dlock-tests")),
                (text("PASSWORD"), text("a b\n\"c\"")),
            ],
        }
    }

    #[test]
    fn cargo_is_told_of_the_runner_by_the_name_of_the_machine() {
        let version = "cargo 1.95.0\nhost: x86_64-unknown-linux-gnu\nos: Debian\n";
        let variable = runner_of(version);
        let expected = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
        assert_eq!(variable.as_deref(), Some(expected));
        assert_eq!(runner_of("cargo 1.95.0"), None);
    }

    #[test]
    fn a_record_is_one_line_and_is_read_as_it_was_written() {
        let line = serde_json::to_string(&record()).unwrap();
        assert_eq!(line.lines().count(), 1);
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record());
    }

    #[test]
    fn a_process_gets_what_was_recorded_and_nothing_else() {
        let record = Record {
            program: "/usr/bin/env".into(),
            ..record()
        };
        let executable = Executable {
            record,
            repeated_by: String::new(),
        };
        let mut shown = executable.command();
        let output = shown.output().unwrap();
        let expected = "CARGO_PKG_NAME=dlock-tests\nPASSWORD=a b\n\"c\"\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }

    #[test]
    fn an_executable_is_repeated_by_its_package_features_and_target() {
        let targets = json!([
            { "name": "in-process", "kind": ["test"], "test": true },
            { "name": "in_process", "kind": ["lib"], "test": false },
            { "name": "servers", "kind": ["test"], "test": true },
        ]);
        let described = json!({ "packages": [
            { "name": "other", "targets": [{ "name": "in_process", "kind": ["lib"], "test": true }] },
            { "name": "dlock-tests", "targets": targets },
        ] });
        let call = Call::new("test --workspace --no-default-features --locked");
        assert_eq!(
            record().repeated_by(&call, &described),
            "cargo test --package dlock-tests --no-default-features --locked --test in-process"
        );
        assert_eq!(target(&described, "other", "in_process"), ["--lib"]);
    }
}
