//! `dlock completions`: prints a completion script for a shell.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::{
    exit::{Exit, Failure},
    output,
};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete in
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, program: &Command) -> Result<Exit, Failure> {
    // `generate` panics if it cannot write, for example into a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, &mut for_people(program), "dlock", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

/// The program without its hidden commands.
fn for_people(whole: &Command) -> Command {
    let shown = whole.get_subcommands().filter(|it| !it.is_hide_set());
    Command::new("dlock")
        .args(whole.get_arguments().cloned())
        .subcommands(shown.cloned())
}
