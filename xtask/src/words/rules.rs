//! The rules, and where they do not apply.

use std::cell::Cell;

use regex_lite::Regex;

use super::text::Sentence;

/// Terms to avoid, as patterns, each with the term to use.
const TERMS: [(&str, &str); 22] = [
    (r"fail-over", "failover"),
    (r"\b(some|no)body\b", "another process, no process"),
    (r"\bhand(s|ed|ing)? on\b", "grant, hand over"),
    (r"\bhand-offs?\b", "hand-over, grant"),
    (r"\blook(s|ed|ing)? again\b", "poll"),
    (
        r"\btak(e|es|en|ing) ([a-z]+ ){0,3}away\b",
        "revoke, force-release",
    ),
    (r"\b(stand|stands|standing|stood) still\b", "paused"),
    (
        r"\b(goes|went|gone|is|are|be) away\b",
        "unreachable, crashed",
    ),
    (r"\bof another make\b", "third-party"),
    (r"\bforeign clients?\b", "third-party client"),
    (r"\bmend(s|ed|ing)?\b", "fix"),
    (r"\btold\b", "is notified, is woken, knows"),
    (r"\bdid not tell\b", "outcome unknown"),
    (r"\bwhat holds\b", "guarantees"),
    (r"\bowner tokens?\b", "owner id"),
    (
        r"\bg(ive|ives|iven|ave|iving) (it |them |a lock |the lock |the lease |its lease )?back\b",
        "release",
    ),
    (r"\bcome what may\b", "in any case"),
    (r"\b(he|she|him|his)\b", "it, the task, the process"),
    (r"\brights\b", "permissions"),
    (r"\bno news\b", "no answer"),
    (r"\bmakes? up for\b|\bmade up for\b", "compensates"),
    (r"\block-?ups?\b", "deadlock"),
];

/// Words that no sentence begins with, unless it is a question.
const FIRST: [&str; 5] = ["Who", "Whoever", "Whom", "What", "Whatever"];

/// The number of words in a sentence of a document.
const LONGEST: usize = 35;

/// Sentences that may stay, by their file and some of their words.
const EXCEPTIONS: [(&str, &str); 1] = [(
    // Lua, not English.
    "dlock-runtime/src/store/redis/protocol/command.rs",
    "local told = redis.pcall(",
)];

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
    exceptions: Vec<(&'static str, &'static str, Cell<bool>)>,
}

impl Rules {
    pub(super) fn new() -> Self {
        let terms = TERMS.map(|(pattern, say)| {
            let pattern = format!("(?i){pattern}");
            (Regex::new(&pattern).expect("a test compiles all"), say)
        });
        let exceptions = EXCEPTIONS.map(|(file, words)| (file, words, Cell::new(false)));
        Self {
            terms: terms.into(),
            exceptions: exceptions.into(),
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
        let faults = self.faults(sentence, kind);
        let is_excepted = || {
            let applies = |(path, words, _): &&(&str, &str, Cell<bool>)| {
                *path == file && sentence.text.contains(words)
            };
            let found = self.exceptions.iter().find(applies);
            found.inspect(|it| it.2.set(true)).is_some()
        };
        if !faults.is_empty() && !is_excepted() {
            let place = format!("{file}:{}", sentence.line);
            let found = faults.into_iter();
            findings.extend(found.map(|fault| format!("{place}: {fault}: {}", sentence.text)));
        }
    }

    fn faults(&self, sentence: &Sentence, kind: Kind) -> Vec<String> {
        let text = &sentence.text;
        let mut faults = Vec::new();
        for (pattern, say) in &self.terms {
            if let Some(found) = pattern.find(text) {
                faults.push(format!("`{}`, say: {say}", found.as_str()));
            }
        }
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

    /// Exceptions that nothing needs any more.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = self.exceptions.iter().filter(|(_, _, used)| !used.get());
        unused
            .map(|(file, words, _)| format!("{file}: no sentence needs the exception `{words}`"))
            .collect()
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
            (&*long, Kind::Document),
            (&*long.repeat(2), Kind::Documentation),
        ] {
            assert_eq!(faults(text, kind), [""; 0], "{text}");
        }
    }
}
