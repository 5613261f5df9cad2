//! What each command does.

use clap::CommandFactory;

use crate::{
    cli::{Cli, Command},
    exit::{Exit, Failure},
};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        Command::Completions { shell } => {
            let mut command = Cli::command();
            clap_complete::generate(shell, &mut command, "dlock", &mut std::io::stdout());
            Ok(Exit::Success)
        }
    }
}
