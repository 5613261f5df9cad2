//! Sees to it that the tests find strace, which delays the calls of a server to its disk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::{self, find, output};
use crate::packages::{self, Facts};

const BY_HAND: &str = "\
install strace 5 or later and run this again, or name it:
    DLOCK_STRACE=/path/to/strace";

/// Finds or installs it, or says what is missing. Only tests for Linux use it.
pub(crate) fn provide() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let named = machine::variable("DLOCK_STRACE").map(PathBuf::from);
    let program = match named.or_else(|| find("strace")) {
        Some(program) => program,
        None => install()?,
    };
    let shown = program.display().to_string();
    let said = output(&shown, &["--version"]).unwrap_or_default();
    let version = said.lines().next();
    let version = version.ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    delays(&program).map_err(|reason| {
        format!("`{shown}` cannot delay the calls of a program: {reason}\nsome containers forbid `ptrace`; {BY_HAND}")
    })?;
    println!("strace: {shown}: {version}");
    Ok(())
}

fn install() -> Result<PathBuf, String> {
    let none = |why: &str| format!("no strace found{why}; {BY_HAND}");
    let sudo = Facts::gather().plan().map_err(none)?;
    println!("no strace found: installing it");
    packages::install(sudo, &["strace"]);
    find("strace").ok_or_else(|| none(", and it could not be installed"))
}

/// Delays a program that ends at once.
fn delays(strace: &Path) -> Result<(), String> {
    let mut traced = Command::new(strace);
    traced.args(["-D", "-f", "-qq", "-e", "trace=fdatasync"]);
    traced.args(["-e", "inject=fdatasync:delay_enter=1", "true"]);
    let ended = traced.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() && said.trim().is_empty() {
        return Ok(());
    }
    Err(said.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_delays_nothing_is_refused() {
        assert!(delays(Path::new("/bin/false")).is_err());
        assert!(delays(Path::new("/nonexistent/strace")).is_err());
    }
}
