//! The files of tools in `target/tools`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::machine::find;

/// The settings of fontconfig, whose packages are only complete when they are installed. Every machine shows the same letters.
const FONTS: &str = include_str!("fonts.conf");

pub(super) fn write_fonts(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("fonts.conf"), FONTS)
}

/// Links `bin` to the programs of the only version in the packages.
pub(super) fn arrange_postgres(folder: &Path) -> io::Result<()> {
    let programs = newest(&folder.join("usr/lib/postgresql"));
    let programs = programs.ok_or_else(|| io::Error::other("no PostgreSQL is in the packages"))?;
    // The folder will be moved.
    let inside = programs.strip_prefix(folder).unwrap_or(&programs);
    symlink(inside, folder.join("bin"))
}

/// Links to the programs that are installed.
pub(super) fn link_to_postgres(folder: &Path) -> io::Result<()> {
    let in_path = || Some(find("postgres")?.parent()?.to_path_buf());
    let programs = newest(Path::new("/usr/lib/postgresql")).or_else(in_path);
    let (Some(programs), Some(pooler)) = (programs, find("pgbouncer")) else {
        return Err(io::Error::other(
            "PostgreSQL and PgBouncer are not installed either",
        ));
    };
    link(&pooler, &folder.join("usr/sbin/pgbouncer"))?;
    link(&programs, &folder.join("bin"))
}

/// The directory with the programs of the newest version.
fn newest(versions: &Path) -> Option<PathBuf> {
    let number = |version: &PathBuf| version.file_name()?.to_str()?.parse::<u32>().ok();
    let all = files_in(versions).into_iter();
    let all = all.filter(|version| version.join("bin/postgres").is_file());
    Some(all.max_by_key(number)?.join("bin"))
}

/// Removes all of the package but the program: the server beside it is as large.
pub(super) fn keep_promtool(folder: &Path) -> io::Result<()> {
    fs::rename(folder.join("usr/bin/promtool"), folder.join("promtool"))?;
    let mut others = files_in(folder).into_iter().filter(|it| it.is_dir());
    others.try_for_each(fs::remove_dir_all)
}

/// Puts a link to a file at a place.
pub(super) fn link(file: &Path, place: &Path) -> io::Result<()> {
    make_way(place)?;
    symlink(file, place)
}

/// Moves a file or a folder to its place.
pub(super) fn put(from: &Path, place: &Path) -> io::Result<()> {
    make_way(place)?;
    fs::rename(from, place)
}

fn make_way(place: &Path) -> io::Result<()> {
    remove(place);
    place.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Removes a file, a link or a folder, if it is there.
pub(super) fn remove(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).ok();
    } else {
        fs::remove_file(path).ok();
    }
}

pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder);
    read.map(|all| all.filter_map(|it| Some(it.ok()?.path())).collect())
        .unwrap_or_default()
}

/// The directories of an unpacked folder in which its libraries lie, as `LD_LIBRARY_PATH` names them, and those in them: systemd
/// has a library in one, and a library of sound loads a second one from there.
pub(super) fn libraries(folder: &Path) -> String {
    let all = ["usr/lib", "lib"].map(|it| files_in(&folder.join(it)));
    let all = all.into_iter().flatten();
    let all = all.filter(|it| it.to_string_lossy().contains("linux-gnu"));
    let all = all.flat_map(|it| [files_in(&it), vec![it]].concat());
    let all = env::join_paths(all.filter(|it| it.is_dir()));
    all.unwrap_or_default().to_string_lossy().into_owned()
}
