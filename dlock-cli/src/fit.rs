//! Texts that are cut to the width of a column.

use ratatui::text::Span;

use crate::text::printable;

/// The end at which a long text is truncated.
#[derive(Clone, Copy)]
pub(crate) enum Elide {
    /// For function paths, whose end identifies the function.
    Start,
    /// For keys and the names of processes, whose both ends tell them apart.
    Middle,
    End,
}

/// Returns `text` in at most `width` columns, with escaped control characters.
pub(crate) fn fit(text: &str, width: u16, elide: Elide) -> String {
    let text = printable(text);
    let width = usize::from(width);
    if Span::raw(text.as_ref()).width() <= width {
        return text.into_owned();
    }
    if width == 0 {
        return String::new();
    }
    let room = width - 1;
    let at_start = match elide {
        Elide::Start => 0,
        Elide::Middle => room / 2,
        Elide::End => room,
    };
    let start: String = taken(text.chars(), at_start).collect();
    let end: Vec<_> = taken(text.chars().rev(), room - at_start).collect();
    let end = end.into_iter().rev();
    start.chars().chain(['…']).chain(end).collect()
}

/// Returns the first of these characters, as many as fit in `room` columns.
fn taken(text: impl Iterator<Item = char>, room: usize) -> impl Iterator<Item = char> {
    text.scan(room, |left, c| {
        *left = left.checked_sub(columns(c))?;
        Some(c)
    })
}

/// Returns the number of columns of a character.
pub(crate) fn columns(c: char) -> usize {
    Span::raw(c.to_string()).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_width_fit_in_columns() {
        for (text, width, end, start, middle) in [
            ("abcdef", 6, "abcdef", "abcdef", "abcdef"),
            ("abcdef", 5, "abcd…", "…cdef", "ab…ef"),
            ("abcdef", 4, "abc…", "…def", "a…ef"),
            ("abcdef", 1, "…", "…", "…"),
            ("abcdef", 0, "", "", ""),
            // Each of these has two columns.
            ("中文字", 5, "中文…", "…文字", "中…字"),
            ("中文字", 4, "中…", "…字", "…字"),
            ("\u{1b}[2J", 5, "\\u{1…", "…}[2J", "\\u…2J"),
        ] {
            assert_eq!(fit(text, width, Elide::End), end);
            assert_eq!(fit(text, width, Elide::Start), start);
            assert_eq!(fit(text, width, Elide::Middle), middle);
        }
    }
}
