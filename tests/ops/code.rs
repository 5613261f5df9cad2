//! The metrics that the code exports: their names, kinds and labels, from its sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use dlock::{LockError, LostCause, StoreErrorKind};

use crate::root;

const NAMES: &str = "dlock-runtime/src/telemetry/names.rs";

/// Where metrics are counted.
const COUNTED: [&str; 2] = [
    "dlock-runtime/src/observe/metrics.rs",
    "dlock-runtime/src/store/redis/net/counts.rs",
];

/// Where the values of labels without codes of their own are named.
const VALUES: [(&str, &str, &str); 6] = [
    ("", "mode", "dlock-runtime/src/mode.rs"),
    ("", "request", "dlock-runtime/src/observe/values.rs"),
    (
        "dlock_handed_over_total",
        "by",
        "dlock-runtime/src/observe/metrics.rs",
    ),
    (
        "dlock_renewals_total",
        "outcome",
        "dlock-runtime/src/observe/metrics.rs",
    ),
    (
        "dlock_unreleased_total",
        "reason",
        "dlock-runtime/src/observe/events.rs",
    ),
    (
        "dlock_wake_ups_resent_total",
        "outcome",
        "dlock-runtime/src/store/redis/topology/wake_ups.rs",
    ),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: Kind,
    pub(crate) labels: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// All metrics of the code, by name.
pub(crate) fn metrics() -> BTreeMap<String, Metric> {
    let names = read(NAMES);
    let counted = COUNTED.map(read).concat();
    let lines = names.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub(crate) const ")?;
        let (constant, value) = rest.split_once(": &str = \"")?;
        Some((constant, value.trim_end_matches("\";")))
    });
    let metric = |(constant, name): (&str, &str)| {
        let kind = kind(&names, constant);
        let labels = labels(&counted, constant);
        assert!(!labels.is_empty(), "the labels of {name} were not found");
        (name.to_owned(), Metric { kind, labels })
    };
    let found: BTreeMap<_, _> = lines.map(metric).collect();
    assert!(found.len() >= 18, "there are fewer metrics than there were");
    found
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The kind as which a metric is described.
fn kind(names: &str, constant: &str) -> Kind {
    let lists = [
        ("COUNTERS", Kind::Counter),
        ("GAUGES", Kind::Gauge),
        ("HISTOGRAMS", Kind::Histogram),
    ];
    let is_in = |list: &str| {
        let (_, rest) = names.split_once(&format!("const {list}: ")).unwrap();
        let (list, _) = rest.split_once("];").unwrap();
        let mut words = list.split(|it: char| !it.is_alphanumeric() && it != '_');
        words.any(|word| word == constant)
    };
    let found = lists.iter().find(|(list, _)| is_in(list));
    found
        .unwrap_or_else(|| panic!("{constant} is not described"))
        .1
}

/// The labels with which a metric is counted.
fn labels(counted: &str, constant: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for counting in ["counter!(", "gauge!(", "histogram!("] {
        for (_, rest) in counted
            .match_indices(counting)
            .map(|(at, it)| counted.split_at(at + it.len()))
        {
            let behind = rest.strip_prefix(constant);
            let Some(behind) = behind.filter(|it| it.starts_with(',')) else {
                continue;
            };
            let end = behind.find(';').unwrap_or(behind.len());
            let pieces = behind[..end].split(" => ").collect::<Vec<_>>();
            let (_, before) = pieces.split_last().unwrap();
            let named = before.iter().filter_map(|it| {
                let piece = it.strip_suffix('"')?;
                Some(piece.rsplit('"').next()?.to_owned())
            });
            found.extend(named);
        }
    }
    if counted.contains(&format!(": key({constant})")) {
        let (_, rest) = counted.split_once("let labels = [").unwrap();
        let (list, _) = rest.split_once("];").unwrap();
        let named = list.split("Label::new(\"").skip(1);
        found.extend(named.filter_map(|it| Some(it.split_once('"')?.0.to_owned())));
    }
    found
}

/// `true` if the code can give the label of the metric this value.
pub(crate) fn has_value(metric: &str, label: &str, value: &str) -> bool {
    match (metric, label) {
        ("dlock_refused_total", "reason") => value == "taken" || LockError::CODES.contains(&value),
        (_, "cause") => LostCause::CODES.contains(&value),
        (_, "kind") => StoreErrorKind::CODES.contains(&value),
        _ => VALUES.iter().any(|(of, named, path)| {
            let is_named = metric.starts_with(of) && label == *named;
            is_named && read(path).contains(&format!("\"{value}\""))
        }),
    }
}
