//! The dashboard and the rules use what the code exports, and leave nothing out.

use std::collections::{BTreeMap, BTreeSet};

use dlock::{LockError, LostCause};

use crate::{
    assert_none,
    code::{self, Kind, Metric},
    files::{Asked, queries_of_panels, queries_of_rules, rules},
    promql::{Query, Selector},
};

const REFERENCE: &str = "docs/book/src/reference/metrics.md";

/// Labels that the scrape configuration of Prometheus adds.
const OF_THE_SCRAPE: [&str; 3] = ["instance", "job", "namespace"];

/// Labels with values that only the program knows.
const FREE: [&str; 5] = ["instance", "job", "namespace", "server", "template"];

/// What a query can name: the series that Prometheus stores, and those that rules record.
pub(crate) struct Known(BTreeMap<String, BTreeSet<String>>);

impl Known {
    pub(crate) fn read() -> Self {
        let mut known = BTreeMap::new();
        for (name, Metric { kind, labels }) in code::metrics() {
            let scraped = OF_THE_SCRAPE.map(ToOwned::to_owned);
            let labels: BTreeSet<_> = labels.into_iter().chain(scraped).collect();
            if kind != Kind::Histogram {
                known.insert(name, labels);
                continue;
            }
            for part in ["sum", "count"] {
                known.insert(format!("{name}_{part}"), labels.clone());
            }
            let bounds = [String::from("le")];
            let labels = labels.into_iter().chain(bounds).collect();
            known.insert(format!("{name}_bucket"), labels);
        }
        for rule in rules().iter().filter(|it| !it.is_alert) {
            let grouped = Query::read(rule.field("expr")).grouped;
            // A quantile is over the bounds.
            let labels = grouped.into_iter().filter(|it| it != "le").collect();
            known.insert(rule.name.clone(), labels);
        }
        Self(known)
    }

    pub(crate) fn faults_of(&self, asked: &Asked) -> Vec<String> {
        let query = Query::read(&asked.query);
        let mut faults = Vec::new();
        let mut note = |fault| faults.push(format!("{}: {fault}", asked.place));
        let (mut all, mut kept) = (BTreeSet::new(), query.grouped.clone());
        for Selector { metric, matchers } in &query.selectors {
            let Some(labels) = self.0.get(metric) else {
                note(format!("`{metric}` is not exported"));
                continue;
            };
            all.extend(labels);
            // A recorded series has the labels that it was grouped by.
            if metric.contains(':') {
                kept.extend(labels.iter().cloned());
            }
            for (label, values) in matchers {
                if !labels.contains(label) {
                    note(format!("`{metric}` has no label `{label}`"));
                } else if !FREE.contains(&label.as_str()) {
                    let values = values.split('|');
                    let unknown = values.filter(|it| !code::has_value(metric, label, it));
                    unknown.for_each(|it| note(format!("`{metric}` has no `{label}` `{it}`")));
                }
            }
        }
        for label in &query.grouped {
            if !all.contains(label) {
                note(format!("no metric in it has the label `{label}`"));
            }
        }
        for label in &asked.shown {
            if !kept.contains(label) {
                note(format!(
                    "its text shows `{label}`, and its result has no such label"
                ));
            }
        }
        if query.selectors.is_empty() {
            note("it names no metric".to_owned());
        }
        faults
    }
}

fn all() -> Vec<Asked> {
    [queries_of_panels(), queries_of_rules()].concat()
}

#[test]
fn every_metric_label_and_value_is_exported() {
    let known = Known::read();
    let faults: Vec<_> = all().iter().flat_map(|it| known.faults_of(it)).collect();
    assert_none(&faults);
}

