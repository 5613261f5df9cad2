//! Mistakes that make no difference, each with its reason, so that none is judged twice.

use std::ops::Range;

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
    /// The text around it, where the same mistake elsewhere in the function makes a difference.
    #[serde(default)]
    around: Option<String>,
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
            && self
                .around
                .as_ref()
                .is_none_or(|it| lies_in(it, text, &draft.at))
    }
}

/// Whether a place of a text lies in a part of it that reads so.
fn lies_in(part: &str, text: &str, at: &Range<usize>) -> bool {
    let mut places = text.match_indices(part);
    places.any(|(start, it)| start <= at.start && at.end <= start + it.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    #[test]
    fn each_is_still_drawn_and_has_a_reason() {
        for judged in all().unwrap_or_else(|error| panic!("{error}")) {
            let text = fs::read_to_string(workspace::root().join(&judged.file));
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", judged.file));
            let drafts = super::super::drafts_of(&judged.file, &text);
            let drafts = drafts.unwrap_or_else(|error| panic!("{error}"));
            let is_there = drafts.iter().any(|it| judged.is(&judged.file, &text, it));
            assert!(is_there, "nothing makes this any more: {judged:?}");
            assert!(judged.why.split_whitespace().count() > 3, "{judged:?}");
        }
    }

    #[test]
    fn the_text_around_a_mistake_tells_it_from_the_same_one_elsewhere() {
        let text = "a >= b AND c >= 0 AND d >= 0";
        assert!(lies_in("c >= 0", text, &(12..16)));
        assert!(!lies_in("c >= 0", text, &(1..5)));
        assert!(!lies_in("c >= 0", text, &(23..27)));
        assert!(lies_in(">= 0", text, &(24..26)));
    }
}
