//! Converts names of variants to another case, exactly as serde does.
//!
//! Keys and JSON then use one name for a state. Only ASCII letters change, and a new word begins at every
//! capital: `HttpGet` becomes `http_get`, and `HTTPGet` becomes `h_t_t_p_get`.

/// The case of variant names in a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Upper,
    /// As variants are written in Rust.
    #[default]
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

const CASES: [(Case, &str); 8] = [
    (Case::Lower, "lowercase"),
    (Case::Upper, "UPPERCASE"),
    (Case::Pascal, "PascalCase"),
    (Case::Camel, "camelCase"),
    (Case::Snake, "snake_case"),
    (Case::ScreamingSnake, "SCREAMING_SNAKE_CASE"),
    (Case::Kebab, "kebab-case"),
    (Case::ScreamingKebab, "SCREAMING-KEBAB-CASE"),
];

/// Returns the values of `rename_all`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(_, name)| *name)
}

impl Case {
    pub(super) fn named(name: &str) -> Option<Self> {
        let (case, _) = CASES.iter().find(|(_, known)| *known == name)?;
        Some(*case)
    }

    /// Returns `variant` in this case.
    pub(super) fn apply(self, variant: &str) -> String {
        match self {
            Self::Pascal => variant.to_owned(),
            Self::Lower => variant.to_ascii_lowercase(),
            Self::Upper => variant.to_ascii_uppercase(),
            Self::Camel => {
                let mut name = variant.to_owned();
                if let Some(first) = name.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                name
            }
            Self::Snake => words(variant, '_').to_ascii_lowercase(),
            Self::ScreamingSnake => words(variant, '_').to_ascii_uppercase(),
            // Underscores of the variant itself become hyphens too.
            Self::Kebab => words(variant, '-').to_ascii_lowercase().replace('_', "-"),
            Self::ScreamingKebab => words(variant, '-').to_ascii_uppercase().replace('_', "-"),
        }
    }
}

/// Returns `variant` with `separator` before every capital except a leading one.
fn words(variant: &str, separator: char) -> String {
    let mut words = String::new();
    for (at, letter) in variant.char_indices() {
        if at > 0 && letter.is_uppercase() {
            words.push(separator);
        }
        words.push(letter);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_serde_does() {
        // `tests/in_process/key_parts` compares with serde itself.
        for (variant, expected) in [
            (
                "InTransit",
                "intransit INTRANSIT InTransit inTransit in_transit IN_TRANSIT in-transit IN-TRANSIT",
            ),
            (
                "HTTPGet2",
                "httpget2 HTTPGET2 HTTPGet2 hTTPGet2 h_t_t_p_get2 H_T_T_P_GET2 h-t-t-p-get2 H-T-T-P-GET2",
            ),
            ("A_B", "a_b A_B A_B a_B a__b A__B a--b A--B"),
            (
                "lower_two",
                "lower_two LOWER_TWO lower_two lower_two lower_two LOWER_TWO lower-two LOWER-TWO",
            ),
            ("X", "x X X x x X x X"),
        ] {
            let all = CASES.map(|(case, _)| case.apply(variant)).join(" ");
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn letters_beyond_ascii_stay() {
        let all = CASES.map(|(case, _)| case.apply("ÄrgerÜber")).join(" ");
        assert_eq!(
            all,
            "ÄrgerÜber ÄRGERÜBER ÄrgerÜber ÄrgerÜber Ärger_Über ÄRGER_ÜBER Ärger-Über ÄRGER-ÜBER"
        );
    }

    #[test]
    fn every_case_has_a_name() {
        for (case, name) in CASES {
            assert_eq!(Case::named(name), Some(case));
        }
        assert_eq!(Case::named("Snake_Case"), None);
    }
}
