//! The names in a query of Prometheus. Whether it is one says promtool.

use std::{iter::Peekable, str::CharIndices};

/// Words of the language that are followed by labels in parentheses.
const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

const OPERATORS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

/// One metric in a query, with what is asked of its labels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    /// Labels, each with the value it is compared with.
    pub(crate) matchers: Vec<(String, String)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) selectors: Vec<Selector>,
    /// Labels that the result is grouped or joined by.
    pub(crate) grouped: Vec<String>,
}

struct Reader<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl Query {
    pub(crate) fn read(text: &str) -> Self {
        let rest = text.char_indices().peekable();
        let mut reader = Reader { text, rest };
        let mut query = Self::default();
        while let Some(&(at, first)) = reader.rest.peek() {
            match first {
                '"' | '\'' => drop(reader.string()),
                // A range, or a resolution.
                '[' => reader.skip_while(|it| it != ']'),
                // A number, a duration, or a variable of Grafana.
                '0'..='9' | '$' => {
                    reader.rest.next();
                    reader.skip_while(|it| is_part(it) || it == '.');
                }
                _ if is_part(first) => {
                    reader.skip_while(is_part);
                    let word = &text[at..reader.at()];
                    query.take(word, &mut reader);
                }
                _ => drop(reader.rest.next()),
            }
        }
        query
    }

    fn take(&mut self, word: &str, reader: &mut Reader<'_>) {
        reader.skip_while(char::is_whitespace);
        let following = reader.text[reader.at()..].to_owned();
        let is_called = following.starts_with('(');
        let is_aggregation = ["by", "without"].iter().any(|it| {
            let behind = following.strip_prefix(it);
            behind.is_some_and(|it| it.trim_start().starts_with('('))
        });
        if GROUPING.contains(&word) && is_called {
            let (labels, _) = following[1..].split_once(')').unwrap_or_default();
            let labels = labels.split(',').map(str::trim);
            let labels = labels.filter(|it| !it.is_empty());
            self.grouped.extend(labels.map(ToOwned::to_owned));
            reader.skip_while(|it| it != ')');
        } else if !is_called && !is_aggregation && !OPERATORS.contains(&word) {
            self.selectors.push(Selector {
                metric: word.to_owned(),
                matchers: if following.starts_with('{') {
                    reader.matchers()
                } else {
                    Vec::new()
                },
            });
        }
    }
}

impl Reader<'_> {
    /// The place of what comes next.
    fn at(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, it)| is_skipped(*it)).is_some() {}
    }

    /// The string that begins here.
    fn string(&mut self) -> String {
        let (_, quote) = self.rest.next().expect("a quote has been seen");
        let mut read = String::new();
        while let Some((_, it)) = self.rest.next_if(|(_, it)| *it != quote) {
            read.push(it);
        }
        self.rest.next();
        read
    }

    /// What stands between the braces that begin here.
    fn matchers(&mut self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.rest.next();
        loop {
            self.skip_while(|it| it.is_whitespace() || it == ',');
            let from = self.at();
            self.skip_while(is_part);
            let label = self.text[from..self.at()].to_owned();
            self.skip_while(|it| it.is_whitespace() || "=!~".contains(it));
            match self.rest.peek() {
                Some((_, '"' | '\'')) if !label.is_empty() => found.push((label, self.string())),
                _ => {
                    self.rest.next();
                    return found;
                }
            }
        }
    }
}

/// `true` for what names of metrics consist of.
fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_:".contains(character)
}

#[test]
fn the_names_in_a_query_are_found() {
    let query = r#"sum by (job, le) (rate(a_total{x=~"b|c",y!="d"}[5m])) > 0.5 * max(f:g offset 5m)
        unless on (h) histogram_quantile(0.9, i_bucket{job=~"$job"}[$__range]) and label_replace(k, "l", "m", "n", "")"#;
    let selector = |metric: &str, matchers: &[(&str, &str)]| Selector {
        metric: metric.to_owned(),
        matchers: matchers
            .iter()
            .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
            .collect(),
    };
    let expected = Query {
        selectors: vec![
            selector("a_total", &[("x", "b|c"), ("y", "d")]),
            selector("f:g", &[]),
            selector("i_bucket", &[("job", "$job")]),
            selector("k", &[]),
        ],
        grouped: ["job", "le", "h"].map(ToOwned::to_owned).into(),
    };
    assert_eq!(Query::read(query), expected);
}
