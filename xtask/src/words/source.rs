//! The documentation and the literals of a Rust source.

use std::iter;
use std::sync::LazyLock;

use proc_macro2::{LexError, TokenStream, TokenTree};
use regex_lite::{Captures, Regex};

use super::text::{Sentence, sentences};

/// What a backslash stands before; at the end of a line, the text goes on in the next one.
static ESCAPE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)\\(\n\s*|.)").expect("a test compiles it"));

/// What users read of a source.
pub(super) struct Source {
    pub(super) documentation: Vec<Sentence>,
    pub(super) literals: Vec<Sentence>,
}

/// Reads a source, up to its unit tests: clippy sees to it that nothing follows them.
pub(super) fn read(source: &str) -> Result<Source, LexError> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next();
    let mut comments = Vec::<(usize, String)>::new();
    let mut code = String::new();
    let mut is_comment = false;
    for (number, line) in iter::zip(1.., source.unwrap_or_default().lines()) {
        let begins = |mark| line.trim_start().strip_prefix(mark);
        let comment = begins("///").or_else(|| begins("//!"));
        if let Some(text) = comment {
            if !is_comment {
                comments.push((number, String::new()));
            }
            let (_, whole) = comments.last_mut().expect("one has begun");
            whole.push_str(text.strip_prefix(' ').unwrap_or(text));
            whole.push('\n');
        } else {
            code.push_str(line);
        }
        is_comment = comment.is_some();
        code.push('\n');
    }
    let documentation = comments.iter();
    let mut found = Vec::new();
    literals(code.parse()?, &mut found);
    Ok(Source {
        documentation: documentation
            .flat_map(|(line, text)| sentences(text, *line))
            .collect(),
        literals: found,
    })
}

/// Adds the sentences of all literals, those in attributes and in calls of macros included.
fn literals(tokens: TokenStream, found: &mut Vec<Sentence>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                let shown = literal.to_string();
                if shown.starts_with(['"', 'r']) {
                    found.extend(sentences(&value(&shown), literal.span().start().line));
                }
            }
            _ => {}
        }
    }
}

/// The text of a literal, as far as words go.
fn value(shown: &str) -> String {
    let inner = shown
        .trim_start_matches('r')
        .trim_matches('#')
        .trim_matches('"');
    if shown.starts_with('r') {
        return inner.to_owned();
    }
    let replaced = ESCAPE.replace_all(inner, |found: &Captures<'_>| match &found[1] {
        "n" => "\n".to_owned(),
        line if line.starts_with('\n') => String::new(),
        other => other.to_owned(),
    });
    replaced.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_read_and_tests_are_not() {
        let source = "\
//! The head,
//! of two lines.

/// Says `nobody`.
fn one() { error(\"a \\\"text\\\" \\
    of two lines\", 'x'); }

const LAST: &str = \"the last\";

#[cfg(test)]
mod tests { fn two() { error(\"no user reads it\") } }
";
        let read = read(source).expect("it is Rust");
        let texts = |found: &[Sentence]| -> Vec<_> {
            found.iter().map(|it| (it.line, it.text.clone())).collect()
        };
        assert_eq!(
            texts(&read.documentation),
            [
                (1, "The head, of two lines.".to_owned()),
                (4, "Says `…`.".to_owned())
            ]
        );
        assert_eq!(
            texts(&read.literals),
            [
                (5, "a \"text\" of two lines".to_owned()),
                (8, "the last".to_owned())
            ]
        );
    }
}
