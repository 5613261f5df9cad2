//! Parses `"order:<id>"` into pieces with byte ranges, and finds every mistake in it.
//!
//! This module works on text and does not know whether a name exists. Two rules are about safety and not
//! about syntax. Placeholders need a reserved character between them, because exactly those characters are
//! escaped in rendered values: `<a>:<b>` can be read back, but `<a><b>` cannot, and two different calls would
//! share a lock. Braces are refused because Redis Cluster would route by the text inside them.

use std::ops::Range;

use unicode_ident::{is_xid_continue, is_xid_start};

use crate::fault::Fault;

/// Fixed text longer than this leaves too little of a key for the values.
const LONGEST_TEXT: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Fixed text, with `<<` and `>>` already unescaped.
    Text(String),
    Slot(Slot),
}

/// A placeholder: `<root.path>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The range of the placeholder without its brackets.
    pub(crate) range: Range<usize>,
    /// The range of the parameter's name, including an `r#`.
    pub(crate) name: Range<usize>,
    pub(crate) root: String,
    pub(crate) path: Vec<Access>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Field(String),
    Index(u32),
    Method(String),
}

#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
    /// The ranges of names in fixed text, without quoted names.
    pub(crate) names: Vec<Range<usize>>,
    pub(crate) faults: Vec<(Range<usize>, Fault)>,
}

/// Reads all of `text`. Faulty parts are omitted from the pieces.
pub(crate) fn parse(text: &str) -> Template {
    let mut reader = Reader {
        text,
        at: 0,
        out: Template::default(),
        between: None,
        in_braces: false,
    };
    reader.whole();
    while reader.at < text.len() {
        reader.next();
    }
    reader.fixed_length();
    reader.out
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    out: Template,
    /// The previous placeholder, and whether a reserved character followed it.
    between: Option<(Range<usize>, bool)>,
    in_braces: bool,
}

impl Reader<'_> {
    /// Finds mistakes of the text as a whole.
    fn whole(&mut self) {
        let text = self.text;
        if text.is_empty() {
            self.fault(
                0..0,
                Fault::new("the lock key is empty")
                    .help("write a key template, for example `key = \"order:<id>\"`"),
            );
        } else if text.trim().is_empty() {
            self.fault(
                0..text.len(),
                Fault::new("the lock key contains only white space")
                    .help("write a key template, for example `key = \"order:<id>\"`"),
            );
            self.at = text.len();
        } else if text.trim() != text {
            let start = text.len() - text.trim_start().len();
            let spaces = if start > 0 {
                0..start
            } else {
                text.trim_end().len()..text.len()
            };
            // One fault covers both ends, and the spaces are not checked again.
            self.fault(
                spaces,
                Fault::new("the lock key has white space at its start or end")
                    .help("remove it: keys that differ only in white space are hard to tell apart"),
            );
            self.at = start;
        }
    }

    fn next(&mut self) {
        let rest = &self.text[self.at..];
        let char = rest.chars().next().expect("`at` is before the end");
        match char {
            '<' | '>' if rest[1..].starts_with(char) => {
                self.push_text(char);
                self.at += 2;
            }
            '<' => self.slot(),
            '>' => {
                self.fault(
                    self.at..self.at + 1,
                    Fault::new("unmatched `>` in the lock key")
                        .help("write `>>` for a literal `>`"),
                );
                self.at += 1;
            }
            '{' | '}' => self.brace(char),
            _ if char.is_control() => {
                // White space at the ends is one fault already, whatever characters it consists of.
                if self.at < self.text.trim_end().len() {
                    self.fault(
                        self.at..self.at + char.len_utf8(),
                        Fault::new(format!(
                            "control character `{}` in the lock key",
                            char.escape_default()
                        ))
                        .help("use printable characters"),
                    );
                }
                self.excuse_delimiter();
                self.at += char.len_utf8();
            }
            _ => {
                self.push_text(char);
                self.note_name(char);
                self.at += char.len_utf8();
            }
        }
    }

    fn note_name(&mut self, char: char) {
        let end = self.at + char.len_utf8();
        match self.out.names.last_mut() {
            Some(name) if name.end == self.at && is_xid_continue(char) => name.end = end,
            _ if is_xid_start(char) || char == '_' => self.out.names.push(self.at..end),
            _ => {}
        }
    }

    fn brace(&mut self, char: char) {
        let closes = char == '}' && std::mem::take(&mut self.in_braces);
        if !closes {
            let inside = self.text[self.at + 1..].split(['{', '}']).next();
            let end = inside.map_or(self.at + 1, |inside| self.at + 1 + inside.len());
            let paired = char == '{' && self.text[end..].starts_with('}');
            let name = inside.filter(|inside| paired && read_slot(inside).is_some());
            let fault = Fault::new("braces are not allowed in a lock key");
            if let Some(name) = name {
                // All of `{id}` is one mistake.
                self.fault(self.at..end + 1, fault.help(format!("write `<{name}>`")));
                self.between = None;
                self.at = end + 1;
                return;
            }
            self.fault(
                self.at..self.at + 1,
                fault.help("write placeholders as `<id>`, and remove other braces"),
            );
            self.in_braces = paired;
        }
        self.excuse_delimiter();
        self.at += 1;
    }

    /// A refused text in the place of a delimiter is one mistake and not two.
    fn excuse_delimiter(&mut self) {
        if let Some((_, delimited)) = &mut self.between {
            *delimited = true;
        }
    }

    /// Reads a placeholder from its `<`.
    fn slot(&mut self) {
        let open = self.at;
        let rest = &self.text[open + 1..];
        let length = rest.find(['<', '>']).unwrap_or(rest.len());
        if !rest[length..].starts_with('>') {
            let name = rest[..length]
                .find(|c: char| !is_xid_continue(c) && !matches!(c, '.' | '(' | ')'))
                .unwrap_or(length);
            let example = match &rest[..name] {
                "" => "id",
                name => name,
            };
            self.fault(
                open..open + 1 + name,
                Fault::new("unclosed `<` in the lock key").help(format!(
                    "close the placeholder: `<{example}>`, or write `<<` for a literal `<`"
                )),
            );
            self.between = None;
            self.at = open + 1 + name;
            return;
        }

        let inside = &rest[..length];
        let whole = open..open + length + 2;
        self.at = whole.end;
        if let Some(text) = quoted(inside) {
            text.chars().for_each(|char| self.push_text(char));
            return;
        }
        self.delimited(&whole);
        let start = open + 1;
        match read_slot(inside) {
            Some((root, path)) => self.out.pieces.push(Piece::Slot(Slot {
                range: start..start + length,
                name: start..start + inside.find('.').unwrap_or(length),
                root,
                path,
            })),
            None => self.fault(whole, bad_slot(inside)),
        }
    }

    /// Checks that a reserved character separates this placeholder from the previous one.
    fn delimited(&mut self, slot: &Range<usize>) {
        if let Some((before, false)) = self.between.replace((slot.clone(), false)) {
            let a = &self.text[before.clone()];
            let b = &self.text[slot.clone()];
            self.fault(
                before.start..slot.end,
                Fault::new(format!("the values of `{a}` and `{b}` could run together"))
                    .help(format!("put a delimiter such as `:` or `/` between them: `{a}:{b}`"))
                    .note("letters, digits, `-`, `_`, `.`, `~` and `%` can occur in a value and are not delimiters"),
            );
        }
    }

    fn push_text(&mut self, char: char) {
        if let Some((_, delimited)) = &mut self.between {
            *delimited |= is_delimiter(char);
        }
        match self.out.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(char),
            _ => self.out.pieces.push(Piece::Text(char.to_string())),
        }
    }

    fn fixed_length(&mut self) {
        let fixed: usize = self.out.pieces.iter().map(Piece::text_len).sum();
        if fixed > LONGEST_TEXT {
            self.fault(
                0..self.text.len(),
                Fault::new(format!(
                    "the fixed text of the lock key is {fixed} bytes long"
                ))
                .help(format!("use at most {LONGEST_TEXT} bytes")),
            );
        }
    }

    fn fault(&mut self, range: Range<usize>, fault: Fault) {
        self.out.faults.push((range, fault));
    }
}

