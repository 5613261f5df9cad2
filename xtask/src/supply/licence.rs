//! Expressions of licences, such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

use std::collections::BTreeSet;

/// `true` if these licences meet the expression; `false` if it cannot be read.
pub(super) fn is_met(text: &str, allowed: &BTreeSet<String>) -> bool {
    let words = words(text);
    let mut reader = Reader {
        words: &words,
        allowed,
    };
    reader.either() == Some(true) && reader.words.is_empty()
}

/// All licences that occur in it.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut words = words(text);
    words.retain(|word| !["(", ")", "OR", "AND"].contains(&&**word));
    words
}

/// Licences, operators and parentheses. With its exception, a licence is another one.
fn words(text: &str) -> Vec<String> {
    // Some write it in the way of long ago.
    let text = text
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let text = text.replace(" WITH ", "\0");
    text.split_whitespace()
        .map(|word| word.replace('\0', " WITH "))
        .collect()
}

struct Reader<'a> {
    words: &'a [String],
    allowed: &'a BTreeSet<String>,
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    fn either(&mut self) -> Option<bool> {
        let mut met = self.both()?;
        while self.take("OR") {
            met |= self.both()?;
        }
        Some(met)
    }

    fn both(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.either()?;
            return self.take(")").then_some(met);
        }
        let (name, rest) = self.words.split_first()?;
        if ["OR", "AND", ")"].contains(&&**name) {
            return None;
        }
        self.words = rest;
        Some(self.allowed.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let allowed = ["MIT", "Apache-2.0", "ISC"].map(str::to_owned).into();
        for (text, met) in [
            ("MIT", true),
            ("MIT/GPL-3.0", true),
            ("GPL-3.0 / Apache-2.0", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND Zlib", false),
            ("Zlib AND (GPL-3.0 OR MIT) OR ISC", true),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("mit", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT MIT", false),
            ("MIT) OR (MIT", false),
        ] {
            assert_eq!(is_met(text, &allowed), met, "{text}");
        }
        assert_eq!(
            names("(MIT OR Apache-2.0 WITH LLVM-exception) AND ISC"),
            ["MIT", "Apache-2.0 WITH LLVM-exception", "ISC"]
        );
    }
}
