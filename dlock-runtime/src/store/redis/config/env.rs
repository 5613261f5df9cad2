//! The credentials in the environment, for URLs without a password.

use std::env::VarError;

use super::{
    credentials::{Credentials, CredentialsProvider},
    url::Location,
};
use crate::error::ConnectError;

impl CredentialsProvider {
    /// Reads the credentials for `url` from the environment: the password in `DLOCK_PASSWORD`, for the user in
    /// `DLOCK_USER` or else for the server's default user.
    ///
    /// Returns `None` if the URL has a password, or the environment has none.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::redis::{CredentialsProvider, RedisConfig};
    ///
    /// let url = "redis://redis.internal";
    /// let config = RedisConfig::new(url).credentials(CredentialsProvider::from_env(url)?);
    /// # drop(config);
    /// # Ok::<(), dlock::ConnectError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if `DLOCK_USER` is set without `DLOCK_PASSWORD`, or if either is not valid
    /// UTF-8.
    pub fn from_env(url: &str) -> Result<Option<Self>, ConnectError> {
        if has_password(url) {
            return Ok(None);
        }
        let read = |name| match std::env::var(name) {
            Ok(text) if !text.is_empty() => Ok(Some(text)),
            Ok(_) | Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(ConnectError::InvalidOption {
                option: name,
                reason: "it is not valid UTF-8; set it to UTF-8 text".into(),
            }),
        };
        let credentials = match (read("DLOCK_USER")?, read("DLOCK_PASSWORD")?) {
            (None, None) => return Ok(None),
            (None, Some(password)) => Credentials::of_default_user(password),
            (Some(user), Some(password)) => Credentials::new(user, password),
            (Some(_), None) => {
                return Err(ConnectError::InvalidOption {
                    option: "DLOCK_USER",
                    reason: "it is set without `DLOCK_PASSWORD`; set both".into(),
                });
            }
        };
        Ok(Some(Self::fixed(credentials)))
    }
}

/// Returns the URL as it is shown, if it is the URL of a server and has no password.
pub(crate) fn without_password(url: &str) -> Option<String> {
    let location = Location::parse(url).ok()?;
    (!location.has_password()).then(|| location.to_string())
}

/// Returns `true` if the URL is the URL of a server and has a password.
fn has_password(url: &str) -> bool {
    Location::parse(url).is_ok_and(|location| location.has_password())
}
