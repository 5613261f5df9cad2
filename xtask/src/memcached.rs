//! Sees to it that the tests find memcached.
//!
//! It comes from Debian's package, unpacked into `target/tools/memcached` with those of its libraries that this machine
//! lacks. Nothing is installed: Debian would start a server of its own.

use std::fs;
use std::path::Path;

use crate::machine::{self, find, output};
use crate::{cargo, debian};

/// The oldest version with the commands that the store sends.
const OLDEST: (u32, u32) = (1, 6);

const BY_HAND: &str = "\
install memcached 1.6 or later and run this again, or name it:
    DLOCK_MEMCACHED=/path/to/memcached";

/// Finds or gets it, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let folder = cargo::target().join("tools").join("memcached");
    let unpacked = folder.join("usr/bin/memcached");
    if let Some(named) = machine::variable("DLOCK_MEMCACHED") {
        return report(Path::new(&named), "");
    }
    // The note of its libraries is written last.
    let note = folder.join("libraries");
    if !note.is_file() {
        if let Some(found) = find("memcached") {
            return report(&found, "");
        }
        println!("no memcached found: unpacking it");
        let finish = || {
            let libraries = debian::library_path(&folder)?;
            fs::write(&note, libraries).map_err(|error| format!("`{}`: {error}", note.display()))
        };
        debian::unpack(&folder, wanted, finish)
            .map_err(|reason| format!("no memcached found: {reason}; {BY_HAND}"))?;
    }
    let libraries = fs::read_to_string(&note).unwrap_or_default();
    report(&unpacked, libraries.trim())
}

/// The packages to unpack: the server, and those of its libraries that are not installed.
fn wanted() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", "memcached"]).unwrap_or_default();
    if depends.trim().is_empty() {
        return Err("the lists of packages have no memcached".to_owned());
    }
    let mut all = debian::would_install(&["memcached"]);
    all.retain(|package| package.starts_with("lib"));
    all.push("memcached".to_owned());
    Ok(all)
}

/// Shows the version of a server, or refuses it.
fn report(server: &Path, libraries: &str) -> Result<(), String> {
    let shown = server.display();
    if !server.is_file() {
        return Err(format!("`{shown}` is not there; {BY_HAND}"));
    }
    let libraries = format!("LD_LIBRARY_PATH={libraries}");
    let program = server.display().to_string();
    let said = output("env", &[&*libraries, &*program, "-V"]);
    let said = said.ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    match version(&said) {
        Some(version) if version < OLDEST => {
            let (major, minor) = OLDEST;
            let said = said.trim();
            Err(format!(
                "`{shown}` is {said}, and the tests need {major}.{minor} or later; {BY_HAND}"
            ))
        }
        _ => {
            println!("memcached: {shown}: {}", said.trim());
            Ok(())
        }
    }
}

/// The first two numbers in `memcached 1.6.18`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split_whitespace().nth(1)?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read() {
        assert_eq!(version("memcached 1.6.18\n"), Some((1, 6)));
        assert_eq!(version("memcached 1.5.22"), Some((1, 5)));
        assert_eq!(version("something else"), None);
    }
}
