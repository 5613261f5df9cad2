//! Colors, columns and short texts for all parts of the screen.

use std::time::Duration;

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
};

use crate::{commands::top::model::Model, fit::columns, text::printable};

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

/// Formats so many milliseconds in at most seven columns.
pub(super) fn brief_ms(milliseconds: u64) -> String {
    brief(Duration::from_millis(milliseconds))
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
