//! Everything that is logged through `tracing`, as text.

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

/// Spans and events of this thread, of every level and from every crate.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<String>>);

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

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn line(&self, head: &str, visit: impl FnOnce(&mut Line)) {
        let mut line = Line(head.to_owned());
        visit(&mut line);
        let mut text = self.0.lock().unwrap();
        text.push_str(&line.0);
        text.push('\n');
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.line(span.metadata().name(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.line("", |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let head = format!("{} {}", metadata.target(), metadata.level());
        self.line(&head, |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
