//! Colors, columns and short texts for all parts of the screen.

use std::time::Duration;

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Span,
};

use crate::{commands::top::model::Model, text::printable};

pub(super) const ACCENT: Color = Color::Cyan;
pub(super) const ALARM: Color = Color::LightRed;
pub(super) const WARM: Color = Color::Yellow;

pub(super) fn split<const N: usize>(area: Rect, parts: [Constraint; N]) -> [Rect; N] {
    Layout::vertical(parts).areas(area)
}

/// Returns `style`, or gray during an outage, when the data may be outdated.
pub(super) fn faded(style: Style, model: &Model) -> Style {
    if model.outage.is_some() {
        Style::new()
            .fg(Color::DarkGray)
            .remove_modifier(Modifier::BOLD)
    } else {
        style
    }
}

/// The end at which a long text is truncated.
#[derive(Clone, Copy)]
pub(super) enum Elide {
    /// For function paths, whose end identifies the function.
    Start,
    /// For keys and the names of processes, whose both ends tell them apart.
    Middle,
    End,
}

/// Returns `text` in at most `width` columns, with escaped control characters.
pub(super) fn fit(text: &str, width: u16, elide: Elide) -> String {
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

fn columns(c: char) -> usize {
    Span::raw(c.to_string()).width()
}

/// Returns `text` in lines of at most `width` columns, with escaped control characters.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width.max(1));
    let (mut lines, mut left) = (vec![String::new()], width);
    for c in printable(text).chars() {
        let columns = columns(c);
        if columns > left {
            lines.push(String::new());
            left = width;
        }
        left = left.saturating_sub(columns);
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
    }
    lines
}

/// Formats a duration in at most seven columns.
pub(super) fn brief(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        10..100 => format!("{seconds} s"),
        100..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
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

    #[test]
    fn a_long_text_is_wrapped_and_not_cut() {
        for (text, width, lines) in [
            ("", 3, &[""][..]),
            ("abc", 3, &["abc"]),
            ("abcdefg", 3, &["abc", "def", "g"]),
            ("中文字", 5, &["中文", "字"]),
            ("\u{1b}a", 4, &["\\u{1", "b}a"]),
        ] {
            assert_eq!(wrapped(text, width), lines);
        }
    }

    #[test]
    fn durations_are_brief() {
        for (ms, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (9_999, "9.9 s"),
            (99_999, "99 s"),
            (100_000, "1m 40s"),
            (3_599_999, "59m 59s"),
            (3_600_000, "1h 00m"),
            (90_000_000, "1d 01h"),
        ] {
            let brief = brief(Duration::from_millis(ms));
            assert_eq!(brief, shown);
            assert!(brief.len() <= 7);
        }
    }
}
