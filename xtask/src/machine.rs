//! The programs of this machine, and the permission to install more.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The value of a variable that is set to something.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// `true` if `DLOCK_NO_INSTALL` is set.
pub(crate) fn nothing_may_be_installed() -> bool {
    variable("DLOCK_NO_INSTALL").is_some()
}

/// A program in the `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|it| it.is_file())
}

/// `true` if a program can be run and ends well; its output is not shown.
pub(crate) fn succeeds(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    output(program, arguments).is_some()
}

/// The output of a program, if it ends well.
pub(crate) fn output(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}

/// Runs a program where it can be seen, and returns whether it succeeded.
pub(crate) fn run(words: &[&str]) -> bool {
    println!("$ {}", words.join(" "));
    Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
