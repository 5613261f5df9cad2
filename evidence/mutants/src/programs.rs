//! The programs that are built once from the copy: test binaries, and the simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::look::Target;
use super::switch::VARIABLE;
use super::tree::Tree;
use crate::workspace;

const SIMULATION: &str = "build --release --locked --package dlock-sim";

pub(super) struct Programs {
    tests: BTreeMap<Target, Program>,
    simulation: Option<Program>,
}

/// A program, and the folder in which cargo would run it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

impl Programs {
    /// Builds what the looks need.
    pub(super) fn build(
        tree: &Tree,
        targets: &[Target],
        needs_simulation: bool,
    ) -> Result<Self, String> {
        let mut tests = BTreeMap::new();
        let mut packages: Vec<_> = targets.iter().map(|target| target.package).collect();
        packages.sort_unstable();
        packages.dedup();
        for package in packages {
            let own = targets.iter().filter(|target| target.package == package);
            let own: Vec<_> = own.copied().collect();
            let told = built(tree, &call(package, &own))?;
            for target in own {
                let program = find(&told, target)
                    .ok_or_else(|| format!("cargo has not built {}", target.name()))?;
                tests.insert(target, program);
            }
        }
        let simulation = if needs_simulation {
            built(tree, SIMULATION)?;
            Some(Program {
                path: tree.target.join("release/dlock-sim"),
                folder: tree.sources.clone(),
            })
        } else {
            None
        };
        Ok(Self { tests, simulation })
    }

    /// A test binary with a mistake switched on.
    pub(super) fn test(&self, target: Target, mistake: Option<&str>) -> Command {
        let program = self.tests.get(&target).expect("every target was built");
        program.command(mistake)
    }

    pub(super) fn simulation(&self, mistake: Option<&str>) -> Command {
        let program = self.simulation.as_ref().expect("it was built");
        program.command(mistake)
    }
}

impl Program {
    fn command(&self, mistake: Option<&str>) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command.env_remove(VARIABLE);
        command.envs(mistake.map(|name| (VARIABLE, name)));
        command
    }
}

/// The arguments that build these tests of one package.
fn call(package: &str, targets: &[Target]) -> String {
    let mut call = format!("test --no-run --locked --all-features --package {package}");
    for target in targets {
        call += match target.test {
            Some(_) => " --test ",
            None if package == "dlock-cli" => " --bins",
            None => " --lib",
        };
        call += target.test.unwrap_or_default();
    }
    call
}

/// The packages with mistakes, and those between them and the command.
const COPIED: [&str; 10] = [
    "dlock-admin",
    "dlock-admin-web",
    "dlock-cli",
    "dlock-etcd",
    "dlock-macros",
    "dlock-net",
    "dlock-postgres",
    "dlock-rs",
    "dlock-runtime",
    "dlock-zookeeper",
];

/// Sees that the copy compiles with all mistakes, over the dependencies that this checkout has compiled for clippy.
pub(super) fn compiles(tree: &Tree) -> Result<(), String> {
    // Cargo names what it builds by the place inside a workspace, so this checkout would take the copy's packages for
    // its own. Another profile has other names.
    let apart = COPIED.map(|name| format!("--config profile.dev.package.{name}.codegen-units=17"));
    let apart = apart.join(" ");
    for call in [
        "check --lib --all-features --locked --package dlock-admin --package dlock-admin-web --package dlock-runtime --package dlock-macros --package dlock-net \
         --package dlock-postgres --package dlock-etcd --package dlock-zookeeper",
        // The command, too; it is no library.
        "check --bins --all-features --locked --package dlock-cli",
    ] {
        told(tree, &workspace::target(), &format!("{call} {apart}"))?;
    }
    Ok(())
}

/// The names of the mistakes with which the copy does not compile.
pub(super) fn broken(tree: &Tree, packages: &BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for package in packages {
        let target = if package == "dlock-cli" {
            "bins"
        } else {
            "lib"
        };
        let call = format!("check --{target} --all-features --locked --package {package}");
        let output = output(tree, &tree.target, &call, "json")?;
        if output.status.success() {
            continue;
        }
        let before = names.len();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message: Value = serde_json::from_str(line).unwrap_or_default();
            if message["message"]["level"] == "error" {
                names.extend(blamed(tree, &message["message"]["spans"]));
            }
        }
        if names.len() == before {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo {call} fails:\n{said}"));
        }
        // What depends on it does not compile either.
        break;
    }
    Ok(names)
}

