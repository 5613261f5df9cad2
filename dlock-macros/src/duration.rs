//! Parses `"1m30s"` as a duration, and refuses durations that a lock option cannot have.
//!
//! This module works on text and not on tokens. `humantime` reads the syntax. This module adds the checks: a
//! month has no fixed length, a number needs a unit, and a TTL has a minimum.

use std::time::Duration;

use humantime::DurationError;

use crate::fault::Fault;

pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

const UNITS: &str = "units are `ms`, `s`, `m`, `h` and `d`";

/// More digits than any reasonable duration has, and few enough that arithmetic cannot overflow.
const LONGEST_NUMBER: usize = 12;
const LONGEST_TEXT: usize = 64;

/// A smaller number without a unit is not meant in milliseconds.
const LEAST_MILLIS: u64 = 100;

/// The option for which the duration is written: the limits differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ttl,
    Wait,
    MaxHold,
    MinHold,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Ttl => "ttl",
            Role::Wait => "wait",
            Role::MaxHold => "max_hold",
            Role::MinHold => "min_hold",
        }
    }

    pub(crate) fn example(self) -> &'static str {
        match self {
            Role::Ttl => "30s",
            Role::Wait => "5s",
            Role::MaxHold => "5m",
            Role::MinHold => "10s",
        }
    }
}

/// Reads `text` as the value of `role`. The result is a whole number of milliseconds.
pub(crate) fn parse(role: Role, text: &str) -> Result<Duration, Fault> {
    let (name, example) = (role.name(), role.example());
    let shown = text.escape_debug();

    if text.trim().is_empty() {
        return Err(Fault::new(format!("`{name}` is empty")).help(format!(
            "write a duration, for example `{name} = \"{example}\"`"
        )));
    }
    if text.trim() != text {
        return Err(Fault::new(format!(
            "`{name} = \"{shown}\"` has spaces at its start or end"
        ))
        .help(format!(
            "write `{name} = \"{}\"`",
            text.trim().escape_debug()
        )));
    }
    if text.parse::<f64>().is_ok() && text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(bare_number(role, text));
    }
    if text.starts_with('-') {
        return Err(
            Fault::new(format!("`{name} = \"{shown}\"` is negative")).help(format!(
                "write a duration, for example `{name} = \"{example}\"`"
            )),
        );
    }
    if text.len() > LONGEST_TEXT || longest_number(text) > LONGEST_NUMBER {
        return Err(too_long(role));
    }
    if broken_number(text) {
        return Err(Fault::new(format!(
            "`{name} = \"{shown}\"` has a space inside a number"
        ))
        .help(format!(
            "write a duration, for example `{name} = \"{example}\"`; {UNITS}"
        )));
    }
    if let Some(unit) = calendar_unit(text) {
        return Err(
            Fault::new(format!("the unit `{unit}` has no fixed length")).help(format!(
                "use a unit of fixed length; {UNITS}, and `m` is minutes"
            )),
        );
    }

    let duration = humantime::parse_duration(text).map_err(|error| match error {
        DurationError::NumberOverflow if text.contains('.') || text.contains("ns") => {
            too_precise(role, text)
        }
        DurationError::NumberOverflow => too_long(role),
        DurationError::UnknownUnit { unit, .. } if unit.is_empty() => bare_number(role, text),
        DurationError::UnknownUnit { unit, .. } => Fault::new(format!(
            "unknown unit `{}` in `{name} = \"{shown}\"`",
            unit.escape_debug()
        ))
        .help(format!("write `{name} = \"{example}\"`; {UNITS}")),
        _ => Fault::new(format!("`{name} = \"{shown}\"` is not a duration"))
            .help(format!("write `{name} = \"{example}\"`; {UNITS}")),
    })?;
    within_limits(role, text, duration)
}

/// Returns the fault for a number without a unit, as a literal or in a string. The help has all that the number can
/// mean: `30000` is half a minute or a third of a day, and both compile.
pub(crate) fn bare_number(role: Role, digits: &str) -> Fault {
    let name = role.name();
    let fault = Fault::new(format!("missing time unit in `{name}`"));
    if role == Role::Wait && digits.parse() == Ok(0.0) {
        return fault.help("to fail at once if the lock is busy, write `wait = never`");
    }
    let (millis, seconds) = readings(digits);
    let offer = |texts: Vec<String>| {
        let allowed = texts.iter().filter(|text| parse(role, text).is_ok());
        let offers: Vec<_> = allowed
            .map(|text| format!("`{name} = \"{text}\"`"))
            .collect();
        (!offers.is_empty()).then(|| offers.join(" or "))
    };
    fault.help(match (offer(millis), offer(vec![seconds])) {
        (Some(millis), Some(seconds)) => {
            format!("for milliseconds, write {millis}; for seconds, write {seconds}; {UNITS}")
        }
        (Some(offers), None) | (None, Some(offers)) => format!("write {offers}; {UNITS}"),
        (None, None) => format!("write `{name} = \"{}\"`; {UNITS}", role.example()),
    })
}

