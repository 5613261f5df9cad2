//! Generates the key's literal a second time, in a form whose names compilers and editors can see.
//!
//! Stable compilers give no span to a part of a literal. But `format_args!` finds the place of each `{name}`
//! in its format string, and editors resolve those names. It reads the places from the source text, and it
//! does not compare a *raw* literal with that text. A raw literal of the same length, with `{name}` over the
//! user's `<name>` and `_` over everything else, therefore makes rustc underline the name itself:
//!
//! ```text
//! key = "order:<id>/<shop.name>"
//!       r"_____{id}_{shop}______"
//! ```
//!
//! This behavior is not documented, and a span that ends inside a character crashes rustc. The overlay is
//! therefore used only if the literal occurs in the source unchanged, the lengths agree to the byte, and the
//! names are written out. Otherwise a drawing shows the place, see [`literal`](crate::literal). The
//! environment variable [`OFF`] uses the drawing for everything.

use std::ops::Range;

use proc_macro2::Literal;
use syn::{Ident, LitStr};

use crate::literal;

/// If this variable is set at compile time, the span is always the whole literal.
const OFF: &str = "DLOCK_WHOLE_SPANS";

/// Returns a format string that captures those of `names` that can be shown. `names` are byte ranges of the
/// literal's value.
pub(crate) fn over(literal: &LitStr, names: &[Range<usize>]) -> Option<Literal> {
    if std::env::var_os(OFF).is_some() || !stands_in_source(literal) {
        return None;
    }
    let (source, value) = (literal.token().to_string(), literal.value());
    let places: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let place = literal::in_source(literal, name.clone())?;
            let is_written_out = source.get(place.clone()) == value.get(name.clone());
            (is_written_out && can_show(&source, &place)).then_some(place)
        })
        .collect();
    let mut format: Literal = overlay(&source, &places)?.parse().ok()?;
    format.set_span(literal.span());
    Some(format)
}

/// Without source text, the caller is an editor or the file is missing: rustc then compares nothing either.
fn stands_in_source(literal: &LitStr) -> bool {
    let text = literal.span().source_text();
    text.is_none_or(|text| text == literal.token().to_string())
}

/// Returns `true` if the text at `place` is in brackets or followed by more of a path, and can be captured.
fn can_show(source: &str, place: &Range<usize>) -> bool {
    let before = source[..place.start].ends_with('<');
    let after = source[place.end..].starts_with(['>', '.']);
    let name = &source[place.clone()];
    // syn does not accept keywords as identifiers, except those that are part of paths, and format strings
    // refuse `{r#name}`. A letter and an accent that follow each other are one character to compilers and two
    // in a format string.
    let is_raw = name.starts_with("r#");
    let is_name = !is_raw && syn::parse_str::<Ident>(name).is_ok_and(|ident| ident == name);
    before && after && is_name && place.start > prefix(source)
}

/// Returns the bytes before the text of an overlay. A raw literal has no shorter beginning.
fn prefix(source: &str) -> usize {
    2 + hashes(source)
}

fn hashes(source: &str) -> usize {
    source.strip_prefix('r').map_or(0, |rest| {
        rest.bytes().take_while(|byte| *byte == b'#').count()
    })
}

/// Returns the raw literal over `source` that captures the names at `places`.
fn overlay(source: &str, places: &[Range<usize>]) -> Option<String> {
    if places.is_empty() {
        return None;
    }
    let prefix = prefix(source);
    let hashes = "#".repeat(hashes(source));
    let length = source.len().checked_sub(prefix + 1 + hashes.len())?;
    let mut text = vec![b'_'; length];
    for place in places {
        let (start, end) = (place.start.checked_sub(prefix)?, place.end - prefix);
        text.get_mut(start..end)?
            .copy_from_slice(&source.as_bytes()[place.clone()]);
        *text.get_mut(start.checked_sub(1)?)? = b'{';
        *text.get_mut(end)? = b'}';
    }
    let text = String::from_utf8(text).ok()?;
    let overlay = format!("r{hashes}\"{text}\"{hashes}");
    (overlay.len() == source.len()).then_some(overlay)
}

#[cfg(test)]
mod tests;
