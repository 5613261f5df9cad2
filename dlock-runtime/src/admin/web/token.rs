//! The token with which the page releases locks, and a limit on guesses.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The least number of characters.
const LEAST: usize = 16;

/// The least number of bits that the frequencies of the characters allow.
const BITS: f64 = 40.0;

/// The number of wrong tokens within [`WINDOW`] after which no token is accepted for as long.
const WRONG: usize = 5;

const WINDOW: Duration = Duration::from_secs(60);

/// Returns the reason why a token is too easy to guess, if it is. The command `dlock` uses it.
#[doc(hidden)]
#[must_use]
pub fn fault_of_token(token: &str) -> Option<String> {
    if token.len() < LEAST {
        return Some(format!("it must have at least {LEAST} characters"));
    }
    let bits = bits(token);
    (bits < BITS).then(|| {
        format!(
            "it is easy to guess, as its characters repeat: it has at most {bits:.0} bits of the {BITS:.0} that are necessary"
        )
    })
}

/// Returns the entropy by the frequencies of the bytes. A text of words has less.
fn bits(token: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in token.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all: f64 = counts.iter().copied().map(f64::from).sum();
    let counts = counts.iter().copied().filter(|count| *count > 0);
    counts
        .map(f64::from)
        .map(|count| count * (all / count).log2())
        .sum()
}

/// The token of a page.
pub(super) struct Token {
    text: String,
    guesses: Mutex<Guesses>,
}

#[derive(Debug, Default)]
struct Guesses {
    /// The times of the latest wrong tokens.
    wrong: Vec<Instant>,
    /// The end of the time in which no token is accepted.
    closed_until: Option<Instant>,
}

/// The result of a token that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Right,
    Wrong,
    /// The last one of so many wrong ones that none is accepted for a while.
    Closes,
    /// None is accepted for this time.
    Closed(Duration),
}

impl Token {
    /// # Panics
    ///
    /// If it is too easy to guess.
    pub(super) fn new(text: String) -> Self {
        if let Some(fault) = fault_of_token(&text) {
            panic!("invalid token: {fault}");
        }
        Self {
            text,
            guesses: Mutex::default(),
        }
    }

    /// Compares a token, unless too many were wrong.
    pub(super) fn compare(&self, given: &str) -> Given {
        let now = Instant::now();
        // Held to the end: of guesses at the same time, each counts before the next. Every change is complete.
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = guesses.closed_until.filter(|until| *until > now) {
            return Given::Closed(until - now);
        }
        if is_same(&self.text, given) {
            return Given::Right;
        }
        guesses.wrong.retain(|at| *at + WINDOW > now);
        guesses.wrong.push(now);
        if guesses.wrong.len() < WRONG {
            return Given::Wrong;
        }
        guesses.wrong.clear();
        guesses.closed_until = Some(now + WINDOW);
        Given::Closes
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text is a secret.
        f.debug_struct("Token")
            .field("guesses", &self.guesses)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if two texts are the same, after a time that says nothing about how much of them is.
fn is_same(right: &str, given: &str) -> bool {
    let (right, given) = (right.as_bytes(), given.as_bytes());
    let mut different = right.len() ^ given.len();
    for (place, byte) in given.iter().enumerate() {
        let other = right.get(place).copied().unwrap_or_default();
        different |= usize::from(std::hint::black_box(byte ^ other));
    }
    std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const RIGHT: &str = "a token of this test";

    #[test]
    fn a_token_is_right_as_a_whole() {
        assert!(is_same("s3cret", "s3cret"));
        for given in ["", "s", "s3cre", "s3cret0", "S3cret", "s3cret\0", "s3creu"] {
            assert!(!is_same("s3cret", given), "{given}");
        }
        assert!(!is_same("", "a") && !is_same("a\0", "a"));
    }

    #[test]
    fn a_token_that_is_easy_to_guess_has_a_fault() {
        for token in ["", "short", "fifteen-letters"] {
            let fault = fault_of_token(token).expect("it is too short");
            assert!(fault.contains("at least 16"), "{fault}");
        }
        for token in [
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "abababababababababababababababab",
            "0000000000000001",
            "hellohellohello1",
        ] {
            let fault = fault_of_token(token).expect("it repeats");
            assert!(fault.contains("easy to guess"), "{token}: {fault}");
        }
        for token in [
            "sixteen-letters!",
            "8d1f0c6b9a3e7245",
            "9f86d081884c7d659a2feaa0c55ad015",
            RIGHT,
        ] {
            assert_eq!(fault_of_token(token), None, "{token}");
        }
    }

    #[test]
    fn the_bits_of_a_text_follow_from_its_characters() {
        let whole = |token| format!("{:.3}", bits(token));
        assert_eq!(whole("aaaa"), "0.000");
        assert_eq!(whole("abab"), "4.000");
        assert_eq!(whole("0123456789abcdef"), "64.000");
    }

    #[tokio::test(start_paused = true)]
    async fn after_five_wrong_tokens_within_a_minute_none_is_accepted_for_a_minute() {
        let token = Token::new(RIGHT.to_owned());
        for _ in 0..3 {
            for _ in 1..WRONG {
                assert_eq!(token.compare("wrong"), Given::Wrong);
            }
            assert_eq!(token.compare(RIGHT), Given::Right);
            assert_eq!(token.compare("wrong"), Given::Closes);
            assert_eq!(token.compare(RIGHT), Given::Closed(WINDOW));
            advance(WINDOW / 3).await;
            assert_eq!(token.compare("wrong"), Given::Closed(WINDOW * 2 / 3));
            assert_eq!(token.compare(RIGHT), Given::Closed(WINDOW * 2 / 3));
            advance(WINDOW * 2 / 3).await;
            assert_eq!(token.compare(RIGHT), Given::Right);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_forgotten_after_a_minute() {
        let token = Token::new(RIGHT.to_owned());
        for _ in 0..20 {
            assert_eq!(token.compare("wrong"), Given::Wrong);
            advance(WINDOW / 4).await;
        }
        assert_eq!(token.compare(RIGHT), Given::Right);
    }

    #[test]
    fn a_token_is_not_printed() {
        let text = format!("{:?}", Token::new(RIGHT.to_owned()));
        assert!(!text.contains(RIGHT), "{text}");
    }
}
