//! Errors for URLs with an unknown scheme.
//!
//! The text before `://` may be a misplaced password. Errors about such a URL therefore show only the names
//! listed here.

/// Schemes of servers that dlock does not support. Their URLs are often in a neighboring variable.
const OTHERS: [&str; 5] = ["http", "https", "tcp", "mysql", "amqp"];

/// Schemes of stores that have packages of their own, with the module and the type of each.
const PACKAGES: [(&str, &str); 4] = [
    ("postgres", "dlock_postgres::Postgres"),
    ("postgresql", "dlock_postgres::Postgres"),
    ("etcd", "dlock_etcd::Etcd"),
    ("zookeeper", "dlock_zookeeper::ZooKeeper"),
];

pub(crate) const WHITE_SPACE: &str =
    "it contains white space or a control character; remove it, or encode a space as `%20`";

/// Returns the reason to refuse a URL whose scheme is not among `names`.
pub(crate) fn why_unknown<'a>(url: &str, names: impl Iterator<Item = &'a str>) -> String {
    if url.contains(|c: char| c.is_control() || c == ' ') {
        return WHITE_SPACE.to_owned();
    }
    let Some((scheme, _)) = url.split_once("://") else {
        let example = if cfg!(feature = "redis") {
            "redis://host:6379"
        } else {
            "memory://"
        };
        return format!("it has no scheme; write `{example}`");
    };
    let what = match (package(scheme), other(scheme)) {
        (Some((name, store)), _) => {
            let package = store
                .split("::")
                .next()
                .unwrap_or_default()
                .replace('_', "-");
            format!(
                "`{name}://` needs the package `{package}`, and `.scheme(\"{name}\", {store})` before `connect`"
            )
        }
        (None, Some(other)) => format!("`{other}://` is not supported"),
        (None, None) => "its scheme is unknown".to_owned(),
    };
    let names: Vec<_> = names.map(|name| format!("`{name}://`")).collect();
    let more = if cfg!(feature = "redis") {
        ""
    } else {
        "; for Redis and Valkey, enable the feature `redis` of `dlock-rs`"
    };
    format!("{what}; supported schemes: {}{more}", names.join(", "))
}

/// Returns the part of a URL with an unknown scheme that may be shown.
pub(crate) fn shown(url: &str) -> String {
    let scheme = url.split_once("://").and_then(|(scheme, _)| other(scheme));
    scheme.map_or_else(|| "…".to_owned(), |scheme| format!("{scheme}://…"))
}

fn package(scheme: &str) -> Option<(&'static str, &'static str)> {
    let mut packages = PACKAGES.into_iter();
    packages.find(|(name, _)| name.eq_ignore_ascii_case(scheme))
}

fn other(scheme: &str) -> Option<&'static str> {
    let packages = PACKAGES.into_iter().map(|(name, _)| name);
    let mut others = OTHERS.into_iter().chain(packages);
    others.find(|other| other.eq_ignore_ascii_case(scheme))
}
