//! The log of the library, with `-v`.

use std::io::{IsTerminal, stderr};

use clap::ColorChoice;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{fmt, prelude::*};

use crate::global::Global;

/// Writes events to the standard error from now on. Without `-v` there are none: a command prints its results
/// itself, once.
pub(crate) fn start(global: &Global) {
    let level = match global.verbose {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let colored = global.has_color(stderr().is_terminal());
    let written = fmt::layer().with_writer(stderr).with_ansi(colored);
    let chosen = Targets::new().with_target("dlock", LevelFilter::from_level(level));
    tracing_subscriber::registry()
        .with(written.with_filter(chosen))
        .init();
}

impl Global {
    /// `true` if the output to a stream has colours; `is_terminal` says which kind of stream it is.
    pub(crate) fn has_color(&self, is_terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
                let is_dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
                is_terminal && !refused && !is_dumb
            }
        }
    }
}
