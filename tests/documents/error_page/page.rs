//! What `docs/book/src/reference/errors.md` says.

use std::fmt::Display;

const TEXT: &str = include_str!("../../../docs/book/src/reference/errors.md");

/// One error on the page.
#[derive(Clone, Default)]
pub(crate) struct Row {
    pub(crate) section: &'static str,
    pub(crate) code: &'static str,
    /// How it is shown; `…` stands for anything.
    pub(crate) shown: &'static str,
    pub(crate) happened: String,
    pub(crate) remedy: String,
    pub(crate) status: Option<u16>,
}

pub(crate) struct Page(Vec<Row>);

impl Page {
    pub(crate) fn read() -> Self {
        let mut rows: Vec<Row> = Vec::new();
        let mut section = "";
        let mut item = "";
        for line in TEXT.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            } else if let Some(title) = line.strip_prefix("### ") {
                rows.push(Row {
                    section,
                    code: title.trim_matches('`'),
                    ..Row::default()
                });
                item = "";
            } else if let Some(row) = rows.last_mut() {
                if let Some(shown) = line.strip_prefix("> ") {
                    assert!(row.shown.is_empty(), "`{}` is shown once", row.code);
                    row.shown = shown;
                }
                let rest = line.strip_prefix("- ").and_then(|it| it.split_once(": "));
                let text = match rest {
                    Some((name, text)) => {
                        item = name;
                        text
                    }
                    None if line.starts_with("  ") => line,
                    None => continue,
                };
                match item {
                    "Cause" => row.happened.push_str(text),
                    "Action" => row.remedy.push_str(text),
                    "HTTP" => row.status = Some(text.parse().expect("a status is a number")),
                    other => panic!("what is `{other}` of `{}`?", row.code),
                }
            }
        }
        Self(rows)
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.0
    }

    pub(crate) fn sections(&self) -> Vec<&'static str> {
        let mut sections: Vec<_> = self.0.iter().map(|row| row.section).collect();
        sections.dedup();
        sections
    }

    pub(crate) fn codes_of(&self, section: &str) -> Vec<&'static str> {
        let rows = self.0.iter().filter(|row| row.section == section);
        rows.map(|row| row.code).collect()
    }

    pub(crate) fn row(&self, code: &str) -> &Row {
        let mut rows = self.0.iter().filter(|row| row.code == code);
        rows.next()
            .unwrap_or_else(|| panic!("`{code}` is not on the page"))
    }

    /// The error's text is the one on the page.
    #[track_caller]
    pub(crate) fn assert_shows(&self, code: &str, error: &impl Display) {
        let (shown, text) = (self.row(code).shown, error.to_string());
        assert!(
            fits(shown, &text),
            "`{code}` is shown as\n  {shown}\non the page, and is\n  {text}"
        );
        assert!(!text.contains('\n'), "one line of a log: {text}");
    }
}

/// Whether `text` is `pattern` with something in place of each `…`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((something, after)) if !something.is_empty() => rest = after,
            _ => return false,
        }
    }
    rest.len() > last.len() && rest.ends_with(last)
}

#[test]
fn a_text_that_differs_does_not_fit() {
    assert!(fits("a … b", "a 1 b"));
    assert!(fits("a … b … c", "a 1 b 2 c"));
    assert!(fits("a", "a"));
    for text in ["a  b", "a 1", "1 b", "a 1 b c", "", "x a 1 b"] {
        assert!(!fits("a … b", text), "{text}");
    }
    assert!(!fits("a", "ab"));
}
