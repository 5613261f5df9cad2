//! The token with which the page releases locks.

use std::{env, fs, path::Path};

use dlock::random::{Random as _, SystemRandom};
use dlock_admin_web::fault_of_token;

use crate::exit::{Exit, Failure};

/// The variable with the token. An argument would be seen by other users of the machine.
const VARIABLE: &str = "DLOCK_SERVE_TOKEN";

pub(super) struct Token {
    pub(super) text: String,
    /// `true` if it is new, and has to be printed.
    pub(super) is_drawn: bool,
}

impl Token {
    /// Reads the token of `file`, else of the environment. Without both it draws one.
    pub(super) fn find(file: Option<&Path>) -> Result<Self, Failure> {
        if let Some(file) = file {
            let text = fs::read_to_string(file).map_err(|error| {
                let text = format!("cannot read the token file `{}`: {error}", file.display());
                Failure::new(Exit::Usage, text)
            })?;
            return Self::given(&text, &format!("the token in `{}`", file.display()));
        }
        match env::var(VARIABLE) {
            Ok(text) => Self::given(&text, &format!("the token in `{VARIABLE}`")),
            Err(env::VarError::NotPresent) => Ok(Self::draw()),
            Err(env::VarError::NotUnicode(_)) => {
                let text = format!("the token in `{VARIABLE}` is not UTF-8");
                Err(Failure::new(Exit::Usage, text))
            }
        }
    }

    fn given(text: &str, place: &str) -> Result<Self, Failure> {
        let text = text.trim();
        // A header can carry no others.
        let is_sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
        let fault = if is_sendable {
            fault_of_token(text)
        } else {
            Some("it must have letters, digits and signs of ASCII only".to_owned())
        };
        if let Some(fault) = fault {
            let text =
                format!("{place} is invalid: {fault}. Use the output of `openssl rand -hex 16`");
            return Err(Failure::new(Exit::Usage, text));
        }
        Ok(Self {
            text: text.to_owned(),
            is_drawn: false,
        })
    }

    fn draw() -> Self {
        let (one, other) = (SystemRandom.next_u64(), SystemRandom.next_u64());
        Self {
            text: format!("{one:016x}{other:016x}"),
            is_drawn: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_and_fits_into_a_header() {
        for text in [
            "",
            "short",
            "fifteen-letters",
            "sixteen letters 1",
            "s\u{e4}chsundzwanzig!",
            "1212121212121212",
        ] {
            assert!(Token::given(text, "it").is_err(), "{text}");
        }
        let token = Token::given("sixteen-letters!\n", "it").unwrap();
        assert_eq!(
            (token.text.as_str(), token.is_drawn),
            ("sixteen-letters!", false)
        );
    }

    #[test]
    fn drawn_tokens_differ() {
        let (one, other) = (Token::draw(), Token::draw());
        assert_ne!(one.text, other.text);
        assert!(Token::given(&one.text, "it").is_ok());
    }
}
