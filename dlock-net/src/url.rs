//! The parts of a URL, and the mistakes by which one part would be taken for another.

use crate::{
    host::{self, Host},
    login::Login,
    options::{ONE_QUERY, QueryOptions},
};

/// A URL in its parts: `scheme://login@hosts/path?query`. They are text of the URL, and may contain a password.
#[derive(Clone, Copy)]
pub struct UrlText<'a> {
    /// The text before the first `://`, or nothing.
    pub scheme: &'a str,
    /// The text before the last `@`. A password may contain a slash.
    pub login: Option<&'a str>,
    /// The hosts, with commas between them.
    pub hosts: &'a str,
    /// The text behind the first slash after the hosts.
    pub path: &'a str,
    /// The text behind the first `?`.
    pub query: &'a str,
}

impl<'a> UrlText<'a> {
    /// Splits a URL. Any text has these parts, some of them empty.
    #[must_use]
    pub fn split(url: &'a str) -> Self {
        let (before, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = before.split_once("://").unwrap_or_default();
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        Self {
            scheme,
            login,
            hosts,
            path,
            query,
        }
    }

    /// Returns the URL without its login and its options, or less where a part may be that of a password. `scheme` is shown in
    /// place of a missing one.
    ///
    /// ```
    /// use dlock_net::UrlText;
    ///
    /// let shown = |url| UrlText::split(url).shown("shop");
    /// assert_eq!(shown("shop://me:hush@one:7000/path?depth=3"), "shop://one:7000/path");
    /// assert_eq!(shown("shop://me:hush"), "shop://…");
    /// ```
    #[must_use]
    pub fn shown(&self, scheme: &str) -> String {
        let Self { hosts, path, .. } = self;
        match self.scheme {
            "" => format!("{scheme}://…"),
            own if self.query.contains('@') || !host::has_ports(hosts) => format!("{own}://…"),
            own if path.is_empty() => format!("{own}://{hosts}"),
            own => format!("{own}://{hosts}/{path}"),
        }
    }

    /// Looks for marks in wrong places, by which one part would be taken for another.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.query.contains('@') {
            return Err("write `%3F` for a `?` in a password, and `%40` for an `@` in an option");
        }
        // Otherwise the connection would be plain although the URL asks for TLS.
        if self.hosts.contains("sslmode=") || self.path.contains("sslmode=") {
            return Err(ONE_QUERY);
        }
        Ok(())
    }

    /// Returns the hosts with their ports, at least one, and each of them once.
    ///
    /// # Errors
    ///
    /// Those of [`Host::read_all`].
    pub fn hosts(&self, default_port: u16) -> Result<Vec<Host>, String> {
        Host::read_all(self.hosts, default_port)
    }

    /// Returns the login of a server whose users have passwords. `form` is an example of a right URL.
    ///
    /// # Errors
    ///
    /// The reason, if there is a user without a password or a password without a user, and those of [`Login::read`].
    pub fn login_with_password(&self, form: &str) -> Result<Option<Login>, String> {
        let Some(text) = self.login else {
            return Ok(None);
        };
        let login = Login::read(text)?;
        if login.password.is_none() {
            return Err(format!("a user needs a password; write `{form}`"));
        }
        if login.user.is_empty() {
            return Err(format!("the user is empty; write `{form}`"));
        }
        Ok(Some(login))
    }

    /// Returns the options. Each of `known`, and of those for TLS, may be there once, and those of `repeated` several times.
    ///
    /// # Errors
    ///
    /// The reason, if there is another option, if one is there twice, or if a value is not percent-encoded UTF-8.
    pub fn options(&self, known: &[&str], repeated: &[&str]) -> Result<QueryOptions, String> {
        QueryOptions::read(self.query, known, repeated, false)
    }

    /// Returns the options, among them any that the client of a server knows.
    ///
    /// # Errors
    ///
    /// Those of [`options`](Self::options), but other options may be there.
    pub fn options_and_others(&self, known: &[&str]) -> Result<QueryOptions, String> {
        QueryOptions::read(self.query, known, &[], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_parts() {
        let url = UrlText::split("shop://me:p/a@ss@a,[::1]:7/b/c?d=e?f");
        assert_eq!(url.scheme, "shop");
        assert_eq!(url.login, Some("me:p/a@ss"));
        assert_eq!((url.hosts, url.path), ("a,[::1]:7", "b/c"));
        assert_eq!(url.query, "d=e?f");
        let none = UrlText::split("hush");
        assert_eq!((none.scheme, none.hosts, none.login), ("", "", None));
    }

    #[test]
    fn a_url_is_shown_without_anything_that_may_be_a_password() {
        for (url, expected) in [
            ("shop://me:hush@a:5433/b?c=d", "shop://a:5433/b"),
            ("shops://me@a-1:5433,a-2/b", "shops://a-1:5433,a-2/b"),
            ("shop://me@[::1]/b", "shop://[::1]/b"),
            ("shop://me@[::1]:5433/", "shop://[::1]:5433"),
            ("shop://a", "shop://a"),
            ("hush", "shop://…"),
            ("shop://me:hush", "shop://…"),
            ("shop://me:hush/b", "shop://…"),
            ("shop://me:123456/b", "shop://…"),
            ("shop://me:0/b", "shop://…"),
            ("shop://a@b:hush@c/d", "shop://c/d"),
            ("shop://me@a,b:hush/c", "shop://…"),
            ("shop://me:a?hush@b/c", "shop://…"),
        ] {
            assert_eq!(UrlText::split(url).shown("shop"), expected, "{url}");
        }
    }

    #[test]
    fn a_mark_in_a_wrong_place_is_found() {
        for (url, reason) in [
            ("shop://me:7000?hush@a", "`%3F` for a `?` in a password"),
            ("shop://me:a?b=c@d", "`%40` for an `@` in an option"),
            ("shop://me:p@a&sslmode=require", "options follow one `?`"),
            ("shop://me:p@a/b&sslmode=require", "options follow one `?`"),
        ] {
            let error = UrlText::split(url).check().unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
        assert_eq!(UrlText::split("shop://a:sslmode=@b/c?d=e").check(), Ok(()));
    }

    #[test]
    fn a_user_needs_a_password_where_users_have_one() {
        const FORM: &str = "shop://user:password@host";
        let login = |url| UrlText::split(url).login_with_password(FORM);
        assert!(login("shop://a").unwrap().is_none());
        assert_eq!(login("shop://me:@a").unwrap().unwrap().user, "me");
        for (url, reason) in [
            ("shop://me@a", "a user needs a password"),
            ("shop://:hush@a", "the user is empty"),
            ("shop://me:%zz@a", "not percent-encoded"),
        ] {
            let error = login(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
