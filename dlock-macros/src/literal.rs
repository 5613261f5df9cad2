//! Finds the place of a part of a string literal in the source.
//!
//! Stable compilers have no span for a part of a literal, so the message contains a drawing of the part. Where
//! `Literal::subspan` works, the compiler underlines the part instead. Names are underlined in another way, see
//! [`overlay`](crate::overlay).

use std::ops::Range;

use proc_macro2::Span;
use syn::LitStr;

use crate::message::Fault;

/// Reports `fault` at the bytes `range` of the literal's value.
pub(crate) fn report(literal: &LitStr, range: Range<usize>, fault: Fault) -> syn::Error {
    if let Some(span) = exact(literal, range.clone()) {
        return fault.at(span);
    }
    let whole_value = range == (0..literal.value().len());
    let Some(range) = in_source(literal, range).filter(|_| !whole_value) else {
        return fault.at(literal.span());
    };
    fault
        .sketch(sketch(&literal.token().to_string(), range))
        .at(literal.span())
}

/// Returns the span of the bytes `range` of the value, if the compiler has spans for parts of literals.
pub(crate) fn exact(literal: &LitStr, range: Range<usize>) -> Option<Span> {
    in_source(literal, range).and_then(|range| literal.token().subspan(range))
}

/// Returns the span of generated tokens for the bytes `range` of the value: their place, with our hygiene.
pub(crate) fn place(literal: &LitStr, range: Range<usize>) -> Span {
    let exact = exact(literal, range).unwrap_or_else(|| literal.span());
    Span::mixed_site().located_at(exact)
}

/// Converts a byte range of the value to a byte range of the literal's source text.
pub(crate) fn in_source(literal: &LitStr, range: Range<usize>) -> Option<Range<usize>> {
    let source = literal.token().to_string();
    let open = source.find('"')? + 1;
    let mut starts = Vec::new();
    if source.starts_with('r') {
        starts.extend(open..=open + literal.value().len());
    } else {
        decode(&source, open, &mut starts)?;
    }
    // The layout is not the expected one: a span that is too wide is better than a wrong one.
    (starts.len() == literal.value().len() + 1).then_some(())?;
    Some(*starts.get(range.start)?..*starts.get(range.end)?)
}

/// Adds the source position of each byte of the value, and of its end, to `starts`.
fn decode(source: &str, open: usize, starts: &mut Vec<usize>) -> Option<()> {
    let mut at = open;
    loop {
        let rest = source.get(at..)?;
        let mut chars = rest.chars();
        let (value, length) = match chars.next()? {
            '"' => {
                starts.push(at);
                return Some(());
            }
            '\\' => match chars.next()? {
                'u' => {
                    let end = rest.find('}')?;
                    let digits = rest.get(3..end)?.replace('_', "");
                    let char = char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?;
                    (char.len_utf8(), end + 1)
                }
                'x' => (1, 4),
                '\n' | '\r' => {
                    let after = rest[1..].trim_start_matches([' ', '\t', '\n', '\r']);
                    (0, rest.len() - after.len())
                }
                _ => (1, 2),
            },
            // A line break written as `\r\n` is one `\n` in the value.
            '\r' if rest.starts_with("\r\n") => (0, 1),
            char => (char.len_utf8(), char.len_utf8()),
        };
        starts.extend(std::iter::repeat_n(at, value));
        at += length;
    }
}

/// Returns the literal with a line of carets under `range`, or `None` for a literal of several lines.
fn sketch(source: &str, range: Range<usize>) -> Option<String> {
    if source.contains('\n') {
        return None;
    }
    let before = source.get(..range.start)?.chars().count();
    let marked = source.get(range)?.chars().count().max(1);
    Some(format!(
        "{source}\n{}{}",
        " ".repeat(before),
        "^".repeat(marked)
    ))
}

#[cfg(test)]
mod tests;