/// An alert on single events asks twice for the same ones: before and after their series exists.
#[test]
fn a_query_asks_for_the_same_values_of_a_metric_everywhere() {
    let mut faults = Vec::new();
    for asked in all() {
        let mut seen = BTreeMap::new();
        for Selector { metric, matchers } in Query::read(&asked.query).selectors {
            for (label, values) in matchers {
                let before = seen.insert((metric.clone(), label), values.clone());
                if before.is_some_and(|before| before != values) {
                    faults.push(format!("{}: `{metric}` with other values", asked.place));
                }
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn what_is_not_exported_is_found() {
    let known = Known::read();
    let asked = |query: &str| Asked {
        place: "here".to_owned(),
        query: query.to_owned(),
        shown: vec!["job".to_owned()],
    };
    for (query, fault) in [
        (r#"sum by (job) (dlock_lost_total{cause="expired"})"#, None),
        (
            "sum by (job) (dlock_lost)",
            Some("`dlock_lost` is not exported"),
        ),
        (
            "sum by (job) (rate(dlock_wait_seconds[5m]))",
            Some("`dlock_wait_seconds` is not exported"),
        ),
        (
            r#"sum by (job) (dlock_lost_total{reason="expired"})"#,
            Some("`dlock_lost_total` has no label `reason`"),
        ),
        (
            r#"sum by (job) (dlock_lost_total{cause=~"revoked|expird"})"#,
            Some("`dlock_lost_total` has no `cause` `expird`"),
        ),
        (
            "sum by (job, key) (dlock_waiting)",
            Some("no metric in it has the label `key`"),
        ),
        (
            "sum by (template) (dlock_waiting)",
            Some("its text shows `job`, and its result has no such label"),
        ),
        (
            "sum by (job) (vector(1))",
            Some("no metric in it has the label `job`"),
        ),
    ] {
        let found = known.faults_of(&asked(query));
        let expected = fault.map(|it| format!("here: {it}"));
        assert_eq!(found.first(), expected.as_ref(), "{query}");
    }
    // A name in a query of the files, changed by one letter.
    for mut asked in all() {
        let Some(at) = asked.query.find("dlock_") else {
            continue;
        };
        asked.query.insert(at, 'x');
        let found = known.faults_of(&asked);
        assert!(!found.is_empty(), "{}: {}", asked.place, asked.query);
    }
}

/// The metrics that queries name, without what Prometheus adds to a name.
fn used(queries: &[Asked]) -> BTreeSet<String> {
    let queries = queries.iter().map(|it| Query::read(&it.query));
    let names = queries.flat_map(|it| it.selectors).map(|it| it.metric);
    let base = |name: String| {
        let ends = ["_bucket", "_sum", "_count"];
        let base = ends.iter().find_map(|end| name.strip_suffix(end));
        base.map(ToOwned::to_owned).unwrap_or(name)
    };
    names.map(base).collect()
}

#[test]
fn every_metric_is_on_the_dashboard() {
    let used = used(&queries_of_panels());
    let missing = code::metrics().into_keys().filter(|it| !used.contains(it));
    assert_none(&missing.collect::<Vec<_>>());
}

/// The rows of the table of metrics, by their cells.
fn documented() -> Vec<Vec<String>> {
    let page = crate::files::read(REFERENCE);
    let head = "| name | type | unit | labels | meaning | when to alert |";
    let (_, rest) = page.split_once(head).unwrap();
    let rows = rest.lines().skip(2).take_while(|it| it.starts_with('|'));
    let cells = |row: &str| {
        let row = row.trim_start_matches('|').trim_end_matches('|');
        row.split(" | ").map(|it| it.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn every_metric_to_alert_on_is_in_a_rule() {
    let used = used(&queries_of_rules());
    let rows = documented().into_iter().filter(|row| !row[5].is_empty());
    let names = rows.map(|row| row[0].trim_matches('`').to_owned());
    let names: Vec<_> = names.collect();
    assert!(names.len() > 12, "the table was found: {names:?}");
    let missing = names.into_iter().filter(|it| !used.contains(it));
    assert_none(&missing.collect::<Vec<_>>());
}

#[test]
fn documented_labels_are_those_of_the_code() {
    let mut metrics = code::metrics();
    let mut faults = Vec::new();
    for row in documented() {
        let name = row[0].trim_matches('`');
        let labels = row[3].split(", ").map(|it| it.trim_matches('`').to_owned());
        let labels: BTreeSet<_> = labels.collect();
        let exported = metrics.remove(name).map(|it| it.labels);
        if exported.as_ref() != Some(&labels) {
            faults.push(format!("{name}: {labels:?} instead of {exported:?}"));
        }
    }
    faults.extend(metrics.into_keys());
    assert_none(&faults);
}

/// Each code raises an alert, or is named here as what a program asks for.
#[test]
fn every_code_of_an_error_is_an_alert_or_none_on_purpose() {
    let queries = queries_of_rules();
    let in_rules = |metric: &str, label: &str| -> BTreeSet<String> {
        let selectors = queries
            .iter()
            .flat_map(|it| Query::read(&it.query).selectors);
        let matchers = selectors
            .filter(|it| it.metric == metric)
            .flat_map(|it| it.matchers);
        let values = matchers
            .filter(|(it, _)| it == label)
            .map(|(_, values)| values);
        values
            .flat_map(|it| it.split('|').map(ToOwned::to_owned).collect::<Vec<_>>())
            .collect()
    };
    for (metric, label, codes, on_purpose) in [
        (
            "dlock_refused_total",
            "reason",
            LockError::CODES,
            // A lost lease has a metric of its own.
            &["lost", "closed"][..],
        ),
        (
            "dlock_lost_total",
            "cause",
            LostCause::CODES,
            &["max-hold", "renewal-disabled", "shut-down", "other-process"],
        ),
    ] {
        let mut named = in_rules(metric, label);
        named.extend(on_purpose.iter().map(|it| (*it).to_owned()));
        let codes: BTreeSet<_> = codes.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(named, codes, "{metric}");
    }
}
