//! Tests that parts of a literal are found in every notation.

use proptest::{prelude::*, sample::Index};

use super::*;
use crate::overlay;

fn located(source: &str, part: &str) -> Option<String> {
    let literal: LitStr = syn::parse_str(source).expect("a literal");
    let start = literal.value().find(part).expect("a part of it");
    let range = in_source(&literal, start..start + part.len())?;
    Some(source[range].to_owned())
}

#[test]
fn parts_are_found_behind_escapes() {
    assert_eq!(located(r#""order:<id>""#, "<id>").as_deref(), Some("<id>"));
    assert_eq!(
        located(r#""\u{e9}\t<id>""#, "<id>").as_deref(),
        Some("<id>")
    );
    assert_eq!(located(r#""\x41é<id>""#, "<id>").as_deref(), Some("<id>"));
    assert_eq!(located("\"a\\\n   <id>\"", "<id>").as_deref(), Some("<id>"));
    assert_eq!(
        located("r##\"a\"#<id>\"##", "<id>").as_deref(),
        Some("<id>")
    );
    assert_eq!(located(r#""\u{e9}""#, "é").as_deref(), Some(r"\u{e9}"));
}

#[test]
fn the_sketch_counts_characters() {
    assert_eq!(
        sketch("\"é<id>\"", 3..7).as_deref(),
        Some("\"é<id>\"\n  ^^^^")
    );
    assert_eq!(sketch("\"a\n\"", 1..2), None);
}

/// One character of a value, and its notation in a literal with escapes.
#[derive(Clone, Debug)]
struct Written {
    value: char,
    source: String,
}

fn written() -> impl Strategy<Value = Written> {
    let value = prop_oneof![
        4 => "[a-z<>.:]",
        2 => "[é日🔒\"'\\\\\n\t\r\0 ]",
        1 => any::<char>().prop_map(String::from),
    ];
    let value = value.prop_map(|text| text.chars().next().expect("one character"));
    (value, 0..4, any::<bool>()).prop_map(|(value, form, continued)| {
        let short = match value {
            '\n' => Some("\\n"),
            '\t' => Some("\\t"),
            '\r' => Some("\\r"),
            '\0' => Some("\\0"),
            '"' => Some("\\\""),
            '\'' => Some("\\'"),
            '\\' => Some("\\\\"),
            _ => None,
        };
        let long = format!("\\u{{{:_>6}}}", format!("{:x}", u32::from(value)));
        // No digit may follow the brace as an underscore.
        let long = long.replacen("{_", "{0", 1);
        let is_plain = short.is_none() || value == '\'' || matches!(value, '\n' | '\t');
        let source = match (form, short) {
            // The beginning of a line after `\` is skipped if it is white space.
            (0, _) if is_plain && !(continued && value.is_whitespace()) => value.to_string(),
            (1, _) if value.is_ascii() => format!("\\x{:02X}", u32::from(value)),
            (2, Some(short)) => short.to_owned(),
            _ => long,
        };
        let skipped = if continued { "\\\n \t " } else { "" };
        let source = format!("{skipped}{source}");
        Written { value, source }
    })
}

fn between(length: usize, ends: (Index, Index)) -> Range<usize> {
    let (a, b) = (ends.0.index(length + 1), ends.1.index(length + 1));
    a.min(b)..a.max(b)
}

proptest! {
    #[test]
    fn the_source_of_a_part_means_that_part(
        all in proptest::collection::vec(written(), 0..12),
        ends in any::<(Index, Index)>(),
    ) {
        let source: String = all.iter().map(|it| &*it.source).collect();
        let value: String = all.iter().map(|it| it.value).collect();
        let literal: LitStr = syn::parse_str(&format!("\"{source}\"")).expect("a literal");
        prop_assert_eq!(literal.value(), &*value);

        let part = between(all.len(), ends);
        let bytes = |chars: &[Written]| chars.iter().map(|it| it.value.len_utf8()).sum::<usize>();
        let start = bytes(&all[..part.start]);
        let range = start..start + bytes(&all[part]);
        let found = in_source(&literal, range.clone()).expect("it is in the source");
        let found = &literal.token().to_string()[found];
        let found: LitStr = syn::parse_str(&format!("\"{found}\"")).expect("a literal");
        prop_assert_eq!(found.value(), &value[range]);
    }

    #[test]
    fn raw_literals_are_their_own_source(
        value in "[a-z<>\"#\\\\é日\n\t]{0,16}",
        more in 0_usize..3,
        ends in any::<(Index, Index)>(),
    ) {
        let needed = value.split('"').skip(1).map(|rest| {
            1 + rest.bytes().take_while(|byte| *byte == b'#').count()
        });
        let hashes = "#".repeat(needed.max().unwrap_or(0) + more);
        let literal: LitStr = syn::parse_str(&format!("r{hashes}\"{value}\"{hashes}")).expect("a literal");
        prop_assert_eq!(literal.value(), &*value);

        let chars: Vec<usize> = value.char_indices().map(|(at, _)| at).chain([value.len()]).collect();
        let part = between(chars.len() - 1, ends);
        let range = chars[part.start]..chars[part.end];
        let found = in_source(&literal, range.clone()).expect("it is in the source");
        prop_assert_eq!(&literal.token().to_string()[found], &value[range]);
    }

    // No template has ranges that split a character or lie outside, but they must not cause a panic.
    #[test]
    fn any_range_can_be_asked_for(
        all in proptest::collection::vec(written(), 0..8),
        range in (0_usize..40, 0_usize..40),
    ) {
        let source: String = all.iter().map(|it| &*it.source).collect();
        let literal: LitStr = syn::parse_str(&format!("\"{source}\"")).expect("a literal");
        let range = range.0.min(range.1)..range.0.max(range.1);
        let error = report(&literal, range.clone(), Fault::new("wrong"));
        prop_assert!(error.to_string().contains("wrong"));
        if let Some(overlay) = overlay::over(&literal, &[range]) {
            prop_assert_eq!(overlay.to_string().len(), literal.token().to_string().len());
        }
    }
}
