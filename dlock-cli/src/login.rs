//! The login for a URL, from the environment, for other stores than Redis.

use std::{env, fmt::Write};

use crate::exit::{Exit, Failure};

/// The variables with a user, the first of which counts.
const USERS: [&str; 2] = ["DLOCK_USER", "PGUSER"];

/// The variables with a password.
const PASSWORDS: [&str; 2] = ["DLOCK_PASSWORD", "PGPASSWORD"];

/// Adds user and password of the environment to a URL of PostgreSQL that has none.
pub(crate) fn of_environment(url: &str) -> Result<String, Failure> {
    let (user, password) = (first(&USERS)?, first(&PASSWORDS)?);
    Ok(with(url, user.as_deref(), password.as_deref()))
}

/// Adds user and password of the environment to a URL `scheme://hosts` or `scheme://user@hosts`, whose hosts follow the
/// login.
pub(crate) fn before_hosts(url: &str) -> Result<String, Failure> {
    let (user, password) = (first(&USERS[..1])?, first(&PASSWORDS[..1])?);
    Ok(inserted(url, user.as_deref(), password.as_deref()))
}

fn inserted(url: &str, user: Option<&str>, password: Option<&str>) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (rest, String::new()),
    };
    let (own, hosts) = match place.rsplit_once('@') {
        Some((own, hosts)) => (Some(own), hosts),
        None => (None, place),
    };
    let login = match (own, user, password) {
        // A user without a password is refused with the reason.
        (Some(own), _, Some(password)) if !own.contains(':') => {
            format!("{own}:{}", encoded(password))
        }
        (None, Some(user), Some(password)) => format!("{}:{}", encoded(user), encoded(password)),
        _ => return url.to_owned(),
    };
    format!("{scheme}://{login}@{hosts}{query}")
}

/// Encodes all that could be read as another part of a URL. A plus sign is no space there.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes all");
        }
    }
    encoded
}

fn first(names: &[&str]) -> Result<Option<String>, Failure> {
    for name in names {
        match env::var(name) {
            Ok(text) if !text.is_empty() => return Ok(Some(text)),
            Ok(_) | Err(env::VarError::NotPresent) => {}
            Err(env::VarError::NotUnicode(_)) => {
                let text = format!("invalid variable `{name}`: not UTF-8. Set it to UTF-8 text");
                return Err(Failure::new(Exit::Usage, text));
            }
        }
    }
    Ok(None)
}

/// Adds what the URL lacks, as options: a URL may have several hosts, which no parser of URLs accepts.
fn with(url: &str, user: Option<&str>, password: Option<&str>) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let login = place.split_once("://").map_or(place, |(_, rest)| rest);
    let login = login.rsplit_once('@').map(|(login, _)| login);
    let has = |name: &str| {
        query
            .split('&')
            .any(|it| it.split('=').next() == Some(name))
    };
    let has_user = login.is_some_and(|it| !it.is_empty() && !it.starts_with(':')) || has("user");
    let has_password = login.is_some_and(|it| it.contains(':')) || has("password");
    let mut found = url.to_owned();
    for (name, value) in [
        ("user", user.filter(|_| !has_user)),
        ("password", password.filter(|_| !has_password)),
    ] {
        let Some(value) = value else { continue };
        found.push(if found.contains('?') { '&' } else { '?' });
        found.extend([name, "=", &encoded(value)]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_put_before_the_hosts() {
        let (me, hush) = (Some("me@home"), Some("p@ss w+rd"));
        for (url, user, password, found) in [
            ("etcd://a,b", None, None, "etcd://a,b"),
            ("etcd://a,b", me, None, "etcd://a,b"),
            ("etcd://a,b", None, hush, "etcd://a,b"),
            (
                "etcd://a,b?sslmode=require",
                me,
                hush,
                "etcd://me%40home:p%40ss%20w%2Brd@a,b?sslmode=require",
            ),
            ("etcd://shop@a", me, hush, "etcd://shop:p%40ss%20w%2Brd@a"),
            ("etcd://shop:x@a", me, hush, "etcd://shop:x@a"),
            ("etcd://shop:p@ss@a", me, hush, "etcd://shop:p@ss@a"),
            ("etcd:a", me, hush, "etcd:a"),
        ] {
            assert_eq!(inserted(url, user, password), found);
        }
    }

    #[test]
    fn only_what_the_url_lacks_is_added() {
        let (me, hush) = (Some("me"), Some("p@ss word&"));
        for (url, user, password, found) in [
            ("postgres://h/d", None, None, "postgres://h/d"),
            (
                "postgres://h/d",
                me,
                hush,
                "postgres://h/d?user=me&password=p%40ss%20word%26",
            ),
            (
                "postgres://a:1,b:2/d?schema=x",
                me,
                None,
                "postgres://a:1,b:2/d?schema=x&user=me",
            ),
            (
                "postgres://app@h/d",
                me,
                hush,
                "postgres://app@h/d?password=p%40ss%20word%26",
            ),
            ("postgres://app:x@h/d", me, hush, "postgres://app:x@h/d"),
            (
                "postgres://h/d?user=app&password=x",
                me,
                hush,
                "postgres://h/d?user=app&password=x",
            ),
        ] {
            assert_eq!(with(url, user, password), found);
        }
    }
}
