//! The dependencies of dlock, against `deny.toml`: licences, sources, versions and wildcards.
//!
//! `cargo deny` knows all of that and more, but takes minutes to build, and its advisories come from
//! outside. So every run of the tests looks at what cargo tells here, and `cargo xtask deny` runs
//! the tool.

mod licence;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cargo::{self, Call};
use crate::crates::Crate;
use crate::machine;

const CARGO_DENY: Crate = Crate {
    name: "cargo-deny",
    version: "0.20.2",
    install: Call::new("install --locked cargo-deny --version 0.20.2"),
};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Runs the tool, and says which of its checks were run.
pub(crate) fn deny() -> Result<(), String> {
    let tool = CARGO_DENY.provide()?.display().to_string();
    let check = |checks: &[&str]| {
        let words = [&[tool.as_str(), "check"], checks].concat();
        machine::run(&words)
            .then_some(())
            .ok_or_else(|| format!("`cargo deny check {}` failed", checks.join(" ")))
    };
    check(&["licenses", "bans", "sources"])?;
    if !machine::run(&[&tool, "fetch", "db"]) {
        eprintln!(
            "advisories LEFT OUT: their database cannot be got from here; licences, bans and \
             sources are as deny.toml says"
        );
        return Ok(());
    }
    check(&["advisories"])?;
    println!("advisories, licences, bans and sources are as deny.toml says");
    Ok(())
}

/// Looks at what cargo tells, without any tool.
pub(crate) fn check() -> Result<(), String> {
    let rules = std::fs::read_to_string(cargo::root().join("deny.toml"))
        .map_err(|error| format!("deny.toml cannot be read: {error}"))?;
    let told = cargo::output("metadata --format-version 1 --all-features --locked")?;
    let told = serde_json::from_str(&told).map_err(|error| format!("cargo metadata: {error}"))?;
    let rules = Rules::read(&rules);
    // Without the tree that `skip-tree` names.
    let tree = cargo::output(
        "tree --package dlock-rs --package dlock-cli --all-features --edges normal,build --target all --prefix none --locked \
         --prune zookeeper-client",
    )?;
    let graph = Graph::read(&told, &tree)?;
    let mut faults = rules.faults(&graph);
    for (words, clients) in UNASKED {
        let tree = cargo::output(&format!(
            "tree {words} --edges normal,build --target all --prefix none --locked"
        ))?;
        let named = |name| format!("{name} is in `{words}`, which does not ask for it");
        faults.extend(found(clients, &tree).map(named));
    }
    if faults.is_empty() {
        let count = graph.packages.len();
        println!(
            "licences, sources, versions and wildcards of {count} packages are as deny.toml says"
        );
        return Ok(());
    }
    Err(format!("against deny.toml:\n  {}", faults.join("\n  ")))
}

/// Trees of packages, and the clients of stores that are in none of them: a program compiles those that it asks for.
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

