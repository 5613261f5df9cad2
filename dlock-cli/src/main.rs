//! The command `dlock`: inspects locks, runs commands under them, and checks servers.

mod cli;
mod commands;
mod connect;
mod exit;
mod fit;
mod follow;
mod global;
mod interrupt;
mod log;
mod login;
mod operator;
mod output;
mod pages;
mod progress;
mod runtime;
mod source;
mod stores;
mod text;

use std::process::ExitCode;

use crate::{
    cli::Cli,
    exit::{Exit, Failure},
};

fn main() -> ExitCode {
    #[cfg(feature = "zookeeper-tls")]
    choose_tls_provider();
    let cli = Cli::of_arguments();
    let as_json = cli.global.json;
    let outcome = runtime::start().and_then(|runtime| runtime.block_on(run(cli)));
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report(as_json);
            failure.exit().into()
        }
    }
}

async fn run(mut cli: Cli) -> Result<Exit, Failure> {
    log::start(&cli.global, cli.command.always_logs());
    cli.global.read_login()?;
    cli.run().await
}

/// Two providers are compiled in, of which rustls takes none by itself.
#[cfg(feature = "zookeeper-tls")]
fn choose_tls_provider() {
    use tokio_rustls::rustls::crypto::ring;

    // It fails if there is one.
    ring::default_provider().install_default().ok();
}
