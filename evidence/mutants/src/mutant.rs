//! One mistake: where it is made, what is wrong with it, and what has to notice.

use std::iter;
use std::ops::Range;

use super::look::Look;

/// A mistake in a package, as the list has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutant {
    /// The name by which it is switched on.
    pub(super) name: &'static str,
    /// The mistake, as a sentence.
    pub(super) mistake: &'static str,
    /// The rule that it breaks, in the words of `ARCHITECTURE.md` or of a head of a store, if there is one.
    pub(super) rule: Option<&'static str>,
    pub(super) file: &'static str,
    /// A text that occurs in the file exactly once, with any space for a space. What lies between `«` and `»` is replaced, or all
    /// of it if there are no such marks. In Rust that is an expression, statements, or nothing, where
    /// something is added.
    pub(super) place: &'static str,
    pub(super) wrong: &'static str,
    /// A second place in the same file, if one is not enough.
    pub(super) second: Option<(&'static str, &'static str)>,
    /// Items for both places, at the end of the file.
    pub(super) items: &'static str,
    /// The looks that have to notice, in the order in which they are tried.
    pub(super) looks: &'static [Look],
    /// The reason why no test can tell it from the right code, if none can.
    pub(super) equivalent: Option<&'static str>,
}

impl Mutant {
    pub(super) const fn new(
        name: &'static str,
        mistake: &'static str,
        file: &'static str,
        place: &'static str,
        wrong: &'static str,
        looks: &'static [Look],
    ) -> Self {
        Self {
            name,
            mistake,
            rule: None,
            file,
            place,
            wrong,
            second: None,
            items: "",
            looks,
            equivalent: None,
        }
    }

    /// The same with the rule that it breaks.
    pub(super) const fn breaks(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    /// The same with a second place in the file, and items that are put at its end.
    pub(super) const fn and(
        mut self,
        place: &'static str,
        wrong: &'static str,
        items: &'static str,
    ) -> Self {
        self.second = Some((place, wrong));
        self.items = items;
        self
    }

    /// The same, where it makes no difference, for this reason.
    pub(super) const fn makes_no_difference(mut self, why: &'static str) -> Self {
        self.equivalent = Some(why);
        self
    }

    /// Its places in `text`; an error if one of them is not there exactly once.
    pub(super) fn find_in(&self, text: &str) -> Result<Vec<Place>, String> {
        let first = (self.place, self.wrong);
        let places = iter::once(first).chain(self.second);
        let find = |(place, wrong)| {
            let mut starts = (0..text.len()).filter(|at| text.is_char_boundary(*at));
            let mut found = starts
                .by_ref()
                .filter_map(|at| matched(&text[at..], place, at));
            match (found.next(), found.next()) {
                (Some((whole, marked)), None) => Ok(Place {
                    whole,
                    marked,
                    wrong,
                }),
                (found, _) => {
                    let times = found.map_or("not", |_| "more than once");
                    let (name, file) = (self.name, self.file);
                    Err(format!("`{name}`: its place is {times} in {file}: {place}"))
                }
            }
        };
        places.map(find).collect()
    }
}

/// A place in a text where something is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The place.
    pub(super) whole: Range<usize>,
    /// The part of it that is replaced.
    pub(super) marked: Range<usize>,
    pub(super) wrong: &'static str,
}

/// The range of `place` at the begin of `text`, and that of its marked part, if the text is at `at`.
fn matched(text: &str, place: &str, at: usize) -> Option<(Range<usize>, Range<usize>)> {
    let mut rest = text;
    let (mut begin, mut end) = (None, None);
    let mut after_space = false;
    for wanted in place.chars() {
        let here = at + text.len() - rest.len();
        match wanted {
            '«' => begin = Some(here),
            '»' => end = Some(here),
            _ if wanted.is_whitespace() => {
                let behind = rest.trim_start();
                if behind.len() == rest.len() && !after_space {
                    return None;
                }
                rest = behind;
            }
            _ => rest = rest.strip_prefix(wanted)?,
        }
        after_space = wanted.is_whitespace();
    }
    let whole = at..at + text.len() - rest.len();
    let marked = begin.unwrap_or(whole.start)..end.unwrap_or(whole.end);
    Some((whole, marked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_once_and_its_marked_part_is_told() {
        let mutant = |place| Mutant::new("n", "It is wrong", "p/f.rs", place, "d", &[]);
        let found = |text, place| {
            let places = mutant(place)
                .find_in(text)
                .unwrap_or_else(|error| panic!("{error}"));
            let [Place { whole, marked, .. }] = &places[..] else {
                panic!("{places:?}");
            };
            (whole.clone(), marked.clone())
        };
        assert_eq!(found("a b c", "b «c»"), (2..5, 4..5));
        assert_eq!(found("a b c", "b c"), (2..5, 2..5));
        assert_eq!(found("a b c", "b«»"), (2..3, 3..3));
        assert_eq!(found("a b\n    c", "a «b c»"), (0..9, 2..9));
        let both = mutant("b").and("a", "e", "").find_in("a b c");
        assert_eq!(both.expect("both are there").len(), 2);
        let error = mutant("b c").find_in("bc").expect_err("there is no space");
        assert!(error.contains("is not in"), "{error}");
        let error = mutant("b").find_in("b b").expect_err("it is there twice");
        assert!(error.contains("more than once"), "{error}");
        let error = mutant("x").find_in("b b").expect_err("it is not there");
        assert!(error.contains("is not in p/f.rs"), "{error}");
    }
}
