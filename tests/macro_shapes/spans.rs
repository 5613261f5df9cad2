//! Where the spans of this crate begin and end, among the other events.

use std::sync::{Mutex, OnceLock};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

use crate::record::{Events, events};

#[derive(Default)]
pub(crate) struct Spans {
    events: Events,
    /// Each span's name and how many handles it has; its id is its place, counted from one.
    spans: Mutex<Vec<(&'static str, usize)>>,
}

impl Spans {
    /// Says `enter` and `leave` with the names of this thread's spans until the guard is dropped.
    pub(crate) fn tell() -> DefaultGuard {
        // While there is only one subscriber, `tracing` asks the thread that comes first by a span
        // whether anybody wants it, and takes that for everybody's answer. So there are always two.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Self::default()));
        tracing::subscriber::set_default(Self {
            events: events(),
            ..Self::default()
        })
    }

    /// Adds `change` handles to a span.
    fn count(&self, id: &Id, change: isize) -> (&'static str, usize) {
        let index = usize::try_from(id.into_u64()).unwrap() - 1;
        let (name, handles) = &mut self.spans.lock().unwrap()[index];
        *handles = handles.checked_add_signed(change).unwrap();
        (name, *handles)
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
            && metadata
                .target()
                .starts_with(module_path!().split("::").next().unwrap())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        self.events.push(format!("enter {name}"));
        let mut spans = self.spans.lock().unwrap();
        spans.push((name, 1));
        Id::from_u64(spans.len() as u64)
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.count(id, 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let (name, handles) = self.count(&id, -1);
        if handles == 0 {
            self.events.push(format!("leave {name}"));
        }
        handles == 0
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
