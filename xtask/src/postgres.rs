//! Sees to it that the tests find PostgreSQL and `PgBouncer`.
//!
//! They come from Debian's packages, unpacked into `target/tools/postgresql` with those of their libraries that this
//! machine lacks. Nothing is installed: Debian would start a server of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{self, find, output};
use crate::{cargo, debian};

/// The oldest version that dlock works with.
const OLDEST: u32 = 14;

/// Another number has what was unpacked before unpacked again.
const LAYOUT: &str = "1";

const BY_HAND: &str = "\
install PostgreSQL 14 or later and PgBouncer and run this again, or name them:
    DLOCK_POSTGRES=/path/to/the/directory/with/its/programs DLOCK_PGBOUNCER=/path/to/pgbouncer";

/// Finds or gets both, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let folder = cargo::target().join("tools").join("postgresql");
    if let Some(named) = named()? {
        println!("postgres: {named}");
        return Ok(());
    }
    if !is_complete(&folder) {
        if let Err(reason) = unpack(&folder) {
            link_to_system(&folder)
                .map_err(|()| format!("no PostgreSQL found: {reason}; {BY_HAND}"))?;
        }
    }
    println!("postgres: {}", version(&folder.join("bin/postgres"))?);
    Ok(())
}

/// What the variables name, if they are set.
fn named() -> Result<Option<String>, String> {
    let (Some(programs), Some(pooler)) = (
        machine::variable("DLOCK_POSTGRES"),
        machine::variable("DLOCK_PGBOUNCER"),
    ) else {
        return Ok(None);
    };
    let postgres = Path::new(&programs).join("postgres");
    for file in [&postgres, Path::new(&pooler)] {
        if !file.is_file() {
            return Err(format!("`{}` is not there", file.display()));
        }
    }
    version(&postgres).map(Some)
}

fn is_complete(folder: &Path) -> bool {
    let note = fs::read_to_string(folder.join("layout")).unwrap_or_default();
    note == LAYOUT
        && folder.join("bin/postgres").is_file()
        && folder.join("usr/sbin/pgbouncer").is_file()
}

/// What a server says of its version, if it is new enough.
fn version(postgres: &Path) -> Result<String, String> {
    let shown = postgres.display();
    let said = output(postgres, &["--version"]).ok_or_else(|| format!("`{shown}` does not run"))?;
    match major(&said) {
        Some(major) if major < OLDEST => Err(format!(
            "`{shown}` is version {major}, and dlock needs PostgreSQL {OLDEST} or later"
        )),
        _ => Ok(format!("{shown}: {}", said.trim())),
    }
}

/// The number in `postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)`.
fn major(said: &str) -> Option<u32> {
    let number = said.split_whitespace().nth(2)?;
    number
        .split(|it: char| !it.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn unpack(folder: &Path) -> Result<(), String> {
    println!("no PostgreSQL found: unpacking it");
    // The place of the programs is known only when they lie there.
    debian::unpack(folder, wanted, || write_notes(folder))
}

/// The packages to unpack: the servers, and those of their libraries that are not installed.
fn wanted() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", "postgresql"]).unwrap_or_default();
    let server = server_in(&depends).ok_or("the lists of packages have no PostgreSQL")?;
    let client = server.replace("postgresql-", "postgresql-client-");
    let installed = debian::would_install(&[&server, "pgbouncer"]);
    let mut all = vec![server, client, "pgbouncer".to_owned()];
    all.extend(installed.into_iter().filter(|it| is_library(it)));
    Ok(all)
}

/// The package that `postgresql` stands for.
fn server_in(depends: &str) -> Option<String> {
    let mut words = depends.split_whitespace();
    let found = words.find(|word| {
        let number = word.strip_prefix("postgresql-");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    })?;
    Some(found.to_owned())
}

/// `true` for a library to unpack. That of the compiler for queries is large and never used.
fn is_library(package: &str) -> bool {
    let unused = ["libllvm", "libz3", "libpq-dev"];
    package.starts_with("lib")
        && !unused.iter().any(|other| package.starts_with(other))
        && !package.ends_with("-perl")
}

/// Puts links to the programs and the note of the libraries where the tests look.
fn write_notes(folder: &Path) -> Result<(), String> {
    let programs =
        newest(&folder.join("usr/lib/postgresql")).ok_or("no PostgreSQL is in the packages")?;
    write(folder, &programs, &debian::library_path(folder)?)
}

/// Uses what is installed.
fn link_to_system(folder: &Path) -> Result<(), ()> {
    let programs = newest(Path::new("/usr/lib/postgresql"))
        .or_else(|| Some(find("postgres")?.parent()?.to_path_buf()))
        .ok_or(())?;
    let pooler = find("pgbouncer").ok_or(())?;
    let place = folder.join("usr/sbin");
    fs::create_dir_all(&place).map_err(drop)?;
    std::os::unix::fs::symlink(pooler, place.join("pgbouncer")).map_err(drop)?;
    write(folder, &programs, "").map_err(drop)
}

fn write(folder: &Path, programs: &Path, libraries: &str) -> Result<(), String> {
    let link = folder.join("bin");
    fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(programs, link)
        .and_then(|()| fs::write(folder.join("libraries"), libraries))
        .and_then(|()| fs::write(folder.join("layout"), LAYOUT))
        .map_err(|error| format!("`{}` cannot be written: {error}", folder.display()))
}

/// The directory with the programs of the newest version.
fn newest(versions: &Path) -> Option<PathBuf> {
    let all = debian::files_in(versions)
        .into_iter()
        .map(|version| version.join("bin"));
    let number =
        |path: &PathBuf| -> Option<u32> { path.parent()?.file_name()?.to_str()?.parse().ok() };
    all.filter(|path| path.join("postgres").is_file())
        .max_by_key(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_what_the_package_without_a_number_stands_for() {
        let said = "postgresql\n  Depends: postgresql-15\n  Suggests: postgresql-doc\n";
        assert_eq!(server_in(said), Some("postgresql-15".to_owned()));
        assert_eq!(server_in("postgresql\n  Suggests: postgresql-doc\n"), None);
    }

    #[test]
    fn only_missing_libraries_are_unpacked() {
        let said = [
            "libc-ares2",
            "libllvm14",
            "libjson-perl",
            "postgresql-common",
        ];
        let libraries: Vec<_> = said.into_iter().filter(|it| is_library(it)).collect();
        assert_eq!(libraries, ["libc-ares2"]);
    }

    #[test]
    fn a_version_is_read() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("something else"), None);
    }
}
