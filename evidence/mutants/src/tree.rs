//! A copy of the sources into which mistakes are put; those of this checkout are never touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::seeds::Seeds;
use crate::workspace;

/// The places where a script's text is read: a file, the code there, and the code that chooses the text with a mistake.
const SCRIPTS: [(&str, &str, &str); 2] = [
    (
        "dlock-runtime/src/store/redis/protocol/scripts.rs",
        "key_count: usize) -> Self {\n",
        "key_count: usize) -> Self {\nlet source = crate::mistakes::in_script(name, source);\n",
    ),
    (
        "dlock-postgres/src/schema.rs",
        "self.fill(part)",
        "self.fill([\"functions\", \"from_1\"].iter().fold(&*part.to_owned().leak(), |text, name| crate::mistakes::in_script(name, text)))",
    ),
];

/// The copy, with what is compiled from it beside it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) sources: PathBuf,
    pub(super) target: PathBuf,
}

impl Tree {
    /// The files that git knows, as they are now, with all of `seeds` behind switches, in this folder of the target. What is
    /// the same already is not written again, so that it is not compiled again.
    pub(super) fn copy(folder: &str, seeds: &Seeds) -> Result<Self, String> {
        let folder = workspace::target().join(folder);
        let (sources, target) = (folder.join("tree"), folder.join("target"));
        let mut files = tracked()?;
        fs::create_dir_all(&sources).map_err(|error| failed(&sources, &error))?;
        let modules = modules(seeds);
        files.extend(modules.iter().map(|(file, _)| file.clone()));
        remove_others(&sources, &sources, &files)?;
        for file in files {
            let bytes = match modules.iter().find(|(name, _)| *name == file) {
                Some((_, text)) => text.clone().into_bytes(),
                None => with_mistakes(&file, seeds)?,
            };
            let copy = sources.join(&file);
            if fs::read(&copy).is_ok_and(|known| known == bytes) {
                continue;
            }
            let parent = copy.parent().expect("it lies in the copy");
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
            fs::write(&copy, bytes).map_err(|error| failed(&copy, &error))?;
        }
        Ok(Self { sources, target })
    }
}

/// The folder of a package in which tests keep the cases that have failed.
const KEPT_CASES: &str = "proptest-regressions";

impl Tree {
    /// Takes back what tests have noted of the cases that failed: with the next mistake they would fail
    /// again for no reason of its own, or find it by chance.
    pub(super) fn forget_cases(&self, packages: &[&str]) -> Result<(), String> {
        for package in packages {
            let kept = Path::new(package).join(KEPT_CASES);
            let (original, copy) = (workspace::root().join(&kept), self.sources.join(&kept));
            if copy.is_dir() {
                fs::remove_dir_all(&copy).map_err(|error| failed(&copy, &error))?;
            }
            if original.is_dir() {
                copy_folder(&original, &copy)?;
            }
        }
        Ok(())
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| failed(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| failed(from, &error))? {
        let path = entry.map_err(|error| failed(from, &error))?.path();
        let copy = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(())
}

/// The module `mistakes` of each package that has some, by its file.
fn modules(seeds: &Seeds) -> Vec<(PathBuf, String)> {
    let packages = seeds.packages().into_iter();
    let module = |package| {
        let file = Path::new(package).join("src/mistakes.rs");
        (file, seeds.module(package))
    };
    packages.map(module).collect()
}

/// The copy of this file.
fn with_mistakes(file: &Path, seeds: &Seeds) -> Result<Vec<u8>, String> {
    let made = seeds.source(file).transpose()?;
    let package = seeds.packages().into_iter();
    let mut package = package.filter(|it| file.starts_with(it));
    let package = package.next();
    let is_root = package.is_some_and(|it| is_root_of(file, it));
    let is_script = |(name, ..): &&(&str, _, _)| file == Path::new(name) && package.is_some();
    let script = SCRIPTS.iter().find(is_script);
    if made.is_none() && !is_root && script.is_none() {
        let original = workspace::root().join(file);
        return fs::read(&original).map_err(|error| failed(&original, &error));
    }
    let original = workspace::root().join(file);
    let text = || fs::read_to_string(&original).map_err(|error| failed(&original, &error));
    let mut text = made.map_or_else(text, Ok)?;
    if let Some((name, code, chosen)) = script {
        let chosen = replaced(&text, code, chosen);
        text = chosen.ok_or_else(|| format!("{name} makes scripts in another way"))?;
    }
    if is_root {
        text += "\nmod mistakes;\n";
    }
    Ok(text.into_bytes())
}

/// `true` if this is the file from which all others of the package are reached.
fn is_root_of(file: &Path, package: &str) -> bool {
    let sources = Path::new(package).join("src");
    file == sources.join("lib.rs") || file == sources.join("main.rs")
}

/// The text with `to` in the place of the only `from`.
fn replaced(text: &str, from: &str, to: &str) -> Option<String> {
    let (before, after) = text.split_once(from)?;
    (!after.contains(from)).then(|| format!("{before}{to}{after}"))
}

/// The files that git knows.
pub(super) fn tracked() -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(workspace::root())
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
        .filter(|name| workspace::root().join(name).is_file())
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
