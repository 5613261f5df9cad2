//! The events of dlock on this thread, one line each.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, OnceLock},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// Every level, spans left out.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Collects until the guard is dropped.
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        // While there is only one collector, `tracing` asks the thread that comes first by an event
        // whether anybody wants it, and takes that for everybody's answer. So there are always two.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Self::default()));
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    /// The lines of a level: `LEVEL message field=value...`.
    pub(crate) fn lines(&self, level: &str) -> Vec<String> {
        let lines = self.0.lock().expect("nothing panics with it");
        let of_level = lines.iter().filter(|line| line.starts_with(level));
        of_level.cloned().collect()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, " {value:?}").expect("a string takes all");
        } else {
            write!(self.0, " {field}={value:?}").expect("a string takes all");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "dlock"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("nothing panics with it").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
