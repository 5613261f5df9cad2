//! The schemes of URLs of Redis and Valkey, and the kind of servers that each of them names.

use crate::store::url;

/// The kind of servers that a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// One server and its port.
    Server,
    /// The socket of a server on this machine.
    Socket,
    /// Sentinels, which know the address of the master.
    Sentinels,
    /// Some nodes of a cluster, which know the others.
    Nodes,
    /// Servers that are independent of each other, of which a majority decides.
    Independent,
}

#[derive(Clone, Copy)]
enum SchemeUse {
    Served(Names),
    OverTls(Names),
}

const KNOWN: [(&str, SchemeUse); 17] = [
    ("redis", SchemeUse::Served(Names::Server)),
    ("valkey", SchemeUse::Served(Names::Server)),
    ("unix", SchemeUse::Served(Names::Socket)),
    ("redis+unix", SchemeUse::Served(Names::Socket)),
    ("valkey+unix", SchemeUse::Served(Names::Socket)),
    ("redis-sentinel", SchemeUse::Served(Names::Sentinels)),
    ("valkey-sentinel", SchemeUse::Served(Names::Sentinels)),
    ("redis-cluster", SchemeUse::Served(Names::Nodes)),
    ("valkey-cluster", SchemeUse::Served(Names::Nodes)),
    ("rediss", SchemeUse::OverTls(Names::Server)),
    ("valkeys", SchemeUse::OverTls(Names::Server)),
    ("rediss-sentinel", SchemeUse::OverTls(Names::Sentinels)),
    ("valkeys-sentinel", SchemeUse::OverTls(Names::Sentinels)),
    ("rediss-cluster", SchemeUse::OverTls(Names::Nodes)),
    ("valkeys-cluster", SchemeUse::OverTls(Names::Nodes)),
    ("redlock", SchemeUse::Served(Names::Independent)),
    ("redlocks", SchemeUse::OverTls(Names::Independent)),
];

/// Returns the names of all schemes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().map(|(name, _)| name)
}

/// Returns the kind of servers that a URL names, or the reason why it cannot be used.
pub(crate) fn check(text: &str) -> Result<Names, String> {
    let Some((scheme, known)) = find(text) else {
        return Err(url::why_unknown(text, names()));
    };
    match known {
        SchemeUse::Served(names) => Ok(names),
        SchemeUse::OverTls(names) if cfg!(feature = "tls") => Ok(names),
        SchemeUse::OverTls(_) => Err(format!(
            "`{scheme}://` needs TLS; enable the feature `tls` of `dlock-rs`"
        )),
    }
}

/// Returns `true` if the connections to the servers of a URL use TLS.
pub(crate) fn is_over_tls(text: &str) -> bool {
    matches!(find(text), Some((_, SchemeUse::OverTls(_))))
}

/// Returns the part of a refused URL that may be shown.
pub(crate) fn only(text: &str) -> String {
    match find(text) {
        Some((scheme, _)) => format!("{scheme}://…"),
        None => url::shown(text),
    }
}

fn find(text: &str) -> Option<(&'static str, SchemeUse)> {
    let (scheme, _) = text.split_once("://")?;
    KNOWN
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        check(text).expect_err("it is not supported")
    }

    #[test]
    fn schemes_are_told_apart() {
        assert_eq!(check("redis://h"), Ok(Names::Server));
        assert_eq!(check("VALKEY://h"), Ok(Names::Server));
        assert_eq!(check("redis+unix:///s"), Ok(Names::Socket));
        assert_eq!(check("redis-sentinel://h,i/s"), Ok(Names::Sentinels));
        assert_eq!(check("valkey-cluster://h,i"), Ok(Names::Nodes));
        for text in ["localhost:6379", "s3cret@host", "", "redis:host"] {
            let expected = "it has no scheme; write `redis://host:6379`";
            assert_eq!(refused(text), expected, "{text}");
        }
        assert_eq!(check("redlock://h,i,j"), Ok(Names::Independent));
        for scheme in ["rediss", "valkeys-sentinel", "rediss-cluster", "redlocks"] {
            let url = format!("{scheme}://h");
            assert!(is_over_tls(&url));
            if cfg!(feature = "tls") {
                assert!(check(&url).is_ok());
            } else {
                assert!(refused(&url).contains("feature `tls`"));
            }
        }
        assert!(!is_over_tls("redis://h"));
        for (url, what) in [
            ("http://localhost", "`http://` is not supported"),
            ("memory://", "its scheme is unknown"),
        ] {
            let refused = refused(url);
            assert!(
                refused.starts_with(&format!("{what}; supported schemes: ")),
                "{refused}"
            );
            for name in names() {
                assert!(
                    refused.contains(&format!("`{name}://`")),
                    "{name}: {refused}"
                );
            }
        }
    }

    #[test]
    fn a_store_of_another_package_and_white_space_are_named() {
        let expected = "`postgresql://` needs the package `dlock-postgres`, and \
                        `.scheme(\"postgresql\", dlock_postgres::Postgres)` before `connect`; \
                        supported schemes: `redis://`, `valkey://`, ";
        let text = refused("PostgreSQL://h/s3cret");
        assert!(text.starts_with(expected), "{text}");
        for text in ["a b://h", "a\tb://h", "a\u{1}b"] {
            assert_eq!(refused(text), url::WHITE_SPACE, "{text:?}");
        }
    }

    #[test]
    fn only_known_schemes_are_shown() {
        assert_eq!(only("Redis://s3cret"), "redis://…");
        assert_eq!(only("postgres://s3cret"), "postgres://…");
        for text in ["s3cret://host", "redis+s3cret://host", "s3cret", "s3cret@h"] {
            assert_eq!(only(text), "…", "{text}");
            assert!(!refused(text).contains("s3cret"), "{text}");
        }
    }
}
