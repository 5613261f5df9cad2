//! The schemes of URLs: which of them are served, and which of them may be repeated.
//!
//! The text before `://` may be a password in the wrong place, so of a scheme nothing is shown
//! but the names listed here.

const SUPPORTED: &str = "`redis://`, `redis+unix://`, `redis-sentinel://`, `redis-cluster://`, \
                         `redlock://`, \
                         over TLS `rediss://`, `rediss-sentinel://`, `rediss-cluster://`, `redlocks://`, \
                         the same with `valkey`, and `memory://` are supported";

/// The kind of servers that a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// One server and its port.
    Server,
    /// The socket of a server on this machine.
    Socket,
    /// Sentinels, which know where the master is.
    Sentinels,
    /// Some nodes of a cluster, which know the others.
    Nodes,
    /// Servers that know nothing of each other, of which a majority decides.
    Independent,
}

#[derive(Clone, Copy)]
enum SchemeUse {
    Served(Names),
    OverTls(Names),
    Memory,
    /// One that is in the variable next to ours.
    Foreign,
}

const KNOWN: [(&str, SchemeUse); 24] = [
    ("redis", SchemeUse::Served(Names::Server)),
    ("valkey", SchemeUse::Served(Names::Server)),
    ("unix", SchemeUse::Served(Names::Socket)),
    ("redis+unix", SchemeUse::Served(Names::Socket)),
    ("valkey+unix", SchemeUse::Served(Names::Socket)),
    ("redis-sentinel", SchemeUse::Served(Names::Sentinels)),
    ("valkey-sentinel", SchemeUse::Served(Names::Sentinels)),
    ("redis-cluster", SchemeUse::Served(Names::Nodes)),
    ("valkey-cluster", SchemeUse::Served(Names::Nodes)),
    ("memory", SchemeUse::Memory),
    ("rediss", SchemeUse::OverTls(Names::Server)),
    ("valkeys", SchemeUse::OverTls(Names::Server)),
    ("rediss-sentinel", SchemeUse::OverTls(Names::Sentinels)),
    ("valkeys-sentinel", SchemeUse::OverTls(Names::Sentinels)),
    ("rediss-cluster", SchemeUse::OverTls(Names::Nodes)),
    ("valkeys-cluster", SchemeUse::OverTls(Names::Nodes)),
    ("redlock", SchemeUse::Served(Names::Independent)),
    ("redlocks", SchemeUse::OverTls(Names::Independent)),
    ("http", SchemeUse::Foreign),
    ("https", SchemeUse::Foreign),
    ("tcp", SchemeUse::Foreign),
    ("mysql", SchemeUse::Foreign),
    ("postgres", SchemeUse::Foreign),
    ("amqp", SchemeUse::Foreign),
];

/// The kind of servers that a URL names, or why it cannot be used.
pub(crate) fn check(text: &str) -> Result<Names, String> {
    let Some((_, rest)) = text.split_once("://") else {
        return Err("it has no scheme; write `redis://host:6379`".to_owned());
    };
    let Some((scheme, known)) = find(text) else {
        return Err(format!("its scheme is unknown; {SUPPORTED}"));
    };
    match known {
        SchemeUse::Served(names) => Ok(names),
        SchemeUse::OverTls(names) if cfg!(feature = "tls") => Ok(names),
        SchemeUse::OverTls(_) => Err(format!(
            "`{scheme}://` needs the feature `tls` of `dlock-rs`, which is not enabled"
        )),
        SchemeUse::Memory if rest.is_empty() => Err("`memory://` is no Redis server".to_owned()),
        SchemeUse::Memory => Err("`memory://` takes nothing after it".to_owned()),
        SchemeUse::Foreign => Err(format!("`{scheme}://` is not supported; {SUPPORTED}")),
    }
}

/// `true` if connections to the servers of a URL are TLS connections.
pub(crate) fn is_over_tls(text: &str) -> bool {
    matches!(find(text), Some((_, SchemeUse::OverTls(_))))
}

/// The part of a refused URL that may be shown.
pub(crate) fn only(text: &str) -> String {
    find(text).map_or_else(|| "…".to_owned(), |(scheme, _)| format!("{scheme}://…"))
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
        check(text).expect_err("it is not served")
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
        let foreign = refused("http://localhost");
        assert_eq!(foreign, format!("`http://` is not supported; {SUPPORTED}"));
        assert_eq!(
            refused("memory://x"),
            "`memory://` takes nothing after it",
            "not even a name"
        );
        assert_eq!(refused("memory://"), "`memory://` is no Redis server");
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
