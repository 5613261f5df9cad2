//! The log of the library, with `-v`.

use std::io::stderr;

use anstream::{AutoStream, stream::RawStream};
use clap::ColorChoice;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{fmt, prelude::*};

use crate::global::Global;

/// Writes the library's log events to the standard error. Without `-v` it writes those of the target `always`, or none.
pub(crate) fn start(global: &Global, always: Option<&'static str>) {
    let level = match global.verbose {
        0 if always.is_none() => return,
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let target = always.filter(|_| global.verbose == 0).unwrap_or("dlock");
    let colored = global.has_color(&stderr());
    let written = fmt::layer().with_writer(stderr).with_ansi(colored);
    let chosen = Targets::new().with_target(target, LevelFilter::from_level(level));
    tracing_subscriber::registry()
        .with(written.with_filter(chosen))
        .init();
}

impl Global {
    /// Returns `true` if the output to `stream` has colours.
    pub(crate) fn has_color(&self, stream: &impl RawStream) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
        }
    }
}
