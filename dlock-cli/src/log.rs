//! The log of the library, with `-v`.

use std::{
    fmt::{Debug, Result},
    io::stderr,
};

use anstream::{AutoStream, stream::RawStream};
use clap::ColorChoice;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::{
        self, FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    prelude::*,
    registry::LookupSpan,
};

use crate::{global::Global, text::printable_json};

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
    let written = if global.json {
        written.event_format(Json).boxed()
    } else {
        written.boxed()
    };
    let chosen = Targets::new().with_target(target, LevelFilter::from_level(level));
    tracing_subscriber::registry()
        .with(written.with_filter(chosen))
        .init();
}

/// Writes an event as a line of JSON: the standard error of `--json` has nothing else.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let log = json!({
            "time": Timestamp::now().to_string(),
            "level": metadata.level().as_str(),
            "target": metadata.target(),
            "fields": fields.0,
        });
        writeln!(
            line,
            "{}",
            printable_json(&json!({ "log": log }).to_string())
        )
    }
}

/// The fields of an event; its text is the field `message`.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
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
