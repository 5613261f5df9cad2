//! The files of an archive, written only where they have changed.
//!
//! Archives carry one fixed time for all files, by which cargo would take a changed file for an old one. Unpacked
//! anew, all of them would be built again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::machine;

/// Unpacks the folder `name` of an archive into `into`.
pub(super) fn unpack(archive: &Path, into: &Path, name: &str) -> Result<(), String> {
    let fresh = into.join("fresh");
    let failed = |error: io::Error| format!("{}: {error}", into.display());
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(failed)?;
    }
    fs::create_dir_all(&fresh).map_err(failed)?;
    let (archive, folder) = (archive.display().to_string(), fresh.display().to_string());
    if !machine::run(&["tar", "-xzf", &archive, "-C", &folder]) {
        return Err(format!("{archive} cannot be unpacked"));
    }
    replace(&fresh.join(name), &into.join(name)).map_err(failed)?;
    fs::remove_dir_all(&fresh).map_err(failed)
}

/// Gives `old` the files of `new`; those that are the same are left alone.
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    let files = files(new)?;
    if old.is_dir() {
        for file in self::files(old)?.difference(&files) {
            fs::remove_file(old.join(file))?;
        }
    }
    for file in files {
        let (text, path) = (fs::read(new.join(&file))?, old.join(&file));
        if fs::read(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// The files of a folder, by their paths in it.
fn files(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let (mut files, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_stay_the_same_keep_their_time() {
        let root = std::env::temp_dir().join(format!("dlock-unpack-{}", std::process::id()));
        let (old, new) = (root.join("old"), root.join("new"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(old.join("src/same.rs"), "a");
        write(old.join("src/changed.rs"), "a");
        write(old.join("gone.rs"), "a");
        write(new.join("src/same.rs"), "a");
        write(new.join("src/changed.rs"), "b");
        write(new.join("src/more/added.rs"), "c");
        let time = || {
            fs::metadata(old.join("src/same.rs"))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = time();
        replace(&new, &old).unwrap();
        assert_eq!(time(), before);
        assert_eq!(files(&old).unwrap(), files(&new).unwrap());
        assert_eq!(fs::read_to_string(old.join("src/changed.rs")).unwrap(), "b");
        fs::remove_dir_all(root).unwrap();
    }
}
