//! A copy of the sources into which mistakes are put; those of this checkout are never touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mutant::Mutant;
use super::switch::{module, switched};
use crate::cargo;

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
    /// The files that git knows, as they are now, with all of `mutants` behind switches. What is the same
    /// already is not written again, so that it is not compiled again.
    pub(super) fn copy(mutants: &[Mutant]) -> Result<Self, String> {
        let folder = cargo::target().join("mutants");
        let (sources, target) = (folder.join("tree"), folder.join("target"));
        let mut files = tracked()?;
        fs::create_dir_all(&sources).map_err(|error| failed(&sources, &error))?;
        let modules = modules(mutants)?;
        files.extend(modules.iter().map(|(file, _)| file.clone()));
        remove_others(&sources, &sources, &files)?;
        for file in files {
            let bytes = match modules.iter().find(|(name, _)| *name == file) {
                Some((_, text)) => text.clone().into_bytes(),
                None => with_mistakes(&file, mutants)?,
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
            let (original, copy) = (cargo::root().join(&kept), self.sources.join(&kept));
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
fn modules(mutants: &[Mutant]) -> Result<Vec<(PathBuf, String)>, String> {
    let mut packages: Vec<_> = mutants.iter().map(Mutant::package).collect();
    packages.sort_unstable();
    packages.dedup();
    let module_of = |package| {
        let scripts = mutants.iter().filter(|mutant| mutant.is_script());
        let mut own = Vec::new();
        for mutant in scripts.filter(|mutant| mutant.package() == package) {
            let path = cargo::root().join(mutant.file);
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            own.push((mutant, text));
        }
        let text = module(own.into_iter())?;
        Ok((Path::new(package).join("src/mistakes.rs"), text))
    };
    packages.into_iter().map(module_of).collect()
}

/// The copy of this file.
fn with_mistakes(file: &Path, mutants: &[Mutant]) -> Result<Vec<u8>, String> {
    let original = cargo::root().join(file);
    let bytes = fs::read(&original).map_err(|error| failed(&original, &error))?;
    let own = mutants
        .iter()
        .filter(|it| Path::new(it.file) == file && !it.is_script());
    let mut own = own.peekable();
    let is_root = mutants.iter().any(|it| is_root_of(file, it.package()));
    let script = SCRIPTS.iter().find(|(name, ..)| file == Path::new(name));
    if own.peek().is_none() && !is_root && script.is_none() {
        return Ok(bytes);
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut text = switched(&text, own)?;
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
