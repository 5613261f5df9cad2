//! promtool accepts the rules and their tests, each alert has both kinds of test, and its page has the steps.

use std::{collections::BTreeMap, path::Path, process::Command};

use dlock_testkit::promtool;

use crate::{
    assert_none,
    files::{Asked, RULE_TESTS, RULES, Rule, read, rules},
    names::Known,
    root,
};

/// The page with the steps for each alert, and where it is found without the repository.
const PAGE: &str = "docs/book/src/how-to/seeing-locks.md";
const PUBLISHED: &str = "https://docs.rs/dlock-rs/latest/dlock/book/seeing_locks/index.html#";

/// What promtool says, if it accepts what it is given.
fn accepted(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(said)
    }
}

/// Checks a file of rules.
pub(crate) fn check(path: &Path) -> Result<String, String> {
    let arguments = ["check", "rules", "--lint=all", "--lint-fatal"];
    accepted(promtool().args(arguments).arg(path))
}

/// Runs the tests of a file.
pub(crate) fn test(path: &Path) -> Result<String, String> {
    accepted(promtool().args(["test", "rules"]).arg(path))
}

#[test]
fn promtool_accepts_them_and_finds_as_many() {
    let said = check(&root().join(RULES)).unwrap_or_else(|said| panic!("{said}"));
    let found = format!("SUCCESS: {} rules found", rules().len());
    assert!(said.contains(&found), "{said}");
}

#[test]
fn promtool_runs_their_tests() {
    test(&root().join(RULE_TESTS)).unwrap_or_else(|said| panic!("{said}"));
}

/// The alerts of the tests, each with whether it is to fire.
fn tested() -> BTreeMap<String, Vec<bool>> {
    let mut found: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let mut alert = String::new();
    for line in read(RULE_TESTS).lines() {
        if let Some((_, name)) = line.split_once("- alertname: ") {
            name.clone_into(&mut alert);
        } else if let Some((_, expected)) = line.split_once("exp_alerts:") {
            let fires = expected.trim() != "[]";
            found.entry(alert.clone()).or_default().push(fires);
        }
    }
    found
}

#[test]
fn each_alert_is_seen_to_fire_and_not_to_fire() {
    let tested = tested();
    let is_missing = |rule: &Rule, fires| {
        let cases = tested.get(&rule.name);
        !cases.is_some_and(|cases| cases.contains(&fires))
    };
    let mut faults = Vec::new();
    for rule in rules().iter().filter(|it| it.is_alert) {
        for fires in [true, false] {
            if is_missing(rule, fires) {
                faults.push(format!("{}: no case in which it fires: {fires}", rule.name));
            }
        }
    }
    assert_none(&faults);
}

/// The tests of the rules notice alerts that never fire: here none does.
#[test]
fn alerts_that_never_fire_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let tests = folder.path().join("dlock.rules.test.yml");
    let silent = read(RULES).replace("- alert: ", "- alert: Another");
    std::fs::write(folder.path().join("dlock.rules.yml"), silent).unwrap();
    std::fs::write(&tests, read(RULE_TESTS)).unwrap();
    let said = test(&tests).expect_err("no alert of these names fires");
    let silent = |rule: &&Rule| !said.contains(&format!("alertname: {},", rule.name));
    let rules = rules();
    let alerts = rules.iter().filter(|it| it.is_alert);
    let missed = alerts.filter(silent).map(|it| it.name.clone());
    assert_none(&missed.collect::<Vec<_>>());
}

#[test]
fn each_alert_says_what_it_means_and_where_the_steps_are() {
    let page = read(PAGE);
    let mut faults = Vec::new();
    for rule in rules().iter().filter(|it| it.is_alert) {
        let mut note = |fault: &str| faults.push(format!("{}: {fault}", rule.name));
        if !["critical", "warning"].contains(&rule.field("severity")) {
            note("its severity is neither `critical` nor `warning`");
        }
        if rule.field("summary").len() < 20 || rule.field("description").len() < 40 {
            note("its texts are short");
        }
        let expected = format!("{PUBLISHED}{}", rule.name.to_lowercase());
        if rule.field("runbook_url") != expected {
            note(&format!("its steps are not at {expected}"));
        }
        let heading = format!("\n### {}\n", rule.name);
        let steps = page.split(&heading).nth(1).unwrap_or_default();
        let steps = steps.split("\n#").next().unwrap_or_default();
        for part in ["**Cause.**", "**Do.**"] {
            if !steps.contains(part) {
                note(&format!("the page does not say `{part}`"));
            }
        }
    }
    let sections = page.lines().filter_map(|it| it.strip_prefix("### Dlock"));
    for section in sections {
        let name = format!("Dlock{section}");
        if !rules().iter().any(|it| it.name == name) {
            faults.push(format!("{PAGE}: there is no alert {name}"));
        }
    }
    assert_none(&faults);
}

/// The page about alerts lists them, and shows rules as they are. Those of a program's own come last.
#[test]
fn rules_in_documents_are_those_of_the_file() {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rules = rules();
    let known: Vec<_> = rules.iter().map(|it| one_line(it.field("expr"))).collect();
    let page = read("docs/book/src/how-to/alerting.md");
    let (shown, own) = page.split_once("\n## Rules of your own\n").unwrap();
    let blocks = |text: &str| -> Vec<String> {
        let blocks = text.split("```promql\n").skip(1);
        blocks
            .filter_map(|it| Some(it.split_once("```")?.0.to_owned()))
            .collect()
    };
    let (of_file, own) = (blocks(shown), blocks(own));
    assert!(of_file.len() > 5 && own.len() > 2, "they were found");
    let mut faults: Vec<_> = of_file
        .into_iter()
        .filter(|it| !known.contains(&one_line(it)))
        .collect();
    let names = Known::read();
    for query in own {
        let place = format!("the page about alerts: {}", query.trim());
        faults.extend(names.faults_of(&Asked {
            place,
            query,
            shown: Vec::new(),
        }));
    }
    for rule in rules.iter().filter(|it| it.is_alert) {
        let hold = rule.fields.get("for").map_or_else(
            || "0 s".to_owned(),
            |it| {
                it.strip_suffix('m')
                    .map_or_else(|| it.replace('s', " s"), |it| format!("{it} min"))
            },
        );
        let row = format!("| `{}` | {hold} | {} |", rule.name, rule.field("severity"));
        if !page.contains(&row) {
            faults.push(format!("the page has no row `{row}`"));
        }
    }
    assert_none(&faults);
}
