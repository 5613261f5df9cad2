//! Calls of cargo, in the root of the workspace and shown before they run.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine;

/// A call of cargo: its arguments, none with a space in it, and one variable.
#[derive(Debug)]
pub(crate) struct Call {
    arguments: &'static str,
    variable: Option<(&'static str, &'static str)>,
}

impl Call {
    pub(crate) const fn new(arguments: &'static str) -> Self {
        Self {
            arguments,
            variable: None,
        }
    }

    pub(crate) const fn with(mut self, variable: Option<(&'static str, &'static str)>) -> Self {
        self.variable = variable;
        self
    }

    /// The call as a line for a shell.
    pub(crate) fn line(&self) -> String {
        let variable = self
            .variable
            .map_or_else(String::new, |(name, value)| format!("{name}='{value}' "));
        format!("{variable}cargo {}", self.arguments)
    }

    /// The arguments of cargo.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.arguments.split(' ').filter(|it| !it.is_empty())
    }

    /// Runs cargo and returns whether it succeeded.
    pub(crate) fn run(&self) -> bool {
        self.start(&[], &[])
    }

    /// The same with further arguments.
    pub(crate) fn run_with(&self, more: &[&str]) -> bool {
        self.start(more, &[])
    }

    /// The same with variables that do not change what is run, and are not shown.
    pub(crate) fn run_under(&self, variables: &[(String, OsString)]) -> bool {
        self.start(&[], variables)
    }

    fn start(&self, more: &[&str], variables: &[(String, OsString)]) -> bool {
        let words = more.iter().map(|word| format!(" {word}"));
        println!("$ {}{}", self.line(), words.collect::<String>());
        let mut command = command(&root());
        command.args(self.arguments.split(' ')).args(more);
        command.envs(self.variable);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        ends_well(&mut command)
    }

    /// Runs cargo with further variables, where its messages can be seen, and returns its standard output.
    pub(crate) fn output_under(&self, variables: &[(String, OsString)]) -> Result<String, String> {
        println!("$ {}", self.line());
        let mut command = command(&root());
        command.args(self.words()).envs(self.variable);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
        if !output.status.success() {
            return Err(format!("this failed: {}", self.line()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The same after everything else that wants a processor; the output goes to `output`.
    pub(crate) fn run_in_background(
        &self,
        mut output: &File,
        variables: &[(String, OsString)],
    ) -> bool {
        let mut command = background(&root());
        command.args(self.arguments.split(' ')).envs(self.variable);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let streams = (output.try_clone(), output.try_clone());
        let (Ok(stdout), Ok(stderr)) = streams else {
            return false;
        };
        if writeln!(output, "$ {}", self.line()).is_err() {
            return false;
        }
        ends_well(command.stdout(stdout).stderr(stderr))
    }
}

/// Runs a program about the workspace, such as a subcommand of cargo, where it can be seen.
pub(crate) fn run_tool(program: &Path, words: &[&str]) -> Result<(), String> {
    run_in(&root(), program, words)
}

/// The same about what lies in another folder.
pub(crate) fn run_in(folder: &Path, program: &Path, words: &[&str]) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let line = [&[&*name], words].concat().join(" ");
    println!("$ {line}");
    let mut command = prepared(Command::new(program), folder);
    if ends_well(command.args(words)) {
        Ok(())
    } else {
        Err(format!("this failed: {line}"))
    }
}

fn ends_well(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!(
                "error: {} cannot be run: {error}",
                command.get_program().display()
            );
            false
        }
    }
}

/// Builds a program of this workspace for release by `build`, and starts it.
pub(crate) fn build_and_start(build: &Call, name: &str, words: &[String]) -> Result<(), String> {
    if !build.run() {
        return Err(format!("this failed: {}", build.line()));
    }
    let program = target().join("release").join(name);
    let status = Command::new(&program)
        .args(words)
        .status()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name}: {status}"))
    }
}

/// The output of cargo about the workspace.
pub(crate) fn output(arguments: &str) -> Result<String, String> {
    let output = command(&root())
        .args(arguments.split(' '))
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("cargo {arguments} failed: {said}"))
}

/// The errors of cargo when it fails in the package at `root`; an error if it does not fail.
pub(crate) fn errors_in(
    root: &Path,
    arguments: &str,
    variable: Option<(&str, &str)>,
) -> Result<String, String> {
    let mut command = command(root);
    let command = command.args(arguments.split(' '));
    // One that is set around this program is not meant for what is checked here.
    let command = command.env_remove("CARGO_TARGET_DIR").envs(variable);
    let output = command
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if output.status.success() {
        return Err(format!("cargo {arguments} finds nothing wrong"));
    }
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `true` if a subcommand such as `fmt` is installed.
pub(crate) fn has(subcommand: &str) -> bool {
    command(&root())
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that runs this program, so that every step uses the same toolchain; in `folder`.
///
/// Without the variables by which cargo has described its package to this program: `ring` looks at
/// them when it is built, and would be built anew, with all that depends on it, after each call by
/// hand.
pub(crate) fn command(folder: &Path) -> Command {
    prepared(Command::new(program()), folder)
}

/// The same with a lower priority, where there is `nice`: tests have time limits, and compilers have none. Not with the
/// lowest: on a machine that other programs keep busy, the steps beside the tests would end long after them.
fn background(folder: &Path) -> Command {
    let Some(nice) = machine::find("nice") else {
        return command(folder);
    };
    let mut command = Command::new(nice);
    command.args(["-n", "5"]).arg(program());
    prepared(command, folder)
}

/// The cargo that runs this program.
pub(crate) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into())
}

fn prepared(mut command: Command, folder: &Path) -> Command {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The folder for the output of compilers.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |it| root().join(it))
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // Asked at run time first: a target directory may be moved together with its checkout.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .parent()
        .map(Path::to_path_buf)
        .expect("this package lies in the workspace")
}
