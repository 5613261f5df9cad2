//! The options of a URL, which follow a `?`, as in `?name=value&other=value`.
//!
//! No error contains a value, nor a name that is not listed here: either may be a password, or a part of one in which
//! a `?` was not encoded.

use std::str::FromStr;

use dlock_net::pairs;

use super::scheme::Names;

/// An option, and the kinds of URL that accept it.
struct OptionRule {
    name: &'static str,
    fits: &'static [Names],
}

const SERVERS: &[Names] = &[
    Names::Server,
    Names::Sentinels,
    Names::Nodes,
    Names::Independent,
];

const KNOWN: &[OptionRule] = &[
    OptionRule {
        name: "protocol",
        fits: &[
            Names::Server,
            Names::Socket,
            Names::Sentinels,
            Names::Nodes,
            Names::Independent,
        ],
    },
    OptionRule {
        name: "ca",
        fits: SERVERS,
    },
    OptionRule {
        name: "cert",
        fits: SERVERS,
    },
    OptionRule {
        name: "key",
        fits: SERVERS,
    },
    OptionRule {
        name: "db",
        fits: &[Names::Socket],
    },
    OptionRule {
        name: "user",
        fits: &[Names::Socket],
    },
    OptionRule {
        name: "pass",
        fits: &[Names::Socket],
    },
    OptionRule {
        name: "sentinel_user",
        fits: &[Names::Sentinels],
    },
    OptionRule {
        name: "sentinel_pass",
        fits: &[Names::Sentinels],
    },
    OptionRule {
        name: "min_replicas",
        fits: &[Names::Server, Names::Sentinels],
    },
];

/// The options for connections over TLS.
const OF_TLS: [&str; 3] = ["ca", "cert", "key"];

impl OptionRule {
    fn takes(&self, names: Names, tls: bool) -> bool {
        self.fits.contains(&names) && (tls || !OF_TLS.contains(&self.name))
    }
}

/// The options of a URL. Every name is valid for its kind of URL, and occurs once.
#[derive(Clone, Default)]
pub(crate) struct UrlOptions(Vec<(&'static str, String)>);

impl UrlOptions {
    /// Reads the part after the `?` of a URL, if there is one.
    pub(crate) fn read(query: Option<&str>, names: Names, tls: bool) -> Result<Self, String> {
        let Some(query) = query else {
            return Ok(Self::default());
        };
        let mut options = Self::default();
        for (name, value) in pairs(query) {
            let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
                let encode = if query.contains('@') {
                    "; in a password, encode `?` as `%3F`"
                } else {
                    ""
                };
                return Err(format!(
                    "one of its options after `?` is unknown; {}{encode}",
                    there_are(names, tls)
                ));
            };
            let name = known.name;
            if !known.takes(names, tls) {
                let advice = if known.takes(names, true) {
                    "that option requires TLS, as in `rediss://`".to_owned()
                } else {
                    there_are(names, tls)
                };
                return Err(format!("it cannot have `{name}`; {advice}"));
            }
            if options.text(name).is_some() {
                return Err(format!("it has `{name}` twice; set it once"));
            }
            if value.is_empty() {
                return Err(format!("its `{name}` is empty; set a value, or remove it"));
            }
            // The parser replaces bytes that are not UTF-8 by this character.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!("its `{name}` is not UTF-8 text"));
            }
            options.0.push((name, value));
        }
        Ok(options)
    }

    pub(crate) fn text(&self, name: &'static str) -> Option<&str> {
        debug_assert!(KNOWN.iter().any(|known| known.name == name));
        let mut all = self.0.iter();
        let (_, value) = all.find(|(known, _)| *known == name)?;
        Some(value)
    }

    /// Returns the absolute path of a file.
    ///
    /// Another text may be the file's content, or a misplaced password.
    pub(crate) fn path(&self, name: &'static str) -> Result<Option<&str>, String> {
        match self.text(name) {
            Some(text) if !text.starts_with('/') || text.contains("-----BEGIN") => Err(format!(
                "its `{name}` must be the absolute path of a file, such as `{name}=/path.pem`"
            )),
            path => Ok(path),
        }
    }

    /// Returns a number in decimal digits, within the range of its type.
    pub(crate) fn number<N: FromStr>(&self, name: &'static str) -> Result<Option<N>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| plain);
        number
            .map(Some)
            .ok_or_else(|| format!("its `{name}` must be a number, such as `{name}=1`"))
    }
}

