//! The text of an error with those of its causes.

use std::{error, iter::successors};

/// Returns the text of an error, and those of its causes that are not in it yet.
///
/// The text of an error of a client often says only where it happened.
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Other, "no route");
/// assert_eq!(dlock_net::causes(&error), "no route");
/// ```
#[must_use]
pub fn causes(error: &dyn error::Error) -> String {
    let inner = successors(error.source(), |cause| cause.source());
    inner.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Caused {
        text: &'static str,
        source: Option<Box<Caused>>,
    }

    #[test]
    fn each_cause_of_an_error_is_named_once() {
        let caused = |text, source: Option<Caused>| Caused {
            text,
            source: source.map(Box::new),
        };
        let deepest = caused("no route", None);
        let middle = caused("tcp connect error", Some(deepest));
        let repeated = caused("tcp connect error", Some(middle));
        let error = caused("transport error", Some(repeated));
        assert_eq!(
            causes(&error),
            "transport error: tcp connect error: no route"
        );
    }
}
