//! The rules: terms to avoid, which `terms.txt` lists, and the form of sentences.

use regex_lite::Regex;

use super::text::Sentence;

const TERMS: &str = include_str!("terms.txt");

/// Words that no sentence begins with, unless it is a question.
const FIRST: [&str; 5] = ["Who", "Whoever", "Whom", "What", "Whatever"];

/// The number of words in a sentence of a document.
const LONGEST: usize = 35;

/// A literal with this is Lua, not English.
const LUA: &str = "redis.pcall(";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file of Markdown.
    Document,
    /// Comments that rustdoc shows.
    Documentation,
    /// Errors and output of a program.
    Literal,
}

pub(super) struct Rules {
    terms: Vec<(Regex, &'static str)>,
}

impl Rules {
    pub(super) fn new() -> Self {
        let lines = TERMS.lines().filter(|line| !line.starts_with('#'));
        let terms = lines.map(|line| {
            let (pattern, say) = line.split_once("  =>  ").expect("a test reads all");
            let pattern = format!("(?i){pattern}");
            (Regex::new(&pattern).expect("a test compiles all"), say)
        });
        Self {
            terms: terms.collect(),
        }
    }

    /// Adds what is wrong with a sentence to `findings`.
    pub(super) fn check(
        &self,
        file: &str,
        sentence: &Sentence,
        kind: Kind,
        findings: &mut Vec<String>,
    ) {
        let found = self.faults(sentence, kind).into_iter();
        let place = format!("{file}:{}", sentence.line);
        findings.extend(found.map(|fault| format!("{place}: {fault}: {}", sentence.text)));
    }

    fn faults(&self, sentence: &Sentence, kind: Kind) -> Vec<String> {
        let text = &sentence.text;
        if kind == Kind::Literal && text.contains(LUA) {
            return Vec::new();
        }
        let terms = self.terms.iter().filter_map(|(pattern, say)| {
            let found = pattern.find(text)?.as_str();
            Some(format!("`{found}`, say: {say}"))
        });
        let mut faults: Vec<_> = terms.collect();
        let first = text.split(|it: char| !it.is_alphabetic()).next();
        if sentence.is_prose
            && kind != Kind::Literal
            && first.is_some_and(|it| FIRST.contains(&it))
            && !text.ends_with('?')
        {
            faults.push("begins with a question word".to_owned());
        }
        let words = text.split_whitespace();
        let words = words.filter(|it| it.contains(|it: char| it.is_alphanumeric() || it == '…'));
        let count = words.count();
        if kind == Kind::Document && sentence.is_prose && count > LONGEST {
            faults.push(format!("{count} words"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::text;

    fn faults(text: &str, kind: Kind) -> Vec<String> {
        let rules = Rules::new();
        let found = text::sentences(text, 1);
        found.iter().flat_map(|it| rules.faults(it, kind)).collect()
    }

    #[test]
    fn each_kind_of_fault_is_found() {
        let long = "word ".repeat(LONGEST + 1);
        for (text, kind, fault) in [
            (
                "After a fail-over.",
                Kind::Literal,
                "`fail-over`, say: failover",
            ),
            (
                "Nobody waits.",
                Kind::Document,
                "`Nobody`, say: another process, no process",
            ),
            (
                "It takes the lock away.",
                Kind::Documentation,
                "`takes the lock away`, say: revoke, force-release",
            ),
            (
                "What waits is woken.",
                Kind::Documentation,
                "begins with a question word",
            ),
            (&*long, Kind::Document, "36 words"),
        ] {
            assert_eq!(faults(text, kind), [fault], "{text}");
        }
    }

    #[test]
    fn what_is_right_has_no_fault() {
        let long = "word ".repeat(LONGEST);
        for (text, kind) in [
            ("The waiter is woken.", Kind::Document),
            ("The type `Nobody` waits.", Kind::Document),
            ("What waits?", Kind::Document),
            ("# What it costs", Kind::Document),
            ("What waits is woken.", Kind::Literal),
            ("local told = redis.pcall('get', 1)", Kind::Literal),
            (&*long, Kind::Document),
            (&*long.repeat(2), Kind::Documentation),
        ] {
            assert_eq!(faults(text, kind), [""; 0], "{text}");
        }
    }
}
