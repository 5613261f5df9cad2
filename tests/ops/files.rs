//! The files of `ops/`, taken apart.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::root;

pub(crate) const DASHBOARD: &str = "ops/grafana/dlock.json";
pub(crate) const RULES: &str = "ops/prometheus/dlock.rules.yml";
pub(crate) const RULE_TESTS: &str = "ops/prometheus/dlock.rules.test.yml";

pub(crate) fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A query for Prometheus, with the place where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) place: String,
    pub(crate) query: String,
    /// Labels that a text beside the query shows.
    pub(crate) shown: Vec<String>,
}

/// A rule of the rules' file, by its keys.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) is_alert: bool,
    pub(crate) fields: BTreeMap<String, String>,
}

/// The rules, as they are written there: `promtool` says whether they are YAML.
pub(crate) fn rules() -> Vec<Rule> {
    let text = read(RULES);
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .peekable();
    let mut rules: Vec<Rule> = Vec::new();
    while let Some(line) = lines.next() {
        let indent = indent(line);
        let Some((key, value)) = line.trim_start().split_once(':') else {
            continue;
        };
        let key = key.trim_start_matches("- ");
        let mut value = value.trim().to_owned();
        if matches!(value.as_str(), "|" | ">-") {
            value.clear();
            while let Some(line) = lines.next_if(|line| self::indent(line) > indent) {
                value.push_str(line.trim());
                value.push(' ');
            }
        }
        let value = value.trim().trim_matches('\'').to_owned();
        if matches!(key, "alert" | "record") {
            rules.push(Rule {
                name: value,
                is_alert: key == "alert",
                ..Rule::default()
            });
        } else if let Some(rule) = rules.last_mut() {
            rule.fields.insert(key.to_owned(), value);
        }
    }
    assert!(rules.len() > 20, "there are fewer rules than there were");
    rules
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

impl Rule {
    #[track_caller]
    pub(crate) fn field(&self, key: &str) -> &str {
        let found = self.fields.get(key);
        found.unwrap_or_else(|| panic!("{} has no `{key}`", self.name))
    }

    fn asked(&self) -> Asked {
        let texts = ["summary", "description"];
        let texts = texts.iter().filter_map(|key| self.fields.get(*key));
        Asked {
            place: format!("{RULES}: {}", self.name),
            query: self.field("expr").to_owned(),
            shown: texts
                .flat_map(|text| between(text, "$labels.", |it| !is_label(it)))
                .collect(),
        }
    }
}

/// The queries of all rules.
pub(crate) fn queries_of_rules() -> Vec<Asked> {
    rules().iter().map(Rule::asked).collect()
}

pub(crate) fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap()
}

/// Its panels, with those inside of rows.
pub(crate) fn panels() -> Vec<Value> {
    let all = dashboard()["panels"].as_array().unwrap().clone();
    let inside = all.iter().filter_map(|it| it["panels"].as_array().cloned());
    let inside: Vec<_> = inside.flatten().collect();
    all.into_iter().chain(inside).collect()
}

/// The queries of all panels, and those by which the variables find their values.
pub(crate) fn queries_of_panels() -> Vec<Asked> {
    let mut found = Vec::new();
    for variable in dashboard()["templating"]["list"].as_array().unwrap() {
        let query = variable["query"]["query"].as_str().unwrap_or_default();
        let inside = query.strip_prefix("label_values(");
        let inside = inside.and_then(|it| it.strip_suffix(')')?.rsplit_once(", "));
        if let Some((series, label)) = inside {
            found.push(Asked {
                place: format!("{DASHBOARD}: {}", variable["name"]),
                query: format!("count by ({label}) ({series})"),
                shown: vec![label.to_owned()],
            });
        }
    }
    assert_eq!(found.len(), 4, "of the variables");
    for panel in panels() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            found.push(Asked {
                place: format!("{DASHBOARD}: {}", panel["title"]),
                query: target["expr"].as_str().unwrap().to_owned(),
                shown: between(legend, "{{", |it| it == '}'),
            });
        }
    }
    assert!(found.len() > 20, "there are fewer queries than there were");
    found
}

/// The words behind each `start`, to the first character that ends them.
fn between(text: &str, start: &str, ends: impl Fn(char) -> bool) -> Vec<String> {
    let words = text.split(start).skip(1);
    words
        .map(|rest| rest.split(&ends).next().unwrap_or_default().to_owned())
        .collect()
}

fn is_label(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A query of a panel as promtool can read it: with values in place of Grafana's variables.
pub(crate) fn without_variables(query: &str) -> String {
    query
        .replace("$__rate_interval", "5m")
        .replace("$__range", "1h")
}
