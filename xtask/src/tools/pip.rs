//! Python, its modules, and packages that pip gets.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::tool::{Source, Tool};
use crate::machine::{run, succeeds, variable};

const ATTEMPTS: u32 = 3;

/// The named one, or that of the `PATH`.
pub(super) fn python() -> String {
    let named = variable("DLOCK_PYTHON");
    named.map_or_else(
        || "python3".to_owned(),
        |it| it.to_string_lossy().into_owned(),
    )
}

pub(super) fn has_pip() -> bool {
    succeeds(python(), &["-m", "pip", "--version"])
}

/// `true` if Python finds a module, also in `folder`.
pub(super) fn imports(module: &str, folder: Option<&Path>) -> bool {
    // As an argument, so that nothing in the path has to be quoted.
    let code = format!("import sys; sys.path[:0] = sys.argv[1:]; import {module}");
    let folder = folder.and_then(Path::to_str);
    let words: Vec<_> = ["-B", "-c", &code].into_iter().chain(folder).collect();
    succeeds(python(), &words)
}

/// Unpacks the package of a tool into a folder.
pub(super) fn fetch(tool: &Tool, folder: &Path) -> Result<(), String> {
    let (python, folder) = (python(), folder.display().to_string());
    let package = format!("{}=={}", tool.packages, tool.version);
    for attempt in 1..=ATTEMPTS {
        if run(&words(tool, &python, &package, &folder)) {
            return Ok(());
        }
        if attempt < ATTEMPTS {
            // An index that is down for a moment, or asks for patience.
            thread::sleep(Duration::from_secs(u64::from(3 * attempt)));
        }
    }
    Err(format!("`{package}` could not be got by pip"))
}

fn words<'a>(tool: &Tool, python: &'a str, package: &'a str, folder: &'a str) -> Vec<&'a str> {
    // Nothing is built or run while it is installed.
    let fixed = "-m pip install --disable-pip-version-check --no-input --quiet --no-compile --retries 5 \
                 --only-binary :all: --target";
    let mut words = vec![python];
    words.extend(fixed.split(' '));
    words.extend([folder, package]);
    if tool.source == Source::Pip {
        words.push("--no-deps");
    }
    words.extend(tool.built_for.split_whitespace());
    words
}

#[cfg(test)]
mod tests {
    use super::super::table::{MDBOOK, REDIS_PY};
    use super::*;

    #[test]
    fn of_a_package_for_a_program_nothing_else_is_got() {
        let program = Tool {
            built_for: "--platform any",
            ..MDBOOK
        };
        let words = words(&program, "python3", "x==1", "/t");
        assert!(words.ends_with(&["--target", "/t", "x==1", "--no-deps", "--platform", "any"]));
    }

    #[test]
    fn a_module_brings_what_it_needs() {
        let words = words(&REDIS_PY, "python3", "x==1", "/t");
        assert!(words.ends_with(&["--target", "/t", "x==1"]));
    }
}