/// Returns what a number without a unit can mean: in milliseconds, and in seconds.
fn readings(digits: &str) -> (Vec<String>, String) {
    // The same number with a fraction, as in `30000.0`.
    let whole = digits.trim_end_matches('0').strip_suffix('.');
    let Ok(number) = whole.unwrap_or(digits).parse::<u64>() else {
        return (Vec::new(), format!("{digits}s"));
    };
    let millis = format!("{number}ms");
    match number {
        0..LEAST_MILLIS => (Vec::new(), format!("{number}s")),
        LEAST_MILLIS..1000 => (vec![millis], format!("{number}s")),
        _ if number.is_multiple_of(1000) => {
            (vec![in_units(number / 1000), millis], in_units(number))
        }
        _ => (vec![millis], in_units(number)),
    }
}

/// Returns seconds as a duration whose length can be seen: `8h20m`, and not `30000s`.
fn in_units(seconds: u64) -> String {
    let mut left = seconds;
    let mut text = String::new();
    for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if left >= length {
            text.extend([&(left / length).to_string(), unit]);
            left %= length;
        }
    }
    text
}

/// Returns the fault for a number with a suffix, `30s` or `30u64`.
pub(crate) fn without_quotes(role: Role, digits: &str, suffix: &str) -> Fault {
    const TYPES: &[&str] = &[
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64",
    ];
    if TYPES.contains(&suffix) {
        return bare_number(role, digits);
    }
    let text = format!("{digits}{suffix}");
    match parse(role, &text) {
        Ok(_) => Fault::new(format!("missing quotes around `{text}`"))
            .help(format!("write `{} = \"{text}\"`", role.name())),
        Err(fault) => fault,
    }
}

fn within_limits(role: Role, text: &str, duration: Duration) -> Result<Duration, Fault> {
    let (name, shown) = (role.name(), text.escape_debug());
    if duration.is_zero() {
        let fault = Fault::new(format!("`{name}` must be greater than zero"));
        return Err(match role {
            Role::Ttl => fault.help("use at least `100ms`"),
            Role::Wait => fault.help("to fail at once if the lock is busy, write `wait = never`"),
            Role::MaxHold => fault.help("to hold the lock while the body runs, remove `max_hold`"),
            Role::MinHold => fault.help("to release the lock after the body, remove `min_hold`"),
        });
    }
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(too_precise(role, text));
    }
    if u64::try_from(duration.as_millis()).is_err() {
        return Err(too_long(role));
    }
    if role == Role::Ttl && duration < SHORTEST_TTL {
        return Err(Fault::new(format!(
            "`ttl = \"{shown}\"` leaves too little time for renewal"
        ))
        .help("use at least `100ms`"));
    }
    if role == Role::Ttl && duration > LONGEST_TTL {
        return Err(
            Fault::new(format!("`ttl = \"{shown}\"` is longer than a day"))
                .help("use at most `24h`; the lease is renewed while the body runs, and after a crash it blocks others for its `ttl`"),
        );
    }
    if role == Role::MinHold && duration > LONGEST_TTL {
        return Err(
            Fault::new(format!("`min_hold = \"{shown}\"` is longer than a day"))
                .help("use at most `24h`; the lock is held that long even if the body ends"),
        );
    }
    Ok(duration)
}

fn too_precise(role: Role, text: &str) -> Fault {
    Fault::new(format!(
        "`{} = \"{}\"` is more precise than a millisecond",
        role.name(),
        text.escape_debug()
    ))
    .help("use whole milliseconds, for example `250ms`")
}

fn too_long(role: Role) -> Fault {
    let fault = Fault::new(format!("`{}` is too long", role.name()));
    match role {
        Role::Ttl => fault.help("use at most `24h`"),
        Role::Wait => fault.help("to wait without a limit, write `wait = forever`"),
        Role::MaxHold => fault.help("to hold the lock while the body runs, remove `max_hold`"),
        Role::MinHold => {
            fault.help("use at most `24h`; the lock is held that long even if the body ends")
        }
    }
}

fn longest_number(text: &str) -> usize {
    text.split(|c: char| !c.is_ascii_digit() && !c.is_whitespace())
        .map(|run| run.chars().filter(char::is_ascii_digit).count())
        .max()
        .unwrap_or(0)
}

/// Returns `true` for `1 0s`, which `humantime` reads as ten seconds, and for `0. 5s`.
fn broken_number(text: &str) -> bool {
    let in_number = |c: char| c.is_ascii_digit() || c == '.';
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .windows(2)
        .any(|pair| pair[0].ends_with(in_number) && pair[1].starts_with(in_number))
}

