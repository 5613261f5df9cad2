//! Sees to it that the tests find PostgreSQL and `PgBouncer`.
//!
//! They come from Debian's packages, unpacked into `target/tools/postgresql` with those of their libraries that this
//! machine lacks. Nothing is installed: Debian would start a server of its own.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::machine::{self, find, output, run};
use crate::{cargo, packages};

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
        let facts = packages::Facts::gather();
        let unpacked = if facts.debian && !facts.forbidden {
            unpack(&folder)
        } else {
            Err("no packages of Debian can be got here".to_owned())
        };
        if let Err(reason) = unpacked {
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
    let staging = folder.with_extension(format!("new-{}", std::process::id()));
    remove(&staging);
    let got = download_and_unpack(&staging).and_then(|()| {
        remove(folder);
        fs::rename(&staging, folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        // The place is known only now.
        write_notes(folder)
    });
    remove(&staging);
    got
}

fn download_and_unpack(staging: &Path) -> Result<(), String> {
    let wanted = wanted().or_else(|_| {
        // A bare machine has no lists of packages.
        packages::update();
        wanted()
    })?;
    let archives = staging.join("archives");
    fs::create_dir_all(&archives).map_err(|error| format!("`{}`: {error}", archives.display()))?;
    let names = wanted
        .iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(" ");
    let script = format!(
        "cd '{}' && apt-get -q -o Acquire::Retries=3 download {names}",
        archives.display()
    );
    if !run(&["sh", "-c", &script]) {
        packages::update();
        if !run(&["sh", "-c", &script]) {
            return Err("the packages could not be downloaded".to_owned());
        }
    }
    for archive in files_in(&archives) {
        let archive = archive.display().to_string();
        if !run(&["dpkg-deb", "-x", &archive, &staging.display().to_string()]) {
            return Err(format!("`{archive}` could not be unpacked"));
        }
    }
    remove(&archives);
    Ok(())
}

/// The packages to unpack: the servers, and those of their libraries that are not installed.
fn wanted() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", "postgresql"]).unwrap_or_default();
    let server = server_in(&depends).ok_or("the lists of packages have no PostgreSQL")?;
    let client = server.replace("postgresql-", "postgresql-client-");
    let simulated = [
        "-s",
        "install",
        "--no-install-recommends",
        &server,
        "pgbouncer",
    ];
    let simulated = output("apt-get", &simulated).unwrap_or_default();
    let mut all = vec![server, client, "pgbouncer".to_owned()];
    all.extend(libraries_in(&simulated));
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

/// The libraries that would be installed. That of the compiler for queries is large and never used.
fn libraries_in(simulated: &str) -> impl Iterator<Item = String> {
    let names = simulated
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
    let libraries = names.filter(|name| {
        name.starts_with("lib")
            && !["libllvm", "libz3", "libpq-dev"]
                .iter()
                .any(|other| name.starts_with(other))
            && !name.ends_with("-perl")
    });
    libraries.map(str::to_owned)
}

/// Puts links to the programs and the note of the libraries where the tests look.
fn write_notes(folder: &Path) -> Result<(), String> {
    let programs =
        newest(&folder.join("usr/lib/postgresql")).ok_or("no PostgreSQL is in the packages")?;
    let libraries: Vec<_> = ["usr/lib", "lib"]
        .iter()
        .flat_map(|below| files_in(&folder.join(below)))
        .filter(|it| it.is_dir() && it.display().to_string().contains("linux-gnu"))
        .collect();
    let libraries = env::join_paths(libraries).map_err(|error| error.to_string())?;
    write(folder, &programs, &libraries.to_string_lossy())
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
    let all = files_in(versions)
        .into_iter()
        .map(|version| version.join("bin"));
    let number =
        |path: &PathBuf| -> Option<u32> { path.parent()?.file_name()?.to_str()?.parse().ok() };
    all.filter(|path| path.join("postgres").is_file())
        .max_by_key(number)
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder);
    read.map(|all| all.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default()
}

fn remove(folder: &Path) {
    fs::remove_dir_all(folder).ok();
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
        let said = "Inst libc-ares2 (1.18.1-3 Debian:12 [amd64])\n\
                    Inst libllvm14 (1:14.0.6-12 Debian:12 [amd64])\n\
                    Inst libjson-perl (4 Debian:12 [all])\n\
                    Inst postgresql-common (248 Debian:12 [all])\n\
                    Conf libc-ares2 (1.18.1-3 Debian:12 [amd64])\n";
        assert_eq!(libraries_in(said).collect::<Vec<_>>(), ["libc-ares2"]);
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
