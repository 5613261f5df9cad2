//! The options of a URL, which follow a `?`, as in `?name=value&other=value`.

use std::fmt;

use url::form_urlencoded;

const SSL_MODE: &str = "sslmode";

/// The options that every store has.
const OF_TLS: [&str; 4] = [SSL_MODE, "sslrootcert", "sslcert", "sslkey"];

/// The files with certificates that a URL names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPaths {
    /// `sslrootcert`: the only authorities to trust.
    pub root: Option<String>,
    /// `sslcert` and `sslkey`: the client's certificate and its key.
    pub own: Option<(String, String)>,
}

/// The options of a URL. Each name was declared.
///
/// ```
/// use dlock_net::UrlText;
///
/// let url = UrlText::split("shop://host?depth=3&reader=a&reader=b&sslmode=require");
/// let mut options = url.options(&["depth"], &["reader"]).unwrap();
/// assert_eq!(options.take("depth").as_deref(), Some("3"));
/// assert_eq!(options.take_all("reader"), ["a", "b"]);
/// assert!(options.tls().unwrap().is_some());
/// ```
pub struct QueryOptions(Vec<(String, String)>);

impl QueryOptions {
    /// Reads the options. Those of `repeated` may be there several times, and others that are not known only with `is_open`.
    pub(crate) fn read(
        query: &str,
        known: &[&str],
        repeated: &[&str],
        is_open: bool,
    ) -> Result<Self, String> {
        let mut options = Self(Vec::new());
        for (name, value) in pairs(query) {
            // Otherwise the connection would be plain although the URL asks for TLS.
            if value.contains("sslmode=") {
                return Err(ONE_QUERY.to_owned());
            }
            // The parser replaces bytes that are not UTF-8 by this character.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!("its `{name}` is not UTF-8 text"));
            }
            if !repeated.contains(&&*name) {
                let is_known = known.iter().chain(&OF_TLS).any(|it| *it == name);
                if is_known && options.0.iter().any(|(other, _)| *other == name) {
                    return Err(format!("it has `{name}` twice; set it once"));
                }
                if !is_known && !is_open {
                    let all = known.iter().chain(repeated).chain(&OF_TLS);
                    let all: Vec<_> = all.map(|it| format!("`{it}`")).collect();
                    let all = all.join(", ");
                    return Err(format!("unknown option `{name}`; the options are {all}"));
                }
            }
            options.0.push((name, value));
        }
        Ok(options)
    }

    /// Takes the value of an option out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes all values of an option out.
    pub fn take_all(&mut self, name: &str) -> Vec<String> {
        let taken = self.0.extract_if(.., |(other, _)| other == name);
        taken.map(|(_, value)| value).collect()
    }

    /// Returns the names and values that were not taken out.
    #[must_use]
    pub fn rest(self) -> Vec<(String, String)> {
        self.0
    }

    /// Takes the options for TLS out. Returns the files that they name, or `None` for connections without TLS.
    ///
    /// # Errors
    ///
    /// The reason, if `sslmode` is neither `disable` nor `require`, or if the options for certificates contradict each other.
    pub fn tls(&mut self) -> Result<Option<TlsPaths>, String> {
        let [mode, root, cert, key] = OF_TLS.map(|name| self.take(name));
        let is_required = match mode.as_deref() {
            None | Some("disable") => false,
            // A server is always verified, with its host.
            Some("require" | "verify-ca" | "verify-full") => true,
            // With `allow` and `prefer` of libpq, an unverified connection would look like a safe one.
            Some(_) => {
                return Err(
                    "`sslmode` is `disable` or `require`, which verifies the server's certificate; write one of them"
                        .to_owned(),
                );
            }
        };
        if cert.is_some() != key.is_some() {
            return Err("`sslcert` and `sslkey` belong together; write both".to_owned());
        }
        let own = cert.zip(key);
        // Otherwise the connection would be plain although the URL names certificates.
        if !is_required && (root.is_some() || own.is_some()) {
            return Err("certificates need `sslmode=require`; add it".to_owned());
        }
        Ok(is_required.then_some(TlsPaths { root, own }))
    }
}

/// Shows no value, which may be a password.
impl fmt::Debug for QueryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// The reason to refuse a URL whose options would be lost.
pub(crate) const ONE_QUERY: &str = "options follow one `?`, with `&` between them";

/// Returns the names and values of the part after the `?`, decoded. A `+` is a plus sign, for example in a password or a path.
/// Bytes that are not UTF-8 become [`char::REPLACEMENT_CHARACTER`].
///
/// ```
/// let pairs: Vec<_> = dlock_net::pairs("a=b+c%20d&e").collect();
/// assert_eq!(pairs, [("a".to_owned(), "b+c d".to_owned()), ("e".to_owned(), String::new())]);
/// ```
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    // In an HTML form, it means a space.
    let query = query.replace('+', "%2B");
    let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
    pairs.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<QueryOptions, String> {
        QueryOptions::read(query, &["depth"], &["reader"], false)
    }

    #[test]
    fn a_name_is_known_and_is_there_once() {
        let options = read("reader=a&depth=1%2B1+1&reader=b").unwrap();
        let depth = ("depth".to_owned(), "1+1+1".to_owned());
        assert!(options.rest().contains(&depth));
        for (query, reason) in [
            (
                "colour=red",
                "unknown option `colour`; the options are `depth`, `reader`, `sslmode`, `sslrootcert`, `sslcert`, `sslkey`",
            ),
            ("depth=1&reader=a&depth=2", "it has `depth` twice"),
            ("sslkey=a&sslkey=b", "it has `sslkey` twice"),
            ("depth=%FF", "its `depth` is not UTF-8 text"),
            ("depth=1;sslmode=require", "options follow one `?`"),
            ("depth=1?sslmode=require", "options follow one `?`"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(reason), "{query}: {error}");
        }
        let open = QueryOptions::read("colour=a&colour=b", &["depth"], &[], true);
        assert_eq!(open.unwrap().rest().len(), 2);
    }

    #[test]
    fn files_need_tls_and_a_certificate_its_key() {
        let tls = |query: &str| read(query).unwrap().tls();
        for query in ["", "depth=1", "sslmode=disable"] {
            assert_eq!(tls(query), Ok(None), "{query}");
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            let paths = tls(&format!("sslmode={mode}")).unwrap();
            assert_eq!(paths, Some(TlsPaths::default()), "{mode}");
        }
        let paths = tls("sslkey=k&sslcert=c&sslrootcert=r&sslmode=require");
        let (root, own) = (Some("r".to_owned()), Some(("c".to_owned(), "k".to_owned())));
        assert_eq!(paths, Ok(Some(TlsPaths { root, own })));
        for (query, reason) in [
            ("sslmode=sometimes", "`sslmode` is `disable` or `require`"),
            ("sslmode=prefer", "`sslmode` is `disable` or `require`"),
            ("sslmode=", "`sslmode` is `disable` or `require`"),
            ("sslmode=require&sslcert=c", "belong together"),
            ("sslkey=k", "belong together"),
            ("sslrootcert=r", "need `sslmode=require`"),
            (
                "sslcert=c&sslkey=k&sslmode=disable",
                "need `sslmode=require`",
            ),
        ] {
            let error = tls(query).unwrap_err();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}