impl Piece {
    fn text_len(&self) -> usize {
        match self {
            Piece::Text(text) => text.len(),
            Piece::Slot(_) => 0,
        }
    }
}

/// Returns `true` for characters that a rendered value never contains, see `KeyPart`.
pub(crate) fn is_delimiter(char: char) -> bool {
    char.is_ascii() && !char.is_ascii_alphanumeric() && !"-_.~%".contains(char)
}

/// Returns the parts of a placeholder, or `None` if it is not `name.field.0.method()`.
pub(crate) fn read_slot(inside: &str) -> Option<(String, Vec<Access>)> {
    let mut steps = inside.split('.');
    let root = name(steps.next()?).filter(|root| root != "_")?;
    let path = steps
        .map(|step| {
            if let Some(method) = step.strip_suffix("()") {
                name(method).map(Access::Method)
            } else if step.starts_with(|c: char| c.is_ascii_digit()) {
                // `0`, and not `00` or `1_0`: the names of tuple fields.
                let index = step.parse().ok()?;
                (step == format!("{index}")).then_some(Access::Index(index))
            } else {
                name(step).map(Access::Field)
            }
        })
        .collect::<Option<Vec<Access>>>()?;
    Some((root, path))
}

/// Returns the quoted name, which represents itself as text.
fn quoted(inside: &str) -> Option<&str> {
    let text = inside.strip_prefix('\'')?.strip_suffix('\'')?;
    name(text).is_some().then_some(text)
}

/// Returns an identifier without its `r#`.
fn name(text: &str) -> Option<String> {
    let text = text.strip_prefix("r#").unwrap_or(text);
    let mut chars = text.chars();
    let starts = chars.next().is_some_and(|c| is_xid_start(c) || c == '_');
    (starts && chars.all(is_xid_continue)).then(|| text.to_owned())
}

fn bad_slot(inside: &str) -> Fault {
    let trimmed = inside.trim();
    if trimmed.is_empty() {
        Fault::new("empty placeholder in the lock key")
            .help("name a parameter: `<id>`, or write `<<` and `>>` for literal angle brackets")
    } else if trimmed == "_" {
        Fault::new("`_` has no value for the lock key")
            .help("to use an ignored parameter, name it `_name` and write `<_name>`")
    } else if trimmed != inside && read_slot(trimmed).is_some() {
        Fault::new("spaces in a placeholder of the lock key").help(format!("write `<{trimmed}>`"))
    } else {
        Fault::new(format!(
            "`{}` is not a valid placeholder",
            inside.escape_debug()
        ))
        .help("write a parameter, then any of `.field`, `.0` and `.method()`, as in `<order.id>`")
    }
}

#[cfg(test)]
// Named, as others compile this file from another place.
#[path = "template/tests.rs"]
mod tests;