/// The mistake in which one of these places of an error lies, the first of them if possible; else one in such a place, or the
/// last one before it, or the first one behind it.
fn blamed(tree: &Tree, spans: &Value) -> Option<String> {
    let (primary, others): (Vec<_>, Vec<_>) = spans
        .as_array()?
        .iter()
        .partition(|span| span["is_primary"] == true);
    let place = |span: &&Value| {
        let text = fs::read_to_string(tree.sources.join(span["file_name"].as_str()?)).ok()?;
        let at = |end: &str| usize::try_from(span[end].as_u64()?).ok();
        Some((text, at("byte_start")?, at("byte_end")?))
    };
    let places = primary.into_iter().chain(others);
    let places: Vec<_> = places.filter_map(|span| place(&span)).collect();
    let first = |part: &str| {
        let (_, name) = part.split_once("/*<")?;
        Some(name.split_once("*/")?.0.to_owned())
    };
    let around = places
        .iter()
        .find_map(|(text, start, _)| around(text, *start));
    let inside = || {
        let mut parts = places
            .iter()
            .filter_map(|(text, start, end)| text.get(*start..*end));
        parts.find_map(first)
    };
    let before = || {
        let mut parts = places.iter().map(|(text, start, _)| &text[..*start]);
        parts.find_map(|it| first(&it[it.rfind("/*<")?..]))
    };
    let behind = || {
        places
            .iter()
            .find_map(|(text, start, _)| first(&text[*start..]))
    };
    around.or_else(inside).or_else(before).or_else(behind)
}

/// The innermost mistake around this place of a text.
fn around(text: &str, at: usize) -> Option<String> {
    let mut open = Vec::new();
    let mut rest = text.get(..at)?;
    while let Some((_, comment)) = rest.split_once("/*") {
        let (name, behind) = comment.split_once("*/")?;
        if let Some(name) = name.strip_prefix('<') {
            open.push(name);
        } else if name.ends_with('>') {
            open.pop();
        }
        rest = behind;
    }
    open.pop().map(str::to_owned)
}

/// Runs cargo over the copy, and returns what it has built, a message in each line.
fn built(tree: &Tree, call: &str) -> Result<String, String> {
    told(tree, &tree.target, call)
}

fn told(tree: &Tree, target: &Path, call: &str) -> Result<String, String> {
    let output = output(tree, target, call, "json-render-diagnostics")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("cargo {call} fails:\n{said}"))
}

fn output(tree: &Tree, target: &Path, call: &str, format: &str) -> Result<Output, String> {
    println!("$ cargo {call}");
    let mut command = workspace::cargo(&tree.sources);
    command.args(call.split(' '));
    command.arg(format!("--message-format={format}"));
    command.env("CARGO_TARGET_DIR", target);
    command
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))
}

/// The test binary of `target`, by what cargo says that it has built.
fn find(told: &str, target: Target) -> Option<Program> {
    told.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let executable = message["executable"].as_str()?;
        let is_test = message["profile"]["test"] == true;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let kind = message["target"]["kind"][0].as_str()?;
        let is_meant = match target.test {
            Some(test) => kind == "test" && message["target"]["name"] == test,
            None => ["lib", "bin", "proc-macro"].contains(&kind),
        };
        (is_test && is_meant).then(|| Program {
            path: executable.into(),
            folder: manifest.parent().unwrap_or_else(|| Path::new("")).into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::look::{COMMAND, RUNTIME, TYPED, facade};
    use super::*;

    #[test]
    fn the_tests_of_a_package_are_built_by_one_call() {
        let built = call("dlock-tests", &[facade("servers"), facade("failover")]);
        assert!(
            built.ends_with("--package dlock-tests --test servers --test failover"),
            "{built}"
        );
        assert!(call("dlock-runtime", &[RUNTIME]).ends_with(" --lib"));
        assert!(call("dlock-cli", &[COMMAND, TYPED]).ends_with(" --bins --test cli"));
    }

    #[test]
    fn a_test_binary_is_found_among_the_messages() {
        let message = |kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"executable":"/t/{name}-1","manifest_path":"/p/Cargo.toml","profile":{{"test":{test}}},"target":{{"kind":["{kind}"],"name":"{name}"}}}}"#
            )
        };
        let told = [
            "no message".to_owned(),
            message("bin", "dlock", false),
            message("bin", "dlock", true),
            message("test", "cli", true),
        ];
        let told = told.join("\n");
        let path = |target| find(&told, target).map(|program| program.path);
        assert_eq!(path(COMMAND), Some("/t/dlock-1".into()));
        assert_eq!(path(TYPED), Some("/t/cli-1".into()));
        assert_eq!(path(facade("servers")), None);
    }
}
