//! The tables of `docs/book/src/reference/metrics.md` are what the code says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Mutex,
};

use dlock::LockManager;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

const DOCUMENT: &str = include_str!("../../../docs/book/src/reference/metrics.md");

/// The rows of the table under this head, by their cells.
fn rows(head: &str) -> Vec<Vec<String>> {
    let (_, rest) = DOCUMENT.split_once(head).expect("the table is there");
    let lines = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        let line = line.trim_start_matches('|').trim_end_matches('|');
        line.split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    lines.map(cells).collect()
}

/// A word or a text as code.
fn code(cell: &str) -> &str {
    let fence = if cell.starts_with("``") { "``" } else { "`" };
    cell.strip_prefix(fence)
        .and_then(|cell| cell.strip_suffix(fence))
        .unwrap_or_else(|| panic!("{cell} is no code"))
        .trim_end()
}

/// What is said of each metric.
#[derive(Default)]
struct Described(Mutex<BTreeMap<String, (&'static str, &'static str)>>);

impl Described {
    fn note(&self, kind: &'static str, name: &KeyName, unit: Option<Unit>) {
        let unit = unit.map_or("none", |unit| unit.as_str());
        let mut all = self.0.lock().unwrap();
        all.insert(name.as_str().to_owned(), (kind, unit));
    }
}

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.note("counter", &name, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.note("gauge", &name, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.note("histogram", &name, unit);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn the_table_of_metrics_is_complete() {
    let described = Described::default();
    metrics::with_local_recorder(&described, || drop(LockManager::memory()));
    let described = described.0.into_inner().unwrap();
    let rows = rows("| name | type | unit | labels | meaning | when to alert |");
    let listed: BTreeMap<_, _> = rows
        .iter()
        .map(|row| (code(&row[0]).to_owned(), (&*row[1], &*row[2])))
        .collect();
    assert_eq!(listed.len(), rows.len(), "none is there twice");
    assert_eq!(listed, described);
}

/// Level, text and fields of an event.
type Event = (String, String, BTreeSet<String>);

/// The events in a source file.
fn events(source: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        for (at, head) in source.match_indices(&format!("{level}!(")) {
            let before = source[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || before == '_') {
                continue;
            }
            let mut text = String::new();
            let mut fields = BTreeSet::new();
            for argument in arguments(&source[at + head.len()..]) {
                if let Some(quoted) = argument.strip_prefix('"') {
                    quoted.trim_end_matches('"').clone_into(&mut text);
                } else if !argument.starts_with("target:") && !argument.starts_with("parent:") {
                    fields.insert(argument.trim_start_matches(['%', '?']).to_owned());
                }
            }
            events.push((level.to_uppercase(), text, fields));
        }
    }
    events
}

/// What stands between the commas of a macro's arguments, which begin here.
fn arguments(source: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut quoted) = (vec![String::new()], 0, false);
    for character in source.chars() {
        match character {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(character);
    }
    let trimmed = arguments.iter().map(|argument| argument.trim().to_owned());
    trimmed.filter(|argument| !argument.is_empty()).collect()
}

fn events_below(folder: &Path, found: &mut Vec<Event>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            events_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(events(&fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn the_table_of_events_is_complete() {
    let mut written = Vec::new();
    for sources in [
        "dlock-runtime/src",
        "dlock-net/src",
        "dlock-admin/src",
        "dlock-admin-web/src",
        "dlock-cli/src",
    ] {
        events_below(&crate::common::root().join(sources), &mut written);
    }
    written.sort();
    let rows = rows("| event | level | fields | when |");
    let mut listed: Vec<Event> = rows
        .iter()
        .map(|row| {
            let fields = row[2].split(", ").filter(|field| *field != "–");
            let fields = fields.map(|field| code(field).to_owned());
            (row[1].clone(), code(&row[0]).to_owned(), fields.collect())
        })
        .collect();
    listed.sort();
    assert_eq!(listed, written);
}
