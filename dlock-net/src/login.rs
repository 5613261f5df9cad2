//! The user and the password of a URL.

use std::fmt;

use percent_encoding::percent_decode_str;

const NOT_ENCODED: &str =
    "the user or the password is not percent-encoded UTF-8; write `%25` for a `%`";

/// The user and the password before the hosts of a URL.
///
/// ```
/// use dlock_net::Login;
///
/// let login = Login::read("me:p%40ss+1").unwrap();
/// assert_eq!((&*login.user, login.password.as_deref()), ("me", Some("p@ss+1")));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user, which may be empty.
    pub user: String,
    /// The password, if there is a colon.
    pub password: Option<String>,
}

impl Login {
    /// Reads `user` or `user:password`, both percent-encoded.
    ///
    /// # Errors
    ///
    /// The reason, if one of them is not percent-encoded UTF-8.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (text, None),
        };
        Ok(Self {
            user: decoded(user).ok_or(NOT_ENCODED)?,
            password: match password {
                Some(password) => Some(decoded(password).ok_or(NOT_ENCODED)?),
                None => None,
            },
        })
    }
}

/// Shows nothing of the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

fn decoded(text: &str) -> Option<String> {
    // The decoder would leave a `%` without digits as it is.
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let mut parts = text.split('%').skip(1).map(str::as_bytes);
    let is_encoded = parts.all(|part| is_digit(part.first()) && is_digit(part.get(1)));
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    is_encoded.then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_decoded() {
        for (text, user, password) in [
            ("me", "me", None),
            ("me:", "me", Some("")),
            (":p", "", Some("p")),
            ("me%40home:a:b", "me@home", Some("a:b")),
            ("a%3ab:%c3%A9%25", "a:b", Some("\u{e9}%")),
            ("me:a+b&c=d", "me", Some("a+b&c=d")),
        ] {
            let login = Login::read(text).unwrap();
            assert_eq!(
                (&*login.user, login.password.as_deref()),
                (user, password),
                "{text}"
            );
        }
        let shown = format!("{:?}", Login::read("me:hush").unwrap());
        assert!(shown.contains("me") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn a_login_that_would_be_another_one_is_refused() {
        for text in ["me:%FF", "%ff:p", "me:%", "me:%4", "me:%zz", "me:100%"] {
            assert_eq!(Login::read(text).unwrap_err(), NOT_ENCODED, "{text}");
        }
    }
}
