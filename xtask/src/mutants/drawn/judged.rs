//! Mistakes that make no difference, each with its reason, so that none is judged twice.

use serde::Deserialize;

use super::Draft;

const FILE: &str = include_str!("judged.json");

/// A mistake that makes no difference.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Judged {
    file: String,
    function: String,
    right: String,
    wrong: String,
    pub(super) why: String,
}

pub(super) fn all() -> Result<Vec<Judged>, String> {
    serde_json::from_str(FILE).map_err(|error| format!("judged.json: {error}"))
}

impl Judged {
    /// Whether it is this one, which is made of the text of this file.
    pub(super) fn is(&self, file: &str, text: &str, draft: &Draft) -> bool {
        self.file == file
            && self.function == draft.function
            && self.right == super::in_one_line(&text[draft.at.clone()])
            && self.wrong == super::in_one_line(&draft.shown())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cargo;

    #[test]
    fn each_is_still_drawn_and_has_a_reason() {
        for judged in all().unwrap_or_else(|error| panic!("{error}")) {
            let text = fs::read_to_string(cargo::root().join(&judged.file));
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", judged.file));
            let drafts = super::super::drafts_of(&judged.file, &text);
            let drafts = drafts.unwrap_or_else(|error| panic!("{error}"));
            let is_there = drafts.iter().any(|it| judged.is(&judged.file, &text, it));
            assert!(is_there, "nothing makes this any more: {judged:?}");
            assert!(judged.why.split_whitespace().count() > 3, "{judged:?}");
        }
    }
}
