//! Sees to it that the tests find two versions of etcd: 3.5, and 3.4, the oldest that dlock works with.
//!
//! They come from packages of Debian, unpacked into `target/tools`. `tools.rs` has a third one, of which some faults are known.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{self, find, output};
use crate::{cargo, debian, tools};

const PACKAGE: &str = "etcd-server";

/// Another number has what was unpacked before unpacked again.
const LAYOUT: &str = "1";

/// One of the two.
struct Version {
    number: &'static str,
    variable: &'static str,
    /// Its place below `target/tools`.
    folder: &'static str,
    /// The release of Debian that has it.
    release: &'static str,
    /// Gets another one, where that release is not to be had.
    otherwise: fn(&Path) -> Result<PathBuf, String>,
}

const OLD: Version = Version {
    number: "3.4",
    variable: "DLOCK_OLD_ETCD",
    folder: "etcd",
    release: "bookworm",
    otherwise: of_this_system,
};

const USUAL: Version = Version {
    number: "3.5",
    variable: "DLOCK_ETCD",
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
        let is_there =
            fs::read_to_string(&note).is_ok_and(|text| text == LAYOUT) && program.is_file();
        if !is_there {
            println!("no etcd {} found: unpacking it", self.number);
            let cannot = |error: std::io::Error| {
                format!("`{}` cannot be written: {error}", folder.display())
            };
            // It needs no library but that of C.
            let finish = || fs::write(&note, LAYOUT).map_err(cannot);
            if let Err(reason) = debian::unpack_from(self.release, &folder, PACKAGE, finish) {
                let other = (self.otherwise)(&folder)
                    .map_err(|_| format!("no etcd found: {reason}; {}", self.by_hand()))?;
                println!("{reason}: taking {}", other.display());
                if other != program {
                    fs::create_dir_all(folder.join("usr/bin"))
                        .and_then(|()| {
                            fs::remove_file(&program).ok();
                            std::os::unix::fs::symlink(other, &program)
                        })
                        .map_err(cannot)?;
                }
            }
        }
        self.said_by(&program)
    }

    fn by_hand(&self) -> String {
        let Self {
            number, variable, ..
        } = self;
        format!("name an etcd {number} or later: {variable}=/path/to/etcd")
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

/// That of a system like Debian, or the one in the `PATH`.
fn of_this_system(folder: &Path) -> Result<PathBuf, String> {
    let wanted = || Ok(vec![PACKAGE.to_owned()]);
    debian::unpack(folder, wanted, || Ok(()))
        .map(|()| folder.join("usr/bin/etcd"))
        .or_else(|reason| find("etcd").ok_or(reason))
}
