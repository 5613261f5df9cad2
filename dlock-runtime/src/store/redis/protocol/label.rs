//! The stored name of a holder: `label#function`.

use std::borrow::Cow;

use redis::Cmd;

use crate::store::redis::protocol::names;

/// The label of a holder without a name, because a field of a value cannot be empty.
pub(crate) const NO_LABEL: &str = "-";

/// Separates a label from the name of a function.
const BEFORE_FUNCTION: &str = "#";

/// Adds the label of the holder, in one argument.
pub(crate) fn push(command: &mut Cmd, label: &str, function: &str) {
    let label = if label.is_empty() { NO_LABEL } else { label };
    let (label, function) = (plain(label), plain(function));
    if function.is_empty() {
        names::push(command, &[&label]);
    } else {
        names::push(command, &[&label, BEFORE_FUNCTION, &function]);
    }
}

/// Returns a part of the holder's name without spaces. With a space in it, the owner would not find its own lock
/// again.
fn plain(part: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !BEFORE_FUNCTION.contains(c);
    if part.chars().all(is_plain) {
        Cow::Borrowed(part)
    } else {
        Cow::Owned(part.replace(|c| !is_plain(c), "_"))
    }
}

/// Returns the labels of a holder and its function in a form that fits into one line of a log: a client that may
/// write the key may have written any bytes. The labels of dlock are shorter and printable.
pub(crate) fn read_label(word: &[u8]) -> (Option<String>, Option<String>) {
    const LONGEST: usize = 128;
    let read = |text: &[u8]| {
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
        let text = text.replace(char::is_control, "_");
        (!text.is_empty() && text != NO_LABEL).then_some(text)
    };
    let mut parts = word.splitn(2, |byte| BEFORE_FUNCTION.as_bytes().contains(byte));
    let label = parts.next().and_then(read);
    (label, parts.next().and_then(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_as_one_word_and_read_back() {
        for (label, function, word) in [
            ("a@b/1", "shop::settle", "a@b/1#shop::settle"),
            ("a@b/1", "", "a@b/1"),
            ("", "shop::settle", "-#shop::settle"),
            ("", "", "-"),
            ("a b#c", "d e#f\u{e9}", "a_b_c#d_e_f_"),
        ] {
            let mut command = redis::cmd("SET");
            push(&mut command, label, function);
            let written: Vec<_> = command.args_iter().skip(1).collect();
            assert_eq!(written, [redis::Arg::Simple(word.as_bytes())]);
            let (label, function) = word.split_once('#').unwrap_or((word, ""));
            let shown = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty() && it != "-");
            assert_eq!(read_label(word.as_bytes()), (shown(label), shown(function)));
        }
        // Only the first mark separates.
        let read = read_label(b"a#b#c");
        assert_eq!(read, (Some("a".to_owned()), Some("b#c".to_owned())));
        let long = format!("a#{}", "f".repeat(1000));
        let function = read_label(long.as_bytes()).1;
        assert_eq!(function.map(|it| it.len()), Some(128));
    }

    #[test]
    fn a_label_of_a_stranger_fits_into_a_line_of_a_log() {
        let shown = |label: &[u8]| read_label(label).0.expect("it is one");
        assert_eq!(shown(b"a\x1b[2J\x85@b\xff"), "a_[2J\u{fffd}@b\u{fffd}");
        assert_eq!(shown("a\u{85}b".as_bytes()), "a_b");
        assert!(shown("x".repeat(1_000_000).as_bytes()).len() <= 128);
        let ours = crate::label::label(Some(&"x".repeat(200)));
        assert_eq!(shown(ours.as_bytes()), ours);
    }
}
