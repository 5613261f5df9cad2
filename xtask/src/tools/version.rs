//! What a program says about itself, and whether the tests can use it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::tool::Tool;

impl Tool {
    /// The first line that a program says about its version, or the reason why it will not do.
    ///
    /// The tests would only show that one failure at a time, late, and in words about something else.
    pub(super) fn said_by(&self, program: &Path, libraries: &str) -> Result<String, String> {
        if self.asks.is_empty() {
            return Ok(String::new());
        }
        let said = said(program, self.asks, libraries);
        let refused = said.and_then(|said| {
            self.refuse(&said)?;
            (self.works)(program)?;
            Ok(said)
        });
        refused.map_err(|why| format!("`{}` {why}; {}", program.display(), self.by_hand))
    }

    /// Whether the program that says this will do.
    pub(super) fn refuse(&self, said: &str) -> Result<(), String> {
        if !said.starts_with(self.answers) {
            return Err(format!("says `{said}`, which is not {}", self.name));
        }
        match version(said) {
            Some(version) if version < self.oldest => Err(format!("is too old: `{said}`")),
            _ => Ok(()),
        }
    }
}

/// The first line of a program. A few say their version on their standard error.
fn said(program: &Path, arguments: &str, libraries: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).stdin(Stdio::null());
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let output = command.output();
    let output = output.map_err(|error| format!("does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("does not run: {}", output.status));
    }
    let lines = [output.stdout, output.stderr].concat();
    let lines = String::from_utf8_lossy(&lines);
    Ok(lines.trim().lines().next().unwrap_or_default().to_owned())
}

/// The first two numbers of a version, of which the second may be missing.
pub(super) fn version(said: &str) -> Option<(u32, u32)> {
    said.split_whitespace().find_map(|word| {
        let numbers = word.trim_start_matches("v=").trim_start_matches('"');
        let mut numbers = numbers.split('.').map(|it| {
            let end = it.find(|it: char| !it.is_ascii_digit());
            it[..end.unwrap_or(it.len())].parse().ok()
        });
        Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    })
}

/// Sees that strace delays a program that ends at once.
pub(super) fn delays(strace: &Path) -> Result<(), String> {
    let mut traced = Command::new(strace);
    traced.args("-D -f -qq -e trace=fdatasync -e inject=fdatasync:delay_enter=1 true".split(' '));
    let ended = traced.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() && said.trim().is_empty() {
        return Ok(());
    }
    Err(format!(
        "cannot delay the calls of a program: {}\nsome containers forbid `ptrace`",
        said.trim()
    ))
}
