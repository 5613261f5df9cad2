//! Sees to it that the tests find `systemd-analyze`, which reads units of systemd without running them.
//!
//! It is that of the machine, or comes from Debian's package, unpacked into `target/tools/systemd` with those of its
//! libraries that this machine lacks. Nothing is installed, and no service starts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{self, find, output};
use crate::{cargo, debian};

/// The oldest version that rates a unit offline.
const OLDEST: u32 = 250;

const VARIABLE: &str = "DLOCK_SYSTEMD_ANALYZE";

const PROGRAM: &str = "systemd-analyze";

const BY_HAND: &str = "\
install systemd 250 or later and run this again, or name its program:
    DLOCK_SYSTEMD_ANALYZE=/path/to/systemd-analyze";

/// Finds or gets it, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    if let Some(named) = machine::variable(VARIABLE) {
        println!("{PROGRAM}: {}", checked(Path::new(&named), "")?);
        return Ok(());
    }
    let folder = cargo::target().join("tools").join("systemd");
    // The note of its libraries is written last.
    let note = folder.join("libraries");
    if !note.is_file() {
        if let Some(Ok(found)) = find(PROGRAM).map(|it| checked(&it, "")) {
            println!("{PROGRAM}: {found}");
            return Ok(());
        }
        println!("no {PROGRAM} found: unpacking it");
        let finish = || {
            let libraries = libraries(&folder)?;
            fs::write(&note, libraries).map_err(|error| format!("`{}`: {error}", note.display()))
        };
        debian::unpack(&folder, wanted, finish)
            .map_err(|reason| format!("no {PROGRAM} found: {reason}; {BY_HAND}"))?;
    }
    let libraries = fs::read_to_string(&note).unwrap_or_default();
    let program = folder.join("usr/bin").join(PROGRAM);
    println!("{PROGRAM}: {}", checked(&program, libraries.trim())?);
    Ok(())
}

/// The packages to unpack: systemd, its own library, and those of the others that are not installed.
fn wanted() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", "systemd"]).unwrap_or_default();
    if depends.trim().is_empty() {
        return Err("the lists of packages have no systemd".to_owned());
    }
    let mut all = debian::would_install(&["systemd"]);
    all.retain(|package| package.starts_with("lib"));
    for package in ["libsystemd-shared", "systemd"] {
        if !all.iter().any(|it| it == package) {
            all.push(package.to_owned());
        }
    }
    Ok(all)
}

/// The directories of libraries, with the ones that only systemd looks into.
fn libraries(folder: &Path) -> Result<String, String> {
    let others = debian::library_path(folder)?;
    let own = std::env::split_paths(&others).map(|it| it.join("systemd"));
    let own = own.filter(|it| it.is_dir());
    let all: Vec<PathBuf> = own.chain(std::env::split_paths(&others)).collect();
    let all = std::env::join_paths(all).map_err(|error| error.to_string())?;
    Ok(all.to_string_lossy().into_owned())
}

/// The place and version of a program, unless it is too old.
fn checked(program: &Path, libraries: &str) -> Result<String, String> {
    let shown = program.display();
    let libraries = format!("LD_LIBRARY_PATH={libraries}");
    let said = output(
        "env",
        &[&*libraries, &*program.display().to_string(), "--version"],
    );
    let said = said.ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    let line = said.lines().next().unwrap_or_default();
    match version(line) {
        Some(version) if version >= OLDEST => Ok(format!("{shown}: {line}")),
        _ => Err(format!(
            "`{shown}` is `{line}`, and the tests need systemd {OLDEST} or later; {BY_HAND}"
        )),
    }
}

/// The number in `systemd 252 (252.38-1~deb12u1)`.
fn version(said: &str) -> Option<u32> {
    said.strip_prefix("systemd ")?
        .split(|it: char| !it.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read() {
        assert_eq!(version("systemd 252 (252.38-1~deb12u1)"), Some(252));
        assert_eq!(version("systemd 249"), Some(249));
        assert_eq!(version("something else"), None);
    }
}
