//! The sentences of a text in Markdown.

use std::mem;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The word that stands for code in a sentence.
pub(super) const CODE: &str = "`…`";

/// A sentence of a text, without its code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) line: usize,
    pub(super) text: String,
    /// Headings and cells of tables need not be sentences.
    pub(super) is_prose: bool,
}

/// All sentences. The first line of the text has the number `first_line`.
pub(super) fn sentences(markdown: &str, first_line: usize) -> Vec<Sentence> {
    let mut reader = Reader::default();
    let mut in_block_of_code = false;
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter();
    for (event, range) in events {
        let line = first_line + markdown[..range.start].matches('\n').count();
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                reader.flush();
                in_block_of_code = true;
            }
            Event::End(TagEnd::CodeBlock) => in_block_of_code = false,
            Event::Start(tag) => reader.start(&tag),
            Event::End(tag) => reader.end(tag),
            Event::Text(text) if !in_block_of_code => reader.push(&text, line),
            Event::Code(_) => reader.push(CODE, line),
            Event::SoftBreak | Event::HardBreak => reader.push(" ", line),
            _ => {}
        }
    }
    reader.flush();
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Sentence>,
    text: String,
    line: usize,
    /// The depth in headings and tables.
    beside_prose: usize,
}

impl Reader {
    fn start(&mut self, tag: &Tag<'_>) {
        if is_block(tag.to_end()) {
            self.flush();
        }
        if is_beside_prose(tag.to_end()) {
            self.beside_prose += 1;
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if is_block(tag) {
            self.flush();
        }
        if is_beside_prose(tag) {
            self.beside_prose -= 1;
        }
    }

    fn push(&mut self, text: &str, line: usize) {
        if self.text.trim().is_empty() {
            self.line = line;
        }
        self.text.push_str(text);
    }

    /// Ends a paragraph, an item, a heading or a cell.
    fn flush(&mut self) {
        let text = mem::take(&mut self.text);
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = end_of_sentence(rest);
            let (sentence, behind) = rest.split_at(end);
            self.found.push(Sentence {
                line: self.line,
                text: sentence.trim().to_owned(),
                is_prose: self.beside_prose == 0,
            });
            rest = behind.trim_start();
        }
    }
}

fn is_block(tag: TagEnd) -> bool {
    !matches!(
        tag,
        TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image
    )
}

fn is_beside_prose(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::Heading(_) | TagEnd::Table)
}

/// The place behind the first full stop, or other mark, that a space and a capital letter or code follow.
fn end_of_sentence(text: &str) -> usize {
    for (at, mark) in text.match_indices(['.', '!', '?']) {
        let behind = &text[at + mark.len()..];
        let closed = behind.trim_start_matches(['"', '\'', ')', '”']);
        let next = closed.trim_start();
        let begins = next.starts_with(|it: char| it.is_uppercase() || it == '`');
        if next.is_empty() || (next.len() < closed.len() && begins) {
            return text.len() - closed.len();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(markdown: &str) -> Vec<String> {
        let found = sentences(markdown, 1).into_iter();
        found.map(|it| it.text).collect()
    }

    #[test]
    fn sentences_are_told_apart() {
        assert_eq!(
            texts("One `a. B` ends here. Two ends\nthere! `c` is the third, e.g. this."),
            [
                "One `…` ends here.",
                "Two ends there!",
                "`…` is the third, e.g. this."
            ]
        );
    }

    #[test]
    fn blocks_end_sentences_and_code_is_none() {
        let markdown = "# Title\n\n- one\n- [two](x.md)\n\n```rust\nfn nobody() {}\n```\n\n| a | b |\n|---|---|\n| c | d |\n";
        assert_eq!(texts(markdown), ["Title", "one", "two", "a", "b", "c", "d"]);
    }

    #[test]
    fn a_sentence_has_its_line() {
        let found = sentences("# Title\n\nOne.\n\nTwo\nlines.\n", 10);
        let lines: Vec<_> = found.iter().map(|it| (it.line, it.is_prose)).collect();
        assert_eq!(lines, [(10, false), (12, true), (14, true)]);
    }
}
