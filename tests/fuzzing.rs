//! Properties of every template and duration, for tests and for the targets in `fuzz/`, which compile this file as well.
//!
//! Each function accepts any bytes and panics if a rule is violated.

use std::time::Duration;

use dlock_runtime::{InvalidKeyReason, LockError, LockKey};

use crate::duration::{self, Role};
use crate::template::{self, Piece};

/// Values for the placeholders, one after the other.
const VALUES: [&str; 7] = ["7", "a:b", "%3A", "{}<>", "\u{0}\r\n", "e\u{301}/é", "-_.~"];

/// Checks that an accepted template makes an accepted key, from which the values can be read back.
///
/// # Panics
/// If that is not so.
pub fn template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let template = template::parse(&text);
    for (range, fault) in &template.faults {
        let marked = text.get(range.clone());
        assert!(marked.is_some(), "{fault} is at no place: {range:?}");
        assert!(!fault.to_string().is_empty());
    }
    for piece in &template.pieces {
        if let Piece::Slot(slot) = piece {
            let name = text.get(slot.name.clone()).expect("it has a place");
            assert_eq!(name.trim_start_matches("r#"), slot.root);
            let whole = text.get(slot.range.clone()).expect("it has a place");
            assert!(
                whole.starts_with(name),
                "{name} is the beginning of {whole}"
            );
        }
    }
    if !template.faults.is_empty() {
        return;
    }
    for first in 0..VALUES.len() {
        let mut values = VALUES.iter().cycle().skip(first);
        let mut put = Vec::new();
        let mut key = LockKey::builder();
        for piece in &template.pieces {
            key = match piece {
                Piece::Text(text) => key.text(text),
                Piece::Slot(_) => {
                    let value = values.next().expect("they never end");
                    put.push(*value);
                    key.part(value)
                }
            };
        }
        let key = match key.build() {
            Ok(key) => key,
            Err(LockError::InvalidKey { reason, .. }) => {
                assert_eq!(
                    reason,
                    InvalidKeyReason::TooLong,
                    "the macro has let it through"
                );
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(values_of(key.as_str(), &template.pieces), put, "{key}");
        let again = LockKey::new(key.as_str()).expect("a rendered key is a valid text");
        assert_eq!(again, key);
    }
}

/// Returns the values in a key, read with its template only.
fn values_of(key: &str, pieces: &[Piece]) -> Vec<String> {
    let mut rest = key;
    let mut values = Vec::new();
    let mut pieces = pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Text(text) => {
                rest = rest
                    .strip_prefix(&**text)
                    .expect("the text is as it stands");
            }
            Piece::Slot(_) => {
                let end = match pieces.peek() {
                    None => rest.len(),
                    // The only place where the text can begin: a value contains none of its delimiters.
                    Some(Piece::Text(text)) => match text.find(is_never_in_a_value) {
                        Some(before) => {
                            let found = rest.find(is_never_in_a_value);
                            found.expect("the text follows") - before
                        }
                        None => rest.len() - text.len(),
                    },
                    Some(Piece::Slot(_)) => panic!("two values touch"),
                };
                values.push(decoded(&rest[..end]));
                rest = &rest[end..];
            }
        }
    }
    assert_eq!(rest, "");
    values
}

fn is_never_in_a_value(c: char) -> bool {
    c.is_ascii_punctuation() && !"-_.~%".contains(c) || c == ' '
}

fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(plain.bytes());
    }
    String::from_utf8(bytes).expect("it was a text")
}

/// Checks that an accepted duration is exactly the one written and within the limits of its role.
///
/// # Panics
/// If that is not so.
pub fn duration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let day = Duration::from_secs(86_400);
    for role in [Role::Ttl, Role::Wait, Role::MaxHold, Role::MinHold] {
        match duration::parse(role, &text) {
            Ok(duration) => {
                assert_eq!(nanoseconds(&text), Some(duration.as_nanos()), "{text:?}");
                assert!(!duration.is_zero());
                assert_eq!(duration.as_nanos() % 1_000_000, 0);
                assert!(u64::try_from(duration.as_millis()).is_ok());
                assert!(role != Role::Ttl || duration >= Duration::from_millis(100));
                assert!(!matches!(role, Role::Ttl | Role::MinHold) || duration <= day);
            }
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
        // As it would be written without quotes.
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let (digits, suffix) = text.split_at(digits);
            let fault = match suffix {
                "" => duration::bare_number(role, digits),
                suffix => duration::without_quotes(role, digits, suffix),
            };
            assert!(!fault.to_string().is_empty());
        }
    }
}

/// Parses a sum of numbers with units strictly. Returns `None` for other text, or if the result is not a
/// whole number of nanoseconds.
fn nanoseconds(text: &str) -> Option<u128> {
    let mut sum = 0_u128;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number);
        let after = after.trim_start();
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
        let scaled = digits.checked_mul(unit_in_nanoseconds(unit)?)?;
        if scaled % scale != 0 {
            return None;
        }
        sum = sum.checked_add(scaled / scale)?;
        rest = after.trim_start();
    }
    Some(sum)
}

fn unit_in_nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "nanos" | "nsec" | "ns" => 1,
        "usec" | "us" | "µs" => 1_000,
        "millis" | "msec" | "ms" => 1_000_000,
        "seconds" | "second" | "secs" | "sec" | "s" => 1_000_000_000,
        "minutes" | "minute" | "min" | "mins" | "m" => 60_000_000_000,
        "hours" | "hour" | "hrs" | "hr" | "h" => 3_600_000_000_000,
        "days" | "day" | "d" => 86_400_000_000_000,
        "weeks" | "week" | "wk" | "wks" | "w" => 604_800_000_000_000,
        _ => return None,
    })
}
