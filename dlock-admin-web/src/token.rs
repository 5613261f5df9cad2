//! The token with which the page releases locks, and the addresses that guess it.
//!
//! The right token is always accepted: otherwise, guesses of one client would keep an operator from releasing a lock. So it has
//! to be one that no number of guesses finds.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The least number of characters.
const LEAST: usize = 16;

/// The least number of bits that the frequencies of the characters allow.
const BITS: f64 = 40.0;

/// The number of wrong tokens of an address within [`WINDOW`] after which it has guessed for as long.
const WRONG: usize = 5;

const WINDOW: Duration = Duration::from_secs(60);

/// The number of addresses that are remembered. Those beyond it count as one.
const ADDRESSES: usize = 1000;

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
    /// The guesses of each address; `None` is for those that are not known.
    guesses: Mutex<HashMap<Option<IpAddr>, Guesses>>,
}

#[derive(Debug, Default)]
struct Guesses {
    /// The times of the latest wrong tokens.
    wrong: Vec<Instant>,
    /// The end of the time for which there were too many.
    until: Option<Instant>,
}

/// The result of a token that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Right,
    Wrong,
    /// The last one of too many wrong ones from an address.
    OneTooMany,
    /// A wrong one after too many. For so long, those of its address count as guesses.
    Guess(Duration),
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

    /// Compares a token that came from this address.
    pub(super) fn compare(&self, given: &str, address: Option<IpAddr>) -> Given {
        if is_same(&self.text, given) {
            return Given::Right;
        }
        let now = Instant::now();
        // Every change is complete.
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        guesses.retain(|_, it| it.is_recent(now));
        let is_known = guesses.len() < ADDRESSES || guesses.contains_key(&address);
        let guesses = guesses.entry(address.filter(|_| is_known)).or_default();
        if let Some(until) = guesses.until {
            return Given::Guess(until - now);
        }
        guesses.wrong.push(now);
        if guesses.wrong.len() < WRONG {
            return Given::Wrong;
        }
        guesses.until = Some(now + WINDOW);
        Given::OneTooMany
    }
}

impl Guesses {
    /// Forgets what is too long ago. Returns `false` if nothing is left.
    fn is_recent(&mut self, now: Instant) -> bool {
        if let Some(until) = self.until {
            return until > now;
        }
        self.wrong.retain(|at| *at + WINDOW > now);
        !self.wrong.is_empty()
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

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_guesses_of_an_address_count_and_no_right_token_is_refused() {
        let token = Token::new(RIGHT.to_owned());
        let (guesser, operator) = (Some(address(1)), Some(address(2)));
        for _ in 0..3 {
            for from in [guesser, None] {
                for _ in 1..WRONG {
                    assert_eq!(token.compare("wrong", from), Given::Wrong);
                }
                assert_eq!(token.compare("wrong", from), Given::OneTooMany);
                assert_eq!(token.compare("wrong", from), Given::Guess(WINDOW));
            }
            assert_eq!(token.compare("wrong", operator), Given::Wrong);
            for from in [guesser, operator, None] {
                assert_eq!(token.compare(RIGHT, from), Given::Right);
            }
            advance(WINDOW / 3).await;
            assert_eq!(
                token.compare("wrong", guesser),
                Given::Guess(WINDOW * 2 / 3)
            );
            advance(WINDOW * 2 / 3).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_forgotten_after_a_minute() {
        let token = Token::new(RIGHT.to_owned());
        for _ in 0..20 {
            assert_eq!(token.compare("wrong", Some(address(1))), Given::Wrong);
            advance(WINDOW / 4).await;
        }
        advance(WINDOW).await;
        assert_eq!(token.compare("wrong", Some(address(2))), Given::Wrong);
        assert_eq!(token.guesses.lock().expect("no panic").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_count_as_one() {
        let token = Token::new(RIGHT.to_owned());
        let addresses = u32::try_from(ADDRESSES).expect("it is small");
        for number in 0..addresses {
            assert_eq!(token.compare("wrong", Some(address(number))), Given::Wrong);
        }
        for number in 1..5 {
            assert_eq!(
                token.compare("wrong", Some(address(addresses + number))),
                Given::Wrong
            );
        }
        assert_eq!(
            token.compare("wrong", Some(address(addresses))),
            Given::OneTooMany
        );
        assert_eq!(token.compare("wrong", Some(address(0))), Given::Wrong);
        assert_eq!(token.guesses.lock().expect("no panic").len(), ADDRESSES + 1);
    }

    #[test]
    fn a_token_is_not_printed() {
        let text = format!("{:?}", Token::new(RIGHT.to_owned()));
        assert!(!text.contains(RIGHT), "{text}");
    }
}
