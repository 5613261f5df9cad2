//! The result of a check: a line of the table, and its difference from the expected result.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use super::Expected;

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// See [`Check::protocol`](super::Check::protocol).
    pub protocol: String,
    /// See [`Check::claim`](super::Check::claim).
    pub claim: String,
    /// See [`Check::expected`](super::Check::expected).
    pub expected: Expected,
    /// The actions that lead to a state where the property fails, or where it happens.
    pub path: Option<Vec<String>>,
    /// The states that were come upon, counted each time.
    pub generated: usize,
    /// The states that differ.
    pub unique: usize,
    /// The longest path that was needed, in actions.
    pub depth: usize,
    /// Whether no state was left out.
    pub is_exhaustive: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    /// The difference from the expected result.
    ///
    /// A search has no luck, so each difference is one of the model or of its rules. Its words are those by which the
    /// runner of the tests knows that a second run forgives nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let fault = match (self.expected, &self.path) {
            (Expected::Holds { .. }, Some(path)) => format!("fails: {}", path.join(", ")),
            (Expected::Holds { .. }, None) if !self.is_exhaustive => {
                "was not searched whole".into()
            }
            (Expected::Holds { at_least }, None) if self.unique < at_least => {
                format!("has {} states, not {at_least}", self.unique)
            }
            (Expected::Fails { .. } | Expected::Happens { .. }, None) => "was not found".into(),
            (Expected::Fails { after } | Expected::Happens { after }, Some(path))
                if path.len() != after =>
            {
                format!("was found after {}: {}", path.len(), path.join(", "))
            }
            _ => return None,
        };
        Some(format!(
            "broken promise: {}: {}: {fault}",
            self.protocol, self.claim
        ))
    }

    /// The words above the columns.
    #[must_use]
    pub fn head() -> String {
        row(
            "found",
            "generated",
            "states",
            "depth",
            "ms",
            "protocol: claim",
        )
    }
}

fn row(found: &str, generated: &str, unique: &str, depth: &str, ms: &str, what: &str) -> String {
    format!("{found:<12} {generated:>10} {unique:>9} {depth:>5} {ms:>7}  {what}")
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = match (&self.path, self.expected) {
            (None, _) => "holds".to_owned(),
            (Some(path), Expected::Happens { .. }) => format!("seen in {}", path.len()),
            (Some(path), _) => format!("fails in {}", path.len()),
        };
        f.write_str(&row(
            &found,
            &self.generated.to_string(),
            &self.unique.to_string(),
            &self.depth.to_string(),
            &self.elapsed.as_millis().to_string(),
            &format!("{}: {}", self.protocol, self.claim),
        ))
    }
}