fn calendar_unit(text: &str) -> Option<&str> {
    text.split(|c: char| !c.is_alphabetic()).find(|word| {
        matches!(
            *word,
            "M" | "month" | "months" | "mon" | "y" | "Y" | "yr" | "yrs" | "year" | "years"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(role: Role, text: &str) -> String {
        parse(role, text).expect_err(text).to_string()
    }

    #[test]
    fn every_meaning_of_a_bare_number_is_offered() {
        for (role, digits, offers) in [
            (Role::Ttl, "30", "write `ttl = \"30s\"`; units"),
            (
                Role::Ttl,
                "500",
                "for milliseconds, write `ttl = \"500ms\"`; for seconds, write `ttl = \"500s\"`; units",
            ),
            (
                Role::Ttl,
                "30000",
                "for milliseconds, write `ttl = \"30s\"` or `ttl = \"30000ms\"`; for seconds, write `ttl = \"8h20m\"`; units",
            ),
            (
                Role::Ttl,
                "30000.0",
                "for milliseconds, write `ttl = \"30s\"` or `ttl = \"30000ms\"`; for seconds, write `ttl = \"8h20m\"`; units",
            ),
            (
                Role::Ttl,
                "300000",
                "write `ttl = \"5m\"` or `ttl = \"300000ms\"`; units",
            ),
            (Role::Ttl, "999999999", "write `ttl = \"30s\"`; units"),
            (Role::Wait, "5", "write `wait = \"5s\"`; units"),
            (Role::Wait, "1.5", "write `wait = \"1.5s\"`; units"),
            (
                Role::Wait,
                "1500",
                "for milliseconds, write `wait = \"1500ms\"`; for seconds, write `wait = \"25m\"`; units",
            ),
            (
                Role::MaxHold,
                "90061",
                "for milliseconds, write `max_hold = \"90061ms\"`; for seconds, write `max_hold = \"1d1h1m1s\"`; units",
            ),
            (Role::MinHold, "1m30", "write `min_hold = \"1m30s\"`; units"),
            (Role::MinHold, "0", "write `min_hold = \"10s\"`; units"),
        ] {
            let fault = bare_number(role, digits).to_string();
            let (_, help) = fault.split_once("\nhelp: ").expect("a help");
            assert!(help.starts_with(offers), "{digits}: {help}");
        }
    }

    #[test]
    fn seconds_are_written_in_the_longest_units() {
        for (seconds, text) in [
            (1, "1s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m1s"),
            (3_599, "59m59s"),
            (3_600, "1h"),
            (86_399, "23h59m59s"),
            (86_400, "1d"),
            (180_122, "2d2h2m2s"),
        ] {
            assert_eq!(in_units(seconds), text);
        }
    }

    #[test]
    fn spaces_divide_no_number() {
        for (text, digits, is_broken) in [
            ("12 34s5", 4, true),
            ("1m 30s", 2, false),
            ("0 .5s", 1, true),
            ("0. 5s", 1, true),
            ("30 s", 2, false),
            ("s 30", 2, false),
            ("", 0, false),
        ] {
            assert_eq!(longest_number(text), digits, "{text}");
            assert_eq!(broken_number(text), is_broken, "{text}");
        }
    }

    #[test]
    fn readable_durations() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("24h", 86_400_000),
            ("1d", 86_400_000),
            ("100ms", 100),
            ("30 s", 30_000),
        ] {
            assert_eq!(
                parse(Role::Ttl, text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        assert_eq!(parse(Role::Wait, "1ms"), Ok(Duration::from_millis(1)));
        assert!(parse(Role::MaxHold, "2w").is_ok());
    }

    #[test]
    fn each_refusal_says_why() {
        for (text, why) in [
            ("", "`ttl` is empty"),
            ("  ", "`ttl` is empty"),
            (" 30s", "spaces at its start or end"),
            ("30s\n", "spaces at its start or end"),
            (
                "30",
                "missing time unit in `ttl`\nhelp: write `ttl = \"30s\"`",
            ),
            ("1.5", "help: write `ttl = \"1.5s\"`"),
            ("1m30", "help: write `ttl = \"1m30s\"`"),
            ("90000", "help: write `ttl = \"1m30s\"` or"),
            ("0", "help: write `ttl = \"30s\"`"),
            ("-1s", "negative"),
            ("0s", "must be greater than zero"),
            ("0ms", "must be greater than zero"),
            ("1M", "`M` has no fixed length"),
            ("2 years", "`years` has no fixed length"),
            ("1500us", "more precise than a millisecond"),
            ("0.5ms", "more precise than a millisecond"),
            ("0.5ns", "more precise than a millisecond"),
            ("50ms", "too little time for renewal"),
            ("25h", "longer than a day"),
            ("99999999999999999999s", "too long"),
            ("18446744073709551615s 1000ms", "too long"),
            ("999999999999h", "longer than a day"),
            ("999999999999w", "too long"),
            ("10 parsecs", "unknown unit `parsecs`"),
            ("1 0s", "space inside a number"),
            ("0. 5s", "space inside a number"),
            ("0 .5s", "space inside a number"),
            ("soon", "is not a duration"),
            ("30s!", "is not a duration"),
        ] {
            let message = refused(Role::Ttl, text);
            assert!(message.contains(why), "{text:?}: {message}");
        }
        assert!(refused(Role::Wait, "0s").contains("`wait = never`"));
        assert!(refused(Role::Wait, "0").contains("`wait = never`"));
        assert!(refused(Role::MaxHold, "0s").contains("max_hold"));
    }

    #[test]
    fn limits_are_allowed_and_what_is_beyond_them_is_not() {
        let day = Duration::from_secs(86_400);
        assert_eq!(parse(Role::MinHold, "24h"), Ok(day));
        assert_eq!(parse(Role::MinHold, "1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse(Role::Wait, "25h"), Ok(Duration::from_secs(90_000)));
        assert!(refused(Role::MinHold, "24h1ms").contains("longer than a day"));
        assert!(refused(Role::Ttl, "24h1ms").contains("longer than a day"));
        assert!(refused(Role::Ttl, "99ms").contains("too little time"));
        let digits = |count: usize| format!("{}1s", "0".repeat(count - 1));
        assert_eq!(parse(Role::Wait, &digits(12)), Ok(Duration::from_secs(1)));
        assert!(refused(Role::Wait, &digits(13)).contains("too long"));
        for (role, help) in [
            (Role::Ttl, "use at least `100ms`"),
            (Role::Wait, "write `wait = never`"),
            (Role::MaxHold, "remove `max_hold`"),
            (Role::MinHold, "remove `min_hold`"),
        ] {
            assert!(refused(role, "0s").contains(help), "{help}");
        }
        for (role, help) in [
            (Role::Ttl, "use at most `24h`"),
            (Role::Wait, "write `wait = forever`"),
            (Role::MaxHold, "remove `max_hold`"),
            (Role::MinHold, "use at most `24h`"),
        ] {
            assert!(refused(role, "9999999999999s").contains(help), "{help}");
        }
    }

    #[test]
    fn numbers_without_quotes() {
        let refusal = |digits, suffix| without_quotes(Role::Ttl, digits, suffix).to_string();
        assert!(refusal("30", "s").ends_with("help: write `ttl = \"30s\"`"));
        assert!(refusal("30", "u64").contains("help: write `ttl = \"30s\"`"));
        assert!(refusal("1.5", "f32").contains("help: write `ttl = \"1.5s\"`"));
        assert!(refusal("30", "x").contains("unknown unit `x`"));
    }

    const ROLES: [Role; 4] = [Role::Ttl, Role::Wait, Role::MaxHold, Role::MinHold];

    /// Any text, texts similar to durations, and durations.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "([0-9]{1,22}(\\.[0-9]{1,12})? ?(ns|us|µs|ms|s|m|min|h|hr|d|w|M|y|é)? ?){1,4}",
            "[0-9]{1,3}(ms|s|m|h|d|w)( [0-9]{1,3}(ms|s|m))?",
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_within_the_limits(text in texts()) {
            for role in ROLES {
                if let Ok(duration) = parse(role, &text) {
                    prop_assert!(!duration.is_zero());
                    prop_assert_eq!(duration.subsec_nanos() % 1_000_000, 0);
                    prop_assert!(u64::try_from(duration.as_millis()).is_ok());
                    prop_assert!(role != Role::Ttl || duration >= SHORTEST_TTL);
                    let is_bounded = matches!(role, Role::Ttl | Role::MinHold);
                    prop_assert!(!is_bounded || duration <= LONGEST_TTL);
                }
            }
        }

        #[test]
        fn what_is_printed_is_read(millis in 100_u64..=86_400_000) {
            let duration = Duration::from_millis(millis);
            let text = humantime::format_duration(duration).to_string();
            for role in ROLES {
                prop_assert_eq!(parse(role, &text), Ok(duration));
            }
        }

        // A longer duration would be printed with months.
        #[test]
        fn long_waits_are_read(millis in 1_u64..=30 * 86_400_000) {
            let duration = Duration::from_millis(millis);
            let text = humantime::format_duration(duration).to_string();
            prop_assert_eq!(parse(Role::Wait, &text), Ok(duration));
        }
    }
}
