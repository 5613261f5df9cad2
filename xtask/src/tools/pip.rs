//! Python and its pip.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::Kind;
use crate::machine;

const ATTEMPTS: u32 = 3;

/// A Python, which may not be there.
pub(super) struct Python {
    pub(super) program: PathBuf,
}

impl Python {
    /// The named one, or that of the `PATH`.
    pub(super) fn new(named: Option<PathBuf>) -> Self {
        Self {
            program: named.unwrap_or_else(|| "python3".into()),
        }
    }

    pub(super) fn runs(&self) -> bool {
        machine::succeeds(&self.program, &["--version"])
    }

    pub(super) fn has_pip(&self) -> bool {
        machine::succeeds(&self.program, &["-m", "pip", "--version"])
    }

    /// `true` if it finds a module, also in `folder`.
    pub(super) fn imports(&self, module: &str, folder: Option<&Path>) -> bool {
        // As an argument, so that nothing in the path has to be quoted.
        let code = format!("import sys; sys.path[:0] = sys.argv[1:]; import {module}");
        let folder = folder.and_then(Path::to_str);
        let words: Vec<_> = ["-B", "-c", &code].into_iter().chain(folder).collect();
        machine::succeeds(&self.program, &words)
    }

    /// Unpacks a package, as `name==version`, into a folder.
    pub(super) fn install(&self, package: &str, kind: &Kind, folder: &Path) -> Result<(), String> {
        let not_text = |path: &Path| format!("`{}` is no text", path.display());
        let program = self
            .program
            .to_str()
            .ok_or_else(|| not_text(&self.program))?;
        let folder = folder.to_str().ok_or_else(|| not_text(folder))?;
        let words = words(program, package, kind, folder);
        for attempt in 1..=ATTEMPTS {
            if machine::run(&words) {
                return Ok(());
            }
            if attempt < ATTEMPTS {
                // An index that is down for a moment, or asks for patience.
                thread::sleep(Duration::from_secs(u64::from(3 * attempt)));
            }
        }
        Err(format!("`{package}` could not be got by pip"))
    }
}

fn words<'a>(program: &'a str, package: &'a str, kind: &Kind, folder: &'a str) -> Vec<&'a str> {
    let mut words = vec![program, "-m", "pip", "install"];
    words.extend([
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--no-compile",
        "--retries",
        "5",
    ]);
    // Nothing is built or run while it is installed.
    words.extend(["--only-binary", ":all:", "--target", folder]);
    if let Kind::Program { built_for, .. } = kind {
        words.push("--no-deps");
        words.extend_from_slice(built_for);
    }
    words.push(package);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_package_for_a_program_nothing_else_is_got() {
        let program = Kind::Program {
            file: "server",
            built_for: &["--platform", "any"],
        };
        let words = words("python3", "x==1", &program, "/t");
        assert!(words.ends_with(&["--no-deps", "--platform", "any", "x==1"]));
    }

    #[test]
    fn a_module_brings_what_it_needs() {
        let words = words("python3", "x==1", &Kind::Module("x"), "/t");
        assert!(!words.contains(&"--no-deps"));
        assert!(words.ends_with(&["--target", "/t", "x==1"]));
    }

    #[test]
    fn a_python_that_is_not_there_has_nothing() {
        let python = Python::new(Some("/no/such/python".into()));
        assert!(!python.runs() && !python.has_pip() && !python.imports("sys", None));
    }
}
