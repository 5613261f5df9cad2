//! The alerts on jobs of `dlock run`, as the book shows them: they use its metrics, and fire.

use std::{collections::BTreeSet, fs};

use crate::{files::read, promql::Query, rules::test};

const PAGE: &str = "docs/book/src/how-to/cron.md";

/// A case for each query of the page, in its order.
const CASES: &str = r#"
rule_files: [jobs.rules.yml]
evaluation_interval: 1h
tests:
  - interval: 1h
    input_series:
      - series: 'dlock_run_success_timestamp_seconds{key="report:daily", namespace="dlock", instance="a"}'
        values: '0x40'
      - series: 'dlock_run_success_timestamp_seconds{key="report:daily", namespace="dlock", instance="b"}'
        values: '7200x40'
      - series: 'dlock_run_success_timestamp_seconds{key="other", namespace="dlock", instance="a"}'
        values: '0x40'
    alert_rule_test:
      - {eval_time: 27h, alertname: Job0, exp_alerts: []}
      - {eval_time: 29h, alertname: Job0, exp_alerts: [{exp_labels: {key: 'report:daily', namespace: dlock}}]}
  - interval: 1h
    input_series:
      - {series: 'dlock_run_exit_code{key="failed", namespace="dlock"}', values: '1x4'}
      - {series: 'dlock_run_exit_code{key="skipped", namespace="dlock"}', values: '75x4'}
      - {series: 'dlock_run_exit_code{key="done", namespace="dlock"}', values: '0x4'}
    alert_rule_test:
      - {eval_time: 3h, alertname: Job1, exp_alerts: [{exp_labels: {key: failed, namespace: dlock}}]}
  - interval: 1h
    input_series:
      - {series: 'dlock_run_start_timestamp_seconds{key="hangs", namespace="dlock"}', values: '0x4'}
      - {series: 'dlock_run_start_timestamp_seconds{key="done", namespace="dlock"}', values: '0x4'}
      - {series: 'dlock_run_end_timestamp_seconds{key="done", namespace="dlock"}', values: '60x4'}
    alert_rule_test:
      - {eval_time: 2h, alertname: Job2, exp_alerts: []}
      - {eval_time: 3h, alertname: Job2, exp_alerts: [{exp_labels: {key: hangs, namespace: dlock}}]}
"#;

fn queries() -> Vec<String> {
    let page = read(PAGE);
    let blocks = page.split("```promql\n").skip(1);
    let queries = blocks.filter_map(|it| Some(it.split_once("```")?.0.trim().to_owned()));
    queries.collect()
}

/// The metrics that the reference lists.
fn listed() -> BTreeSet<String> {
    let page = read("docs/book/src/reference/cli.md");
    let rows = page
        .lines()
        .filter_map(|it| it.strip_prefix("| `dlock_run_"));
    let names = rows.filter_map(|it| Some(it.split_once('`')?.0.to_owned()));
    names.collect()
}

#[test]
fn the_metrics_of_a_run_are_those_of_the_reference() {
    let code = read("dlock-cli/src/commands/run/record.rs");
    let listed = listed();
    assert_eq!(listed.len(), 8);
    for name in &listed {
        assert!(
            code.contains(&format!("\"{name}\"")),
            "{name} is not written"
        );
    }
    let helps = code.matches("last run").count();
    assert_eq!(helps, listed.len(), "each has a text, and no other");
    for query in queries() {
        for selector in Query::read(&query).selectors {
            let name = selector
                .metric
                .strip_prefix("dlock_run_")
                .unwrap_or_default();
            assert!(listed.contains(name), "{query}: {}", selector.metric);
        }
    }
}

#[test]
fn alerts_on_jobs_fire() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries();
    let rules = queries.iter().enumerate();
    let rules = rules
        .map(|(number, query)| format!("      - alert: Job{number}\n        expr: {query:?}\n"));
    let file = format!(
        "groups:\n  - name: jobs\n    rules:\n{}",
        rules.collect::<String>()
    );
    let (of_rules, of_cases) = (
        folder.path().join("jobs.rules.yml"),
        folder.path().join("cases.yml"),
    );
    fs::write(&of_rules, &file).unwrap();
    fs::write(&of_cases, CASES).unwrap();
    test(&of_cases).unwrap_or_else(|said| panic!("{said}\n{file}"));
    let silent = file.replace("- alert: Job", "- alert: Another");
    fs::write(&of_rules, silent).unwrap();
    let said = test(&of_cases).expect_err("no alert of these names fires");
    for number in 0..queries.len() {
        assert!(said.contains(&format!("alertname: Job{number},")), "{said}");
    }
}
