//! The documentation and the literals of a Rust source.

use proc_macro2::{LexError, Literal, TokenStream, TokenTree};

use super::text::{Sentence, sentences};

/// What users read of a source.
#[derive(Default)]
pub(super) struct Source {
    pub(super) documentation: Vec<Sentence>,
    pub(super) literals: Vec<Sentence>,
    /// The comment that is being read: its first line, and its text.
    comment: Option<(usize, String)>,
    /// `true` if that comment is `//!`.
    is_inner: bool,
}

/// Reads a source, without its modules of unit tests.
pub(super) fn read(source: &str) -> Result<Source, LexError> {
    let mut found = Source::default();
    found.walk(source.parse()?);
    found.end_comment();
    Ok(found)
}

impl Source {
    fn walk(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_tests = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    // `#![…]` and `#[…]`; a comment is `#[doc = "…"]`.
                    let is_mark = |it: &TokenTree| it.to_string() == "!";
                    let is_inner = tokens.next_if(is_mark).is_some();
                    if is_inner != self.is_inner {
                        self.end_comment();
                        self.is_inner = is_inner;
                    }
                    let Some(TokenTree::Group(group)) = tokens.next() else {
                        continue;
                    };
                    if let Some(line) = documented(&group.stream()) {
                        self.comment_line(line.span().start().line, &value(&line));
                        continue;
                    }
                    // `#[error("…")]`
                    self.walk(group.stream());
                    is_tests = group.stream().to_string().replace(' ', "") == "cfg(test)";
                }
                TokenTree::Group(group) => {
                    self.end_comment();
                    if is_tests {
                        is_tests = false;
                    } else {
                        self.walk(group.stream());
                    }
                }
                TokenTree::Literal(literal) => {
                    self.end_comment();
                    self.literal(&literal);
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    self.end_comment();
                    is_tests = false;
                }
                _ => self.end_comment(),
            }
        }
    }

    fn comment_line(&mut self, number: usize, text: &str) {
        let (_, comment) = self.comment.get_or_insert((number, String::new()));
        comment.push_str(text.strip_prefix(' ').unwrap_or(text));
        comment.push('\n');
    }

    fn end_comment(&mut self) {
        if let Some((line, text)) = self.comment.take() {
            self.documentation.extend(sentences(&text, line));
        }
    }

    fn literal(&mut self, literal: &Literal) {
        let shown = literal.to_string();
        if shown.starts_with(['"', 'r']) {
            let line = literal.span().start().line;
            self.literals.extend(sentences(&value(literal), line));
        }
    }
}

/// The text of `doc = "…"`.
fn documented(attribute: &TokenStream) -> Option<Literal> {
    let mut tokens = attribute.clone().into_iter();
    match (tokens.next()?, tokens.next()?, tokens.next()?) {
        (TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(text))
            if name == "doc" =>
        {
            Some(text)
        }
        _ => None,
    }
}

/// The text of a literal, as far as words go.
fn value(literal: &Literal) -> String {
    let shown = literal.to_string();
    let raw = shown.trim_start_matches('r').trim_matches('#');
    let inner = raw.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let inner = inner.unwrap_or(raw);
    if shown.starts_with('r') {
        return inner.to_owned();
    }
    let mut text = String::new();
    let mut rest = inner.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '\\' {
            text.push(next);
            continue;
        }
        match rest.next() {
            Some('n') => text.push('\n'),
            // The text goes on in the next line.
            Some('\n') => while rest.next_if(|it| it.is_whitespace()).is_some() {},
            Some(other) => text.push(other),
            None => {}
        }
    }
    text
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

#[cfg(test)]
mod tests { fn two() { error(\"no user reads it\") } }

const LAST: &str = \"the last\";
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
                (11, "the last".to_owned())
            ]
        );
    }
}
