//! Unpacks packages of Debian into a folder, with those of their libraries that this machine lacks.
//!
//! Nothing is installed: Debian would start the servers in the packages.

mod release;

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::machine::{output, run};
use crate::packages;

pub(crate) use release::unpack_from;

/// Unpacks packages into `folder`, in place of what is there. `finish` writes notes into it when its place is known.
pub(crate) fn unpack(
    folder: &Path,
    wanted: impl Fn() -> Result<Vec<String>, String>,
    finish: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    unpack_by(folder, |archives| download(archives, wanted), finish)
}

/// The same with archives that `download` puts into the folder that it is given.
fn unpack_by(
    folder: &Path,
    download: impl FnOnce(&Path) -> Result<(), String>,
    finish: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let facts = packages::Facts::gather();
    if !facts.debian || facts.forbidden {
        return Err("no packages of Debian can be got here".to_owned());
    }
    let staging = folder.with_extension(format!("new-{}", std::process::id()));
    remove(&staging);
    let got = unpack_into(&staging, download).and_then(|()| {
        remove(folder);
        fs::rename(&staging, folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        finish()
    });
    remove(&staging);
    got
}

fn unpack_into(
    staging: &Path,
    download: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let archives = staging.join("archives");
    fs::create_dir_all(&archives).map_err(|error| format!("`{}`: {error}", archives.display()))?;
    download(&archives)?;
    let files = files_in(&archives);
    let packages = files
        .iter()
        .filter(|it| it.extension().is_some_and(|it| it == "deb"));
    for archive in packages {
        let archive = archive.display().to_string();
        if !run(&["dpkg-deb", "-x", &archive, &staging.display().to_string()]) {
            return Err(format!("`{archive}` could not be unpacked"));
        }
    }
    remove(&archives);
    Ok(())
}

/// Downloads packages of this machine's own release.
fn download(
    archives: &Path,
    wanted: impl Fn() -> Result<Vec<String>, String>,
) -> Result<(), String> {
    let wanted = wanted().or_else(|_| {
        // A bare machine has no lists of packages.
        packages::update();
        wanted()
    })?;
    let names = wanted.iter().map(String::as_str);
    let words: Vec<_> = ["download"].into_iter().chain(names).collect();
    if !apt_get(archives, &[], &words) {
        packages::update();
        if !apt_get(archives, &[], &words) {
            return Err("the packages could not be downloaded".to_owned());
        }
    }
    Ok(())
}

/// Runs apt-get in a folder, which is where it puts downloads, and returns whether it succeeded. Settings are `name=value`.
fn apt_get(folder: &Path, settings: &[String], words: &[&str]) -> bool {
    let folder = folder.display().to_string();
    let mut all = vec!["env", "-C", &folder, "apt-get", "-q"];
    // For a network with gaps.
    all.extend(["-o", "Acquire::Retries=3"]);
    all.extend(settings.iter().flat_map(|it| ["-o", it]));
    all.extend(words);
    run(&all)
}

/// The packages that an installation of these would install, themselves among them. None if the lists of packages do
/// not have them.
pub(crate) fn would_install(packages: &[&str]) -> Vec<String> {
    let simulated = [&["-s", "install", "--no-install-recommends"], packages].concat();
    installed_in(&output("apt-get", &simulated).unwrap_or_default())
}

fn installed_in(simulated: &str) -> Vec<String> {
    let names = simulated
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// The directories of an unpacked folder in which its libraries lie, as `LD_LIBRARY_PATH` names them.
pub(crate) fn library_path(folder: &Path) -> Result<String, String> {
    let libraries: Vec<_> = ["usr/lib", "lib"]
        .iter()
        .flat_map(|below| files_in(&folder.join(below)))
        .filter(|it| it.is_dir() && it.display().to_string().contains("linux-gnu"))
        .collect();
    let libraries = env::join_paths(libraries).map_err(|error| error.to_string())?;
    Ok(libraries.to_string_lossy().into_owned())
}

pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
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
    fn a_simulated_installation_names_its_packages() {
        let said = "Inst libc-ares2 (1.18.1-3 Debian:12 [amd64])\n\
                    Inst postgresql-common (248 Debian:12 [all])\n\
                    Conf libc-ares2 (1.18.1-3 Debian:12 [amd64])\n";
        assert_eq!(installed_in(said), ["libc-ares2", "postgresql-common"]);
    }
}