/// Returns a list of the options that are valid instead of a refused one.
fn there_are(names: Names, tls: bool) -> String {
    let fitting = KNOWN.iter().filter(|known| known.takes(names, tls));
    let fitting: Vec<_> = fitting.map(|known| format!("`{}`", known.name)).collect();
    match fitting.as_slice() {
        [] => "this kind of URL has no options".to_owned(),
        [one] => format!("the only option is {one}"),
        [first @ .., last] => format!("the options are {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> UrlOptions {
        UrlOptions::read(Some(query), Names::Socket, false).expect("it is valid")
    }

    fn refused(query: &str) -> String {
        UrlOptions::read(Some(query), Names::Socket, false)
            .err()
            .expect("it is refused")
    }

    #[test]
    fn values_are_decoded() {
        let options = read("db=3&pass=a+b%26%C3%A9%2B");
        assert_eq!(options.text("pass"), Some("a+b&\u{e9}+"));
        assert_eq!(options.number::<i64>("db"), Ok(Some(3)));
        assert_eq!(options.text("user"), None);
        assert_eq!(read("").number::<i64>("db"), Ok(None));
        assert!(UrlOptions::read(None, Names::Server, false).is_ok());
    }

    #[test]
    fn refusals_name_what_there_is_and_no_value() {
        const LIST: &str = "`protocol`, `db`, `user` and `pass`";
        for query in ["s3cret", "s3cret=1", "timeout=s3cret", "=s3cret", "DB=1"] {
            let text = refused(query);
            assert!(text.contains("unknown; the options are"), "{query}: {text}");
            assert!(text.contains(LIST), "{query}: {text}");
        }
        assert!(refused("s3cret@host").contains("encode `?` as `%3F`"));
        assert_eq!(
            refused("pass=s3cret&db=1&pass=s3cret"),
            "it has `pass` twice; set it once"
        );
        assert_eq!(
            refused("pass=s3cret&user"),
            "its `user` is empty; set a value, or remove it"
        );
        assert_eq!(refused("pass=s3cret%FF"), "its `pass` is not UTF-8 text");
        for number in ["s3cret", "-1", "%2B1", "1.0", "99999999999999999999"] {
            let text = read(&format!("db={number}")).number::<i64>("db");
            let expected = "its `db` must be a number, such as `db=1`";
            assert_eq!(text, Err(expected.into()));
        }
        let elsewhere = UrlOptions::read(Some("pass=s3cret"), Names::Server, false);
        let text = elsewhere.err().expect("it is before the host");
        assert!(text.starts_with("it cannot have `pass`; "), "{text}");
        for path in ["s3cret", "ca.pem", "/-----BEGIN s3cret"] {
            let query = format!("key={path}");
            let options = UrlOptions::read(Some(&query), Names::Server, true).expect("it is known");
            let text = options.path("key").expect_err("it is no path");
            assert!(text.contains("`key=/path.pem`") && !text.contains("s3cret"));
        }
        let plain = UrlOptions::read(Some("ca=/x"), Names::Server, false).err();
        assert!(plain.is_some_and(|text| text.contains("as in `rediss://`")));
        for query in ["pass=s3cret&x", "s3cret", "s3cret=s3cret", "x=s3cret"] {
            assert!(!refused(query).contains("s3cret"), "{query}");
        }
    }

    #[test]
    fn the_options_of_a_kind_of_url_are_listed() {
        for (names, tls, list) in [
            (Names::Nodes, false, "the only option is `protocol`"),
            (
                Names::Nodes,
                true,
                "the options are `protocol`, `ca`, `cert` and `key`",
            ),
            (
                Names::Server,
                false,
                "the options are `protocol` and `min_replicas`",
            ),
        ] {
            let refused = UrlOptions::read(Some("x=1"), names, tls).err();
            let expected = format!("one of its options after `?` is unknown; {list}");
            assert_eq!(refused, Some(expected));
        }
        let refused = UrlOptions::read(Some("db=1"), Names::Nodes, false).err();
        let expected = "it cannot have `db`; the only option is `protocol`";
        assert_eq!(refused.as_deref(), Some(expected));
    }
}
