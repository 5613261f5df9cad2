//! Formats text for people. Text from a server must not control the terminal.

use std::{borrow::Cow, fmt::Write, time::Duration};

/// Returns `true` for a character that is not seen, but is a letter, a mark or a symbol for Unicode: the standard library
/// takes it for a printable one. The page has the same ones.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{13441}'
            | '\u{13442}'
            | '\u{16fe4}'
            | '\u{1d159}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

/// Escapes all characters of `text` that a terminal does not simply print, as in `\u{1b}`: control characters,
/// marks that change the writing direction, and the like.
///
/// A backslash stays as it is, so that a key can be copied from a table into a command.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    if text.chars().all(is_plain) {
        return text.into();
    }
    // The standard library decides for whole texts, because a combining mark is printable only after a character
    // that it combines with.
    let escaped = text.escape_debug().to_string();
    let mut shown = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(c) = rest.next() {
        if is_unseen(c) {
            shown.extend(c.escape_unicode());
            continue;
        }
        if c != '\\' {
            shown.push(c);
            continue;
        }
        match rest.next() {
            Some(quoted @ ('\\' | '\'' | '"')) => shown.push(quoted),
            Some(other) => shown.extend([c, other]),
            None => shown.push(c),
        }
    }
    shown.into()
}

/// Escapes the same characters in a JSON text. The meaning stays: these characters occur only in strings, where
/// `\u009b` stands for the character.
pub(crate) fn printable_json(text: &str) -> Cow<'_, str> {
    // Line breaks are between values.
    let is_plain = |c: char| c.is_ascii_graphic() || matches!(c, ' ' | '\n');
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) || c.escape_debug().len() == 1 && !is_unseen(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(shown, "\\u{unit:04x}").expect("writing to a string cannot fail");
        }
    }
    shown.into()
}

/// Formats a duration, rounded down to a precision that is worth reading.
pub(crate) fn rough(duration: Duration) -> String {
    let coarse = if duration < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    } else if duration < Duration::from_secs(10) {
        let tenths = u64::try_from(duration.as_millis() / 100).unwrap_or(u64::MAX);
        Duration::from_millis(tenths.saturating_mul(100))
    } else if duration < Duration::from_secs(24 * 3600) {
        Duration::from_secs(duration.as_secs())
    } else {
        Duration::from_secs(duration.as_secs() / 60 * 60)
    };
    humantime::format_duration(coarse).to_string()
}

/// Formats so many milliseconds in the same way.
pub(crate) fn rough_ms(milliseconds: u64) -> String {
    rough(Duration::from_millis(milliseconds))
}

/// Describes what a waiter wants, by the name of its mode, unless it is an exclusive lock.
pub(crate) fn wish(mode: &str, permits: Option<u32>) -> Option<String> {
    match (mode, permits) {
        ("exclusive", _) => None,
        (_, Some(1)) => Some("1 permit".to_owned()),
        (_, Some(most)) => Some(format!("one of {most} permits")),
        _ => Some(mode.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use dlock::LockMode;
    use dlock_admin::view::mode_name;

    use super::*;

    #[test]
    fn a_wish_is_named_unless_it_is_exclusive() {
        for (mode, named) in [
            (LockMode::Exclusive, None),
            (LockMode::Shared, Some("shared")),
            (LockMode::Permits(1), Some("1 permit")),
            (LockMode::Permits(3), Some("one of 3 permits")),
        ] {
            let (name, permits) = mode_name(mode);
            assert_eq!(wish(name, permits).as_deref(), named);
        }
    }

    #[test]
    fn nothing_drives_a_terminal() {
        for (text, shown) in [
            ("order:42", "order:42"),
            (r"a\b 'c' \u{1b}", r"a\b 'c' \u{1b}"),
            ("a\x1b[2Jb\u{9b}c\x07", r"a\u{1b}[2Jb\u{9b}c\u{7}"),
            ("a\nb\tc\rd\0", r"a\nb\tc\rd\0"),
            ("\u{202e}evil\u{2066}", r"\u{202e}evil\u{2066}"),
            (
                "auftrag:\u{e4}\u{4e2d}\u{1f512}",
                "auftrag:\u{e4}\u{4e2d}\u{1f512}",
            ),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    /// Another key would look the same.
    #[test]
    fn no_character_is_unseen() {
        for c in [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{180f}',
            '\u{200b}',
            '\u{2060}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{13441}',
            '\u{13442}',
            '\u{16fe4}',
            '\u{1bca0}',
            '\u{1d159}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0100}',
            '\u{e01ef}',
        ] {
            let escaped = c.escape_unicode().to_string();
            let key = format!("order:1{c}");
            assert_eq!(printable(&key), format!("order:1{escaped}"));
            let json = serde_json::to_string(&key).expect("it is a text");
            let json = printable_json(&json);
            assert!(json.is_ascii(), "{json}");
            assert_eq!(
                serde_json::from_str::<String>(&json).expect("it is JSON"),
                key
            );
        }
    }

    #[test]
    fn json_means_the_same_and_drives_nothing() {
        let text = "a\u{9b}2J\u{202e}\u{7f}\u{e4}\u{e0001}\n\u{1b}\\";
        let json = serde_json::to_string_pretty(&[text]).expect("it is a text");
        let shown = printable_json(&json);
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&shown).expect("it is JSON"),
            [text]
        );
        assert!(
            shown.contains(
                r"a\u009b2J\u202e\u007f\u{e4}\udb40\udc01"
                    .replace(r"\u{e4}", "\u{e4}")
                    .as_str()
            ),
            "{shown}"
        );
        assert!(
            shown.chars().all(|c| c == '\n' || !c.is_control()),
            "{shown:?}"
        );
    }

    #[test]
    fn durations_are_as_exact_as_they_are_long() {
        for (ms, shown) in [
            (0, "0s"),
            (7, "7ms"),
            (999, "999ms"),
            (1_234, "1s 200ms"),
            (9_999, "9s 900ms"),
            (10_900, "10s"),
            (59_999, "59s"),
            (3_601_000, "1h 1s"),
            (86_399_000, "23h 59m 59s"),
            (86_461_000, "1day 1m"),
            (90_061_000, "1day 1h 1m"),
        ] {
            assert_eq!(rough(Duration::from_millis(ms)), shown);
        }
    }
}
