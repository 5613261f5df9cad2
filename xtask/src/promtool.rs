//! Sees to it that the tests find promtool, which reads the rules for Prometheus and runs their tests.
//!
//! It comes from Debian's package `prometheus`: 19 MB to download, of which promtool alone stays in
//! `target/tools/promtool`. It needs no library but that of C.

use std::fs;
use std::path::Path;

use crate::machine::{self, find, output};
use crate::{cargo, debian};

const VARIABLE: &str = "DLOCK_PROMTOOL";

const BY_HAND: &str = "\
install Prometheus 2.40 or later and run this again, or name its promtool:
    DLOCK_PROMTOOL=/path/to/promtool";

/// Finds or gets it, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    if let Some(named) = machine::variable(VARIABLE) {
        return report(Path::new(&named));
    }
    let folder = cargo::target().join("tools").join("promtool");
    let program = folder.join("promtool");
    if !program.is_file() {
        if let Some(found) = find("promtool") {
            return report(&found);
        }
        println!("no promtool found: unpacking it");
        let wanted = || Ok(vec!["prometheus".to_owned()]);
        debian::unpack(&folder, wanted, || keep_alone(&folder, &program))
            .map_err(|reason| format!("no promtool found: {reason}; {BY_HAND}"))?;
    }
    report(&program)
}

/// Removes all of the package but the program: the server beside it is as large.
fn keep_alone(folder: &Path, program: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("`{}`: {error}", folder.display());
    fs::rename(folder.join("usr/bin/promtool"), program).map_err(failed)?;
    for other in debian::files_in(folder) {
        if other.is_dir() {
            fs::remove_dir_all(other).map_err(failed)?;
        }
    }
    Ok(())
}

/// Shows the version of a program, or refuses it.
fn report(program: &Path) -> Result<(), String> {
    let shown = program.display();
    let said = output(program, &["--version"])
        .ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    match said.lines().next() {
        Some(line) if line.starts_with("promtool, version") => {
            println!("promtool: {shown}: {line}");
            Ok(())
        }
        _ => Err(format!("`{shown}` is not promtool; {BY_HAND}")),
    }
}
