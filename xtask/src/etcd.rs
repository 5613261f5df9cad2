//! Sees to it that the tests find two versions of etcd: 3.5, and 3.4, the oldest that dlock works with.
//!
//! They come from packages of Debian, unpacked into `target/tools`. `tools.rs` has a third one, of which some faults are known.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{self, find, output};
use crate::{cargo, debian, tools};

const PACKAGE: &str = "etcd-server";

/// Another number has what was unpacked before unpacked again.
const LAYOUT: &str = "2";

/// One of the two.
struct Version {
    number: &'static str,
    variable: &'static str,
    /// The versions that may be named. Before 3.4.16, `--unsafe-no-fsync` loses what was confirmed when the server is killed.
    named: &'static str,
    /// Its place below `target/tools`.
    folder: &'static str,
    /// The release of Debian that has it.
    release: &'static str,
    /// Gets another one, where the package of that release cannot be used.
    otherwise: fn(&Path) -> Result<PathBuf, String>,
}

const OLD: Version = Version {
    number: "3.4",
    variable: "DLOCK_OLD_ETCD",
    named: "3.4.16 or later",
    folder: "etcd",
    release: "bookworm",
    otherwise: of_this_system,
};

const USUAL: Version = Version {
    number: "3.5",
    variable: "DLOCK_ETCD",
    named: "3.5 or later",
    folder: "etcd-3.5",
    release: "trixie",
    otherwise: |_| tools::early_etcd(),
};

/// Finds or gets both, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    for version in [OLD, USUAL] {
        println!("etcd-{}: {}", version.number, version.provide()?);
    }
    Ok(())
}

impl Version {
    fn provide(&self) -> Result<String, String> {
        if let Some(named) = machine::variable(self.variable) {
            return self.said_by(Path::new(&named));
        }
        let folder = cargo::target().join("tools").join(self.folder);
        let program = folder.join("usr/bin/etcd");
        let note = folder.join("layout");
        let [ours, other] = [self.release, "other"].map(|from| format!("{LAYOUT} {from}"));
        let noted = fs::read_to_string(&note).unwrap_or_default();
        if noted == ours && program.is_file() {
            return self.said_by(&program);
        }
        println!("no etcd {} of Debian found: unpacking it", self.number);
        let write = |text: &str| {
            let written = fs::write(&note, text);
            written.map_err(|error| format!("`{}`: {error}", note.display()))
        };
        // It needs no library but that of C, which may be too old for it.
        let finish = || self.said_by(&program).and_then(|_| write(&ours));
        let Err(reason) = debian::unpack_from(self.release, &folder, PACKAGE, finish) else {
            return self.said_by(&program);
        };
        if noted != other || self.said_by(&program).is_err() {
            let found = (self.otherwise)(&folder).map_err(|another| {
                format!(
                    "no etcd {} found: {reason}; {another}; {}",
                    self.number,
                    self.by_hand()
                )
            })?;
            link(&found, &program).map_err(|error| format!("`{}`: {error}", program.display()))?;
            write(&other)?;
        }
        let said = self.said_by(&program)?;
        println!("{reason}: another one is taken");
        Ok(said)
    }

    fn by_hand(&self) -> String {
        let (named, variable) = (self.named, self.variable);
        format!("name an etcd {named}: {variable}=/path/to/etcd")
    }

    /// A program, and the version that it says it is.
    fn said_by(&self, program: &Path) -> Result<String, String> {
        let shown = program.display();
        let by_hand = self.by_hand();
        let said = output(program, &["--version"])
            .ok_or_else(|| format!("`{shown}` does not run; {by_hand}"))?;
        let line = said.lines().next().unwrap_or_default();
        if !line.starts_with("etcd Version: 3.") {
            return Err(format!(
                "`{shown}` says `{line}`, which is not an etcd; {by_hand}"
            ));
        }
        Ok(format!("{shown}: {line}"))
    }
}

/// Puts a link to a program at another place.
fn link(program: &Path, place: &Path) -> std::io::Result<()> {
    let program = fs::canonicalize(program)?;
    if program == place {
        return Ok(());
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::remove_file(place).ok();
    std::os::unix::fs::symlink(program, place)
}

/// That of a system like Debian, or the one in the `PATH`.
fn of_this_system(folder: &Path) -> Result<PathBuf, String> {
    let wanted = || Ok(vec![PACKAGE.to_owned()]);
    debian::unpack(folder, wanted, || Ok(()))
        .map(|()| folder.join("usr/bin/etcd"))
        .or_else(|reason| find("etcd").ok_or(reason))
}