/// The packages of these names that a tree has.
fn found<'a>(names: &'a [&'a str], tree: &str) -> impl Iterator<Item = &'a str> {
    let has = |name: &str| {
        tree.lines()
            .any(|line| line.split(' ').next() == Some(name))
    };
    names.iter().copied().filter(move |name| has(name))
}

/// The lists of `deny.toml`; that the other rules are as strict as here is tested.
#[derive(Debug)]
struct Rules {
    licences: BTreeSet<String>,
    skip: Vec<String>,
}

impl Rules {
    fn read(text: &str) -> Self {
        Self {
            licences: list(text, "allow").into_iter().collect(),
            skip: list(text, "skip"),
        }
    }

    fn faults(&self, graph: &Graph) -> Vec<String> {
        let mut faults = Vec::new();
        let mut versions = BTreeMap::<_, Vec<_>>::new();
        let mut met = BTreeSet::new();
        for package in &graph.packages {
            let Package { name, version, .. } = package;
            versions.entry(name).or_default().push(version);
            match &package.licence {
                None => faults.push(format!("{name} {version} names no licence")),
                Some(text) => {
                    met.extend(licence::names(text));
                    if !licence::is_met(text, &self.licences) {
                        faults.push(format!("{name} {version} is licensed as `{text}`"));
                    }
                }
            }
            if let Some(source) = package.source.as_deref().filter(|it| *it != CRATES_IO) {
                faults.push(format!("{name} {version} comes from `{source}`"));
            }
            for wildcard in &package.wildcards {
                faults.push(format!("{name} takes any version of {wildcard}"));
            }
        }
        for unused in self.licences.difference(&met) {
            faults.push(format!(
                "the licence `{unused}` is allowed and does not occur"
            ));
        }
        for (name, mut versions) in versions {
            versions.retain(|version| !self.is_skipped(name, version));
            if versions.len() > 1 {
                faults.push(format!("{name} is there more than once: {versions:?}"));
            }
        }
        faults
    }

    fn is_skipped(&self, name: &str, version: &str) -> bool {
        self.skip.iter().any(|skipped| {
            skipped.split_once('@').is_some_and(|(other, begins)| {
                let rest = version.strip_prefix(begins);
                other == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        })
    }
}

/// The texts of `name = [..]`, which may take several lines with comments in them.
fn list(text: &str, name: &str) -> Vec<String> {
    let start = format!("{name} = [");
    let lines = text.lines().skip_while(|line| !line.starts_with(&start));
    let mut texts = Vec::new();
    for line in lines {
        let code = line.split('#').next().unwrap_or_default();
        texts.extend(code.split('"').skip(1).step_by(2).map(str::to_owned));
        if code.contains(']') {
            break;
        }
    }
    texts
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    source: Option<String>,
    /// Dependencies in any version, other than those within the workspace.
    wildcards: Vec<String>,
}

/// The crates that a user's build may contain: the facade and the command, with all features and
/// all that they need, on any platform.
#[derive(Debug)]
struct Graph {
    packages: Vec<Package>,
}

impl Graph {
    /// `told` knows all packages; those that are used have their names and versions in `tree`, one in
    /// each line. Metadata alone would not do: they count features that only tests ask for.
    fn read(told: &Value, tree: &str) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let named = |value: &Value| text(value).ok_or("cargo metadata tells no name");
        let words = |line: &str| {
            let mut words = line.split_whitespace();
            Some((
                words.next()?.to_owned(),
                words.next()?.strip_prefix('v')?.to_owned(),
            ))
        };
        let used: BTreeSet<_> = tree.lines().filter_map(words).collect();
        let mut told_of = BTreeSet::new();
        let mut packages = Vec::new();
        for package in told["packages"].as_array().into_iter().flatten() {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let wildcards = dependencies.filter_map(|it| {
                let is_any = it["req"] == "*" && it["path"].is_null() && it["kind"] != "dev";
                text(&it["name"]).filter(|_| is_any)
            });
            let package = Package {
                name: named(&package["name"])?,
                version: named(&package["version"])?,
                licence: text(&package["license"]),
                source: text(&package["source"]),
                wildcards: wildcards.collect(),
            };
            let named = (package.name.clone(), package.version.clone());
            // There may be several, from several sources.
            if used.contains(&named) {
                told_of.insert(named);
                packages.push(package);
            }
        }
        match used.difference(&told_of).next() {
            Some((name, version)) => Err(format!("nothing is told of {name} {version}")),
            None if packages.is_empty() => Err("cargo tree names no package".to_owned()),
            None => Ok(Self { packages }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deny_toml() -> String {
        std::fs::read_to_string(cargo::root().join("deny.toml")).expect("it is there")
    }

    #[test]
    fn a_client_that_was_not_asked_for_is_found() {
        let tree = "dlock-cli v0.1.0\ntonic v0.14.9\ntonic-prost v0.14.9\nsqlx-core v0.9.0\n";
        assert!(found(&["sqlx", "tonic"], tree).eq(["tonic"]));
    }

    #[test]
    fn the_rules_are_those_of_the_tool() {
        let text = deny_toml();
        let rules = Rules::read(&text);
        assert!(
            rules.licences.contains("MIT") && rules.licences.len() > 4,
            "{rules:?}"
        );
        assert!(!rules.skip.is_empty(), "{rules:?}");
        for line in [
            "all-features = true",
            "exclude-dev = true",
            "unused-allowed-license = \"deny\"",
            "multiple-versions = \"deny\"",
            "wildcards = \"deny\"",
            "allow-wildcard-paths = true",
            "unknown-registry = \"deny\"",
            "unknown-git = \"deny\"",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}");
        }
    }

    #[test]
    fn each_fault_is_found() {
        const TREE: &str =
            "bad v1.0.0 (proc-macro) (/x)\ntwice v0.2.9\ntwice v1.0.0\ntwice v1.0.0 (*)\n";
        let package = |name: &str, version: &str| {
            json!({
                "name": name, "version": version, "id": format!("{name}@{version}"),
                "license": "MIT", "source": CRATES_IO, "dependencies": [],
            })
        };
        let told = |changed: &[(&str, Value)]| {
            let mut bad = package("bad", "1.0.0");
            for (field, value) in changed {
                bad[field] = value.clone();
            }
            json!({"packages": [bad, package("tried", "1.0.0"), package("twice", "0.2.9"),
                package("twice", "1.0.0")]})
        };
        let rules = |skip: &str| {
            let text = format!("allow = [\n    \"MIT\", # a \"b\"\n]\nskip = [{skip}]\n");
            Rules::read(&text)
        };
        let faults = |changed: &[(&str, Value)]| {
            let rules = rules("\"twice@0.2\"");
            rules.faults(&Graph::read(&told(changed), TREE).expect("it can be read"))
        };
        assert_eq!(faults(&[]), [""; 0]);
        let any = json!([{"name": "x", "req": "*", "path": null, "kind": null}]);
        for (field, value, said) in [
            (
                "license",
                json!("GPL-3.0"),
                "bad 1.0.0 is licensed as `GPL-3.0`",
            ),
            ("license", Value::Null, "bad 1.0.0 names no licence"),
            (
                "source",
                json!("git+https://x"),
                "bad 1.0.0 comes from `git+https://x`",
            ),
            ("dependencies", any, "bad takes any version of x"),
        ] {
            assert_eq!(faults(&[(field, value)]), [said]);
        }
        let strict = rules("\"twice@0\", \"twice@0.20\"");
        let strict = Rules {
            skip: strict.skip[1..].to_vec(),
            licences: ["MIT", "ISC"].map(str::to_owned).into(),
        };
        let graph = Graph::read(&told(&[]), TREE).expect("it can be read");
        let said = strict.faults(&graph).join("; ");
        assert!(
            said.contains("`ISC` is allowed and does not occur"),
            "{said}"
        );
        assert!(said.contains("twice is there more than once"), "{said}");
    }

    #[test]
    fn the_same_version_of_another_source_is_seen() {
        const TREE: &str = "same v1.0.0\nsame v1.0.0 (https://x)\n";
        let package = |source: &str| {
            json!({
                "name": "same", "version": "1.0.0", "license": "MIT", "source": source,
                "dependencies": [],
            })
        };
        let rules = Rules::read("allow = [\"MIT\"]\nskip = []\n");
        for sources in [[CRATES_IO, "git+https://x"], ["git+https://x", CRATES_IO]] {
            let told = json!({"packages": sources.map(package)});
            let graph = Graph::read(&told, TREE).expect("it can be read");
            let said = rules.faults(&graph).join("; ");
            assert!(
                said.contains("same 1.0.0 comes from `git+https://x`"),
                "{said}"
            );
            assert!(said.contains("same is there more than once"), "{said}");
        }
    }

    #[test]
    fn a_package_of_which_nothing_is_told_is_named() {
        let told = json!({"packages": []});
        let error = Graph::read(&told, "lost v1.0.0\n").expect_err("nothing is told");
        assert!(error.contains("lost 1.0.0"), "{error}");
        let error = Graph::read(&told, "").expect_err("nothing is there");
        assert!(error.contains("names no package"), "{error}");
    }
}
