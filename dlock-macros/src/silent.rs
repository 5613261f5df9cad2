//! Finds names of parameters that stand in a key as text: placeholders in another notation.
//!
//! `"order:id"`, `"order:$id"` and `"order:<<id>>"` are valid keys, but the same key in every call. Calls of
//! such a function wait for each other without a visible reason. Text that looks like a placeholder and names
//! a parameter is therefore refused; `<'id'>` writes it as text.
//!
//! A name without marks counts as a placeholder only if it stands alone between delimiters, the key has no
//! placeholders, and the name is not the first segment. The first segment usually says what is locked:
//! `"cache:refresh"` is a valid key of a function with a parameter `cache`.

use std::ops::Range;

use syn::LitStr;

use crate::idents::composed;
use crate::literal;
use crate::message::Fault;
use crate::params::Param;
use crate::target::{self, Target};
use crate::template::{Piece, Template, is_delimiter, read_slot};

/// Marks before the name of a parameter in other notations.
const SIGILS: [char; 8] = ['$', '#', '%', '@', ':', '&', '*', '?'];

/// Brackets around the name of a parameter in other notations.
const BRACKETS: [(&str, &str); 4] = [("<<", ">>"), ("[", "]"), ("(", ")"), ("%", "%")];

/// Returns one mistake for each name in `template` that is most likely meant as a placeholder. `used` are the
/// parameters that the function's keys name.
pub(crate) fn faults(
    template: &Template,
    literal: &LitStr,
    used: &[String],
    target: &Target,
) -> Vec<syn::Error> {
    let text = literal.value();
    let is_fixed = !template.pieces.iter().any(is_slot);
    let looks_meant = |name: &Range<usize>| {
        let param = param(&text[name.clone()], target)?;
        let path = path(&text, name);
        let marked = marked(&text, &path);
        let is_meant = marked.is_some()
            || (is_fixed
                && !used.contains(&param.name())
                && could_identify(param, &path, name)
                && is_alone(&text, &path));
        is_meant.then(|| (name.clone(), path.clone(), marked.unwrap_or(path)))
    };
    let found = template.names.iter().filter_map(looks_meant);
    found
        .map(|(name, path, range)| {
            let (name_text, path_text) = (&text[name.clone()], &text[path]);
            let quoted = format!(
                "{}<'{name_text}'>{}",
                &text[range.start..name.start],
                &text[name.end..range.end]
            );
            let fault = Fault::new(format!(
                "`{}` in the lock key is text, not the value of the parameter `{name_text}`",
                &text[range.clone()]
            ))
            .help(format!(
                "to use the value, write `<{path_text}>`; to keep the text, write `{quoted}`"
            ));
            literal::report(literal, range, fault)
        })
        .collect()
}

/// Returns the parameters that `template` names in its text, whatever the text means.
pub(crate) fn named(template: &Template, text: &str) -> Vec<String> {
    let names = template.names.iter();
    names
        .map(|name| composed(text[name.clone()].to_owned()))
        .collect()
}

fn is_slot(piece: &Piece) -> bool {
    matches!(piece, Piece::Slot(_))
}

fn param<'a>(name: &str, target: &'a Target) -> Option<&'a Param> {
    let name = composed(name.to_owned());
    let mut params = target.params.iter();
    params.find(|param| param.name() == name && !target::is_hidden_argument(&name))
}

/// Returns the name with the rest of a path, as in a placeholder: `order.id`.
fn path(text: &str, name: &Range<usize>) -> Range<usize> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '(' | ')');
    let rest = &text[name.end..];
    let longest = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let ends = (0..=longest)
        .rev()
        .filter(|end| rest.is_char_boundary(*end));
    let mut ends = ends.map(|end| name.start..name.end + end);
    let path = ends.find(|range| read_slot(&text[range.clone()]).is_some());
    path.unwrap_or_else(|| name.clone())
}

/// Returns the range of `path` with the marks of another notation around it.
fn marked(text: &str, path: &Range<usize>) -> Option<Range<usize>> {
    let (before, after) = (&text[..path.start], &text[path.end..]);
    for (open, close) in BRACKETS {
        if before.ends_with(open) && after.starts_with(close) {
            return Some(path.start - open.len()..path.end + close.len());
        }
    }
    let sigil = before.chars().next_back().filter(|c| SIGILS.contains(c))?;
    let start = path.start - sigil.len_utf8();
    // `order:id` has two segments, and `/:id` is a parameter. `user@host` and `<user>@host` are neither.
    let begins = match text[..start].chars().next_back() {
        None => sigil != ':',
        Some(before) if sigil == ':' => before == '/',
        Some(before) => is_delimiter(before) && before != '>',
    };
    let ends = after.chars().next().is_none_or(is_delimiter);
    (sigil == '$' || (begins && ends)).then_some(start..path.end)
}

/// Returns `true` if `path` is the only text between two delimiters, and not the first of several segments.
fn is_alone(text: &str, path: &Range<usize>) -> bool {
    let (before, after) = (&text[..path.start], &text[path.end..]);
    let has_words = |text: &str| text.contains(|c| !is_delimiter(c));
    let is_first = !has_words(before) && has_words(after);
    let begins = before.chars().next_back().is_none_or(is_delimiter);
    let ends = after.chars().next().is_none_or(is_delimiter);
    !is_first && begins && ends
}

/// Returns `true` if the value may identify something and is not a tool of the function.
fn could_identify(param: &Param, path: &Range<usize>, name: &Range<usize>) -> bool {
    path != name || param.could_identify
}

#[cfg(test)]
mod tests;
