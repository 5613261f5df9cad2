//! The events of all threads of a process, one line each: stores have threads of their own.

use std::{
    fmt::{self, Write},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects from now on.
///
/// Panics if the process has another collector.
pub fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        tracing::subscriber::set_global_default(Log).expect("there is no other one");
    });
}

/// The lines that contain this text, such as `LEVEL message field=value`.
#[must_use]
pub fn with(text: &str) -> Vec<String> {
    let lines = all();
    let found = lines.iter().filter(|line| line.contains(text));
    found.cloned().collect()
}

struct Log;

struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            write!(self.fields, " {field}={value:?}").expect("a string takes all");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("dlock")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line {
            message: String::new(),
            fields: String::new(),
        };
        event.record(&mut line);
        let (level, Line { message, fields }) = (event.metadata().level(), line);
        all().push(format!("{level} {message}{fields}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
