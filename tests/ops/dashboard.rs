//! The dashboard can be loaded, and every panel says what it shows and what to do.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::Value;

use crate::{
    assert_none,
    exported::of_events,
    files::{dashboard, panels, queries_of_panels, without_variables},
    promql::{Query, Selector},
    rules,
};

/// The width of the grid on which Grafana lays out panels.
const WIDTH: u64 = 24;

#[test]
fn every_panel_has_an_id_a_title_a_description_and_a_query() {
    let mut ids = BTreeSet::new();
    let mut faults = Vec::new();
    for panel in panels() {
        let title = panel["title"].as_str().unwrap_or_default();
        let mut note = |fault: &str| faults.push(format!("{title:?}: {fault}"));
        if title.is_empty() {
            note("it has no title");
        }
        if !panel["id"].as_u64().is_some_and(|id| ids.insert(id)) {
            note("its id is missing or taken");
        }
        if panel["type"] == "row" {
            continue;
        }
        let description = panel["description"].as_str().unwrap_or_default();
        // The meaning of the panel, and the next step.
        if description.len() < 60 || description.matches('.').count() < 2 {
            note("its description is short");
        }
        let targets = panel["targets"].as_array();
        if targets.is_none_or(Vec::is_empty) {
            note("it has no query");
        }
        for part in targets.into_iter().flatten().chain([&panel]) {
            if part["datasource"]["uid"] != "${datasource}" {
                note("its data source is not the variable");
            }
        }
        if panel["fieldConfig"]["defaults"]["unit"].as_str().is_none() {
            note("its values have no unit");
        }
    }
    assert!(ids.len() > 20, "there are fewer panels than there were");
    assert_none(&faults);
}

#[test]
fn no_two_panels_overlap() {
    let place = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
    let mut taken = BTreeSet::new();
    let mut faults = Vec::new();
    for panel in panels() {
        let (x, y) = (place(&panel, "x"), place(&panel, "y"));
        let (w, h) = (place(&panel, "w"), place(&panel, "h"));
        let cells = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        let free = cells.filter(|cell| taken.insert(*cell)).count() as u64;
        if free != w * h || free == 0 || x + w > WIDTH {
            faults.push(panel["title"].to_string());
        }
    }
    assert_none(&faults);
}

#[test]
fn variables_that_are_used_are_there() {
    let dashboard = dashboard();
    let list = dashboard["templating"]["list"].as_array().unwrap();
    let names: BTreeSet<_> = list.iter().filter_map(|it| it["name"].as_str()).collect();
    let of_grafana = ["__all", "__range", "__rate_interval"];
    let text = dashboard.to_string();
    let used = text.split('$').skip(1).map(|rest| {
        let rest = rest.trim_start_matches('{');
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        &rest[..end.unwrap_or(rest.len())]
    });
    let used: BTreeSet<_> = used.filter(|it| !of_grafana.contains(it)).collect();
    assert_eq!(used, names);
    assert!(dashboard["schemaVersion"].as_u64() >= Some(39));
    assert_eq!(dashboard["id"], Value::Null, "Grafana gives it one");
    assert!(dashboard["uid"].is_string() && dashboard["title"].is_string());
}

/// Each query is given to promtool as a rule.
#[test]
fn promtool_reads_every_query() {
    let mut file = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    let queries = queries_of_panels();
    for (number, asked) in queries.iter().enumerate() {
        let query = serde_json::to_string(&without_variables(&asked.query)).unwrap();
        writeln!(
            file,
            "      - record: panel:query{number}\n        expr: {query}"
        )
        .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queries.yml");
    std::fs::write(&path, &file).unwrap();
    let said = rules::check(&path).unwrap_or_else(|said| panic!("{said}\n{file}"));
    let found = format!("SUCCESS: {} rules found", queries.len());
    assert!(said.contains(&found), "{said}");
    // And says so when it cannot.
    std::fs::write(&path, file.replacen("sum by (", "sum by ((", 1)).unwrap();
    rules::check(&path).expect_err("a query without an end");
}

/// A series that a selector finds.
fn series(selector: &Selector) -> String {
    let mut labels = Vec::new();
    for (label, value) in &selector.matchers {
        // The first of several values, or any for a variable.
        let value = if value.starts_with('$') {
            "any"
        } else {
            value.split('|').next().unwrap_or_default()
        };
        labels.push(format!("{label}=\"{value}\""));
    }
    format!("{}{{{}}}", selector.metric, labels.join(", "))
}

/// A counter of events appears with its first event, which neither `increase` nor `rate` sees: no sample comes before it.
#[test]
fn panels_show_the_first_event_of_a_series() {
    let mut of_events = of_events();
    // Of these, some series are written with zero, but not those of all causes and reasons.
    of_events.extend(["dlock_lost_total", "dlock_refused_total"].map(str::to_owned));
    let mut seen = BTreeSet::new();
    let mut file = "evaluation_interval: 1m\ntests:\n".to_owned();
    for asked in queries_of_panels() {
        let query = Query::read(&asked.query);
        let mut selectors = query.selectors.iter();
        let Some(selector) = selectors.find(|it| of_events.contains(&it.metric)) else {
            continue;
        };
        // The others divide a number of calls by another one, list the values of a variable, or show what is usual.
        let is_counted = asked.query.starts_with("sum") && !asked.query.contains(" / ");
        if !is_counted || selector.metric == "dlock_handed_over_total" {
            continue;
        }
        seen.insert(selector.metric.clone());
        let series = series(selector);
        let query = without_variables(&asked.query);
        let query = query.replace("=~\"$", "=~\".*|$");
        let query = serde_json::to_string(&format!("sum({query})")).unwrap();
        // An event that creates its series, another one after it, and one that is long over.
        for (values, expected) in [("_x70 1x10", 1), ("_x70 1 2x10", 2), ("3x90", 0)] {
            write!(
                file,
                "  - interval: 1m\n    name: {place}\n    input_series:\n      - series: '{series}'\n        \
                 values: '{values}'\n    promql_expr_test:\n      - expr: {query}\n        eval_time: 73m\n        \
                 exp_samples:\n          - labels: '{{}}'\n            value: {expected}\n",
                place = serde_json::to_string(&asked.place).unwrap(),
            )
            .unwrap();
        }
    }
    of_events.remove("dlock_handed_over_total");
    assert_eq!(seen, of_events, "a panel counts the events of each");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("panels.test.yml");
    std::fs::write(&path, &file).unwrap();
    rules::test(&path).unwrap_or_else(|said| panic!("{said}"));
}
