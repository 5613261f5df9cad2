//! Formats text for people.

/// Formats a number with its noun: `1 server`, `3 servers`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
