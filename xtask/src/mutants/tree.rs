//! A copy of the sources in which mistakes are made; those of this checkout are never touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;

/// The copy, with what is compiled from it beside it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) sources: PathBuf,
    pub(super) target: PathBuf,
}

/// A mistake that has been made.
#[must_use = "a mistake that is not undone is in the next one as well"]
#[derive(Debug)]
pub(super) struct Mistake {
    file: PathBuf,
    right: String,
}

impl Tree {
    /// The files that git knows, as they are now. What is the same already is not written again, so that it
    /// is not compiled again.
    pub(super) fn copy() -> Result<Self, String> {
        let folder = cargo::target().join("mutants");
        let (sources, target) = (folder.join("tree"), folder.join("target"));
        let files = tracked()?;
        fs::create_dir_all(&sources).map_err(|error| failed(&sources, &error))?;
        remove_others(&sources, &sources, &files)?;
        for file in files {
            let (original, copy) = (cargo::root().join(&file), sources.join(&file));
            let bytes = fs::read(&original).map_err(|error| failed(&original, &error))?;
            if fs::read(&copy).is_ok_and(|known| known == bytes) {
                continue;
            }
            let parent = copy.parent().expect("it lies in the copy");
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
            fs::write(&copy, bytes).map_err(|error| failed(&copy, &error))?;
        }
        Ok(Self { sources, target })
    }

    /// Writes `to` in the place of `from`, which is in the file exactly once.
    pub(super) fn mistake(&self, file: &str, from: &str, to: &str) -> Result<Mistake, String> {
        let file = self.sources.join(file);
        let right = fs::read_to_string(&file).map_err(|error| failed(&file, &error))?;
        let wrong = replaced(&right, from, to).ok_or_else(|| {
            let times = right.matches(from).count();
            format!("`{from}` is in {} {times} times", file.display())
        })?;
        fs::write(&file, wrong).map_err(|error| failed(&file, &error))?;
        Ok(Mistake { file, right })
    }
}

impl Mistake {
    pub(super) fn undo(self) -> Result<(), String> {
        fs::write(&self.file, self.right).map_err(|error| failed(&self.file, &error))
    }
}

/// The text with `to` in the place of the only `from`.
fn replaced(text: &str, from: &str, to: &str) -> Option<String> {
    let (before, after) = text.split_once(from)?;
    (!after.contains(from)).then(|| format!("{before}{to}{after}"))
}

fn tracked() -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(cargo::root())
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git does not tell its files: {said}"));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    let names = names.split_terminator('\0').map(PathBuf::from);
    // One that was deleted is still known until that is committed.
    Ok(names
        .filter(|name| cargo::root().join(name).is_file())
        .collect())
}

/// Removes what an earlier copy had in `folder` of the tree at `root`, and this one has not.
fn remove_others(root: &Path, folder: &Path, files: &[PathBuf]) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        let name = path.strip_prefix(root).expect("it lies in the tree");
        if path.is_dir() {
            remove_others(root, &path, files)?;
        } else if !files.iter().any(|file| file == name) {
            fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_once_is_replaced() {
        assert_eq!(replaced("a b c", "b", "d").as_deref(), Some("a d c"));
        assert_eq!(replaced("a b b", "b", "d"), None);
        assert_eq!(replaced("a", "b", "d"), None);
    }

    #[test]
    fn the_sources_of_this_program_are_among_the_files() {
        let files = tracked().expect("this is a checkout");
        assert!(files.contains(&PathBuf::from("xtask/src/main.rs")));
    }
}
