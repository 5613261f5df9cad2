//! Enums, whose variants are named as serde names them.

use dlock::KeyPart;
use serde::Serialize;

use crate::key_parts::rendered;

#[derive(KeyPart, Clone, Copy)]
#[key_part(rename_all = "snake_case")]
#[repr(u8)]
enum State {
    New = 1,
    InTransit = 7,
    #[key_part(rename = "sent back/0")]
    Returned = 9,
    Tuple(),
    Braces {},
}

#[derive(KeyPart)]
#[expect(non_camel_case_types)]
enum Raw {
    r#type,
    r#Match,
}

#[derive(KeyPart)]
enum One {
    Only,
}

#[derive(KeyPart)]
struct Step {
    order: u64,
    to: State,
}

#[test]
fn variants_are_named() {
    let states = [
        (State::New, "new"),
        (State::InTransit, "in_transit"),
        (State::Returned, "sent%20back%2F0"),
        (State::Tuple(), "tuple"),
        (State::Braces {}, "braces"),
    ];
    for (state, expected) in states {
        assert_eq!(rendered(&state), expected);
    }
    assert_eq!(rendered(&Raw::r#type), "type");
    assert_eq!(rendered(&Raw::r#Match), "Match");
    assert_eq!(rendered(&One::Only), "Only");
    let step = Step {
        order: 7,
        to: State::New,
    };
    assert_eq!(rendered(&step), "7%3anew");
}

macro_rules! as_serde_does {
    ($($test:ident $case:literal)*) => { $(
        #[test]
        fn $test() {
            #[derive(KeyPart, Serialize, Debug)]
            #[key_part(rename_all = $case)]
            #[serde(rename_all = $case)]
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Odd {
                A,
                Plain,
                TwoWords,
                HTTPGet,
                B2B,
                V10,
                X86_64,
                Snake_Case,
                lower,
                _Leading,
                Trailing_,
                Do__uble,
                ALLCAPS,
                SCREAMING_SNAKE,
                camelCase,
                r#Box,
                r#fn,
                GrößeÜber,
                Éclair2,
            }
            use Odd::*;
            let all = [
                A, Plain, TwoWords, HTTPGet, B2B, V10, X86_64, Snake_Case, lower,
                _Leading, Trailing_, Do__uble, ALLCAPS, SCREAMING_SNAKE, camelCase, r#Box,
                r#fn, GrößeÜber, Éclair2,
            ];
            for variant in all {
                let by_serde = serde_json::to_value(&variant).expect("a text");
                let by_serde = by_serde.as_str().expect("a text");
                assert_eq!(rendered(&variant), by_serde, "{variant:?}");
            }
        }
    )* };
}

as_serde_does! {
    lowercase "lowercase"
    uppercase "UPPERCASE"
    pascal_case "PascalCase"
    snake_case "snake_case"
    screaming_snake_case "SCREAMING_SNAKE_CASE"
    kebab_case "kebab-case"
    screaming_kebab_case "SCREAMING-KEBAB-CASE"
}

#[test]
fn camel_case() {
    // Without names that begin beyond ASCII: serde's derive panics at them.
    #[derive(KeyPart, Serialize)]
    #[key_part(rename_all = "camelCase")]
    #[serde(rename_all = "camelCase")]
    #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
    enum Odd {
        A,
        TwoWords,
        HTTPGet,
        Snake_Case,
        lower,
        _Leading,
        r#Box,
        GrößeÜber,
    }
    use Odd::*;
    let all = [
        A,
        TwoWords,
        HTTPGet,
        Snake_Case,
        lower,
        _Leading,
        r#Box,
        GrößeÜber,
    ];
    for variant in all {
        let by_serde = serde_json::to_value(&variant).expect("a text");
        assert_eq!(Some(&*rendered(&variant)), by_serde.as_str());
    }
}
