//! Removes the password from errors of a login, because a server may repeat it in them.
//!
//! A server that does not know a command may repeat its words, whole or in part, quoted or in capitals. All parts of
//! a password are therefore removed from such a text.

use redis::RedisConnectionInfo;

use crate::store::StoreError;

/// A shorter part may occur by chance.
const TELLING: usize = 4;

const HIDDEN: &str = "***";

/// Returns the failure of a login without the user and the password.
pub(crate) fn hidden(error: StoreError, login: &RedisConnectionInfo) -> StoreError {
    let Some(password) = login.password() else {
        return error;
    };
    error.reworded(|message| {
        let text = without_parts(message, password);
        match login.username() {
            // These names are not secret.
            None | Some("default") => text,
            Some(user) => without_word(&text, user),
        }
    })
}

/// Returns the text without any part of `secret` that is long enough to disclose something.
fn without_parts(text: &str, secret: &str) -> String {
    let folded: Vec<char> = secret.chars().map(|c| c.to_ascii_lowercase()).collect();
    if folded.len() < TELLING {
        return without_word(text, secret);
    }
    let chars: Vec<char> = text.chars().collect();
    let mut told = String::new();
    let mut rest = &*chars;
    while let [first, after @ ..] = rest {
        let longest = folded.windows(TELLING).enumerate().filter_map(|(at, _)| {
            let pairs = rest.iter().zip(&folded[at..]);
            let same = pairs.take_while(|(c, of_secret)| c.to_ascii_lowercase() == **of_secret);
            let length = same.count();
            (length >= TELLING).then_some(length)
        });
        if let Some(length) = longest.max() {
            told.push_str(HIDDEN);
            rest = &rest[length..];
        } else {
            told.push(*first);
            rest = after;
        }
    }
    told
}

/// Returns the text without `word`. A short word is removed only where it is not part of another one.
fn without_word(text: &str, word: &str) -> String {
    /// Shorter names are parts of common words.
    const UNUSUAL: usize = 6;
    // Only ASCII is folded, so that positions in both texts are the same.
    let (folded, wanted) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let mut told = String::new();
    let mut told_to = 0;
    for (from, _) in folded.match_indices(&wanted).filter(|_| !word.is_empty()) {
        let to = from + word.len();
        let is_part = text[..from].ends_with(char::is_alphanumeric)
            || text[to..].starts_with(char::is_alphanumeric);
        if !is_part || word.len() >= UNUSUAL {
            told.push_str(&text[told_to..from]);
            told.push_str(HIDDEN);
            told_to = to;
        }
    }
    told.push_str(&text[told_to..]);
    told
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::redis::{RedisConfig, RedisStore, fake::Fake};

    const PASSWORD: &str = "Hunter-2-of-9";

    /// The forms in which a server repeats the words of a command.
    const FORMS: [fn(&str) -> String; 7] = [
        |words| format!("ERR unknown command, with args beginning with: {words}"),
        |words| format!("ERR what is {words}?"),
        |words| format!("ERR [{}]", words.to_uppercase()),
        |words| format!("NOPE {words:?} is not for me"),
        // Truncated, as by a server that limits the length.
        |words| format!("ERR {}", &words[..words.len() - 3]),
        |words| format!("ERR {}", words.replace('-', "\\x2d")),
        |words| format!("ERR {}", words.replace(' ', "")),
    ];

    #[tokio::test]
    async fn a_server_that_repeats_a_login_shows_no_password() {
        for protocol in ["resp3", "resp2"] {
            for (number, form) in FORMS.into_iter().enumerate() {
                let server = Fake::start(move |words| async move {
                    let said = form(&words.join(" "));
                    format!("-{said}\r\n")
                })
                .await;
                let url = format!(
                    "redis://maintainer:{PASSWORD}@127.0.0.1:{}?protocol={protocol}",
                    server.port
                );
                let config = RedisConfig {
                    connect_timeout: Duration::from_millis(500),
                    ..RedisConfig::new(url)
                };
                let error = RedisStore::connect(config).await.expect_err("no login");
                let shown = format!("{error} {error:?}").to_lowercase();
                for part in ["hunt", "unter", "2-of", "of-9", "maintainer"] {
                    assert!(!shown.contains(part), "{number}, {protocol}: {shown}");
                }
            }
        }
    }

    #[test]
    fn what_is_said_besides_is_told() {
        let login = |user: &str, password: &str| {
            let login = RedisConnectionInfo::default().set_username(user);
            login.set_password(password)
        };
        let told = |text: &str, user: &str, password: &str| {
            let error = StoreError::new(crate::StoreErrorKind::Refused, text);
            hidden(error, &login(user, password)).message().to_owned()
        };
        let text = "invalid username-password pair";
        assert_eq!(told(text, "me", "s3cret"), text);
        assert_eq!(told(text, "default", "abc"), text);
        assert_eq!(told("me is not you", "me", "abc"), "*** is not you");
        assert_eq!(
            told("it is abc, not abcd", "u", "abc"),
            "it is ***, not abcd"
        );
        assert_eq!(told("x S3CRE y cret", "u", "s3cret"), "x *** y ***");
    }
}
