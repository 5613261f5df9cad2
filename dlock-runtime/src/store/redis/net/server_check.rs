//! Checks the answer of a server to `HELLO`: whether locks work there.

use redis::Value;

use crate::store::{
    StoreError, StoreErrorKind,
    redis::protocol::{errors, value::text},
};

/// Refuses a server on which locks would not work, by its own description. With `in_cluster`, it must be a node of a
/// cluster.
pub(crate) fn check_server(hello: &Value, in_cluster: bool) -> Result<(), StoreError> {
    is_master(hello)?;
    match field(hello, "mode") {
        Some("sentinel") => {
            return Err(errors::unsupported(
                "the server is a Sentinel, which cannot store locks",
            ));
        }
        Some("cluster") if !in_cluster => return Err(errors::in_a_cluster()),
        Some("standalone") if in_cluster => return Err(errors::in_no_cluster()),
        _ => {}
    }
    let version = field(hello, "version").unwrap_or_default();
    let mut parts = version.split('.').map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next())
        && (major, minor) < (6, 2)
    {
        let version = errors::quoted(version);
        return Err(errors::too_old(&format!("it is version {version}")));
    }
    Ok(())
}

/// Refuses a server that calls itself a replica.
pub(super) fn is_master(hello: &Value) -> Result<(), StoreError> {
    if field(hello, "role").is_some_and(|role| role != "master") {
        let message = "the server is a replica, which cannot store locks";
        return Err(StoreError::new(StoreErrorKind::ReadOnly, message));
    }
    Ok(())
}

/// Returns `true` if the server says whether it is a master.
pub(super) fn tells_role(hello: &Value) -> bool {
    field(hello, "role").is_some()
}

/// Returns a field of the answer that is a text.
fn field<'a>(hello: &'a Value, name: &str) -> Option<&'a str> {
    let is_named = |key: &Value| text(key) == Some(name);
    let value = match hello {
        Value::Map(fields) => fields.iter().find(|(key, _)| is_named(key)).map(|it| &it.1),
        // RESP2 has no maps.
        Value::Array(words) => words
            .chunks_exact(2)
            .find(|pair| is_named(&pair[0]))
            .map(|pair| &pair[1]),
        _ => None,
    };
    text(value?)
}

/// Returns the policy by which the server may delete locks to free memory, from the answer to `INFO memory`.
///
/// A server without a memory limit never evicts. One with `noeviction` refuses new locks instead.
pub(crate) fn evicts(info: &Value) -> Option<String> {
    let text: String = redis::from_redis_value_ref(info).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let policy = field("maxmemory_policy")?;
    let may_evict = policy != "noeviction" && field("maxmemory")? != "0";
    may_evict.then(|| policy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(fields: &[(&str, &str)]) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        Value::Map(
            fields
                .iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
        )
    }

    #[test]
    fn a_server_that_cannot_serve_is_refused() {
        let good = [
            ("version", "7.0.15"),
            ("mode", "standalone"),
            ("role", "master"),
        ];
        let check_server = |hello: &Value| check_server(hello, false);
        assert_eq!(check_server(&hello(&good)), Ok(()));
        let valkey = [("server", "valkey"), ("version", "9.1.2"), good[1], good[2]];
        assert_eq!(check_server(&hello(&valkey)), Ok(()));
        assert_eq!(check_server(&hello(&[])), Ok(()));
        assert_eq!(check_server(&hello(&[("version", "unstable")])), Ok(()));
        for (field, kind) in [
            (("role", "replica"), StoreErrorKind::ReadOnly),
            (("role", "slave"), StoreErrorKind::ReadOnly),
            (("mode", "cluster"), StoreErrorKind::Unsupported),
            (("mode", "sentinel"), StoreErrorKind::Unsupported),
            (("version", "6.0.16"), StoreErrorKind::Unsupported),
        ] {
            let error = check_server(&hello(&[field])).expect_err("the server is unsuitable");
            assert_eq!(error.kind(), kind, "{field:?}");
            let words = [field.0, field.1].map(|word| Value::BulkString(word.into()));
            assert_eq!(check_server(&Value::Array(words.into())), Err(error));
        }
    }

    #[test]
    fn a_server_with_a_limit_and_a_policy_may_evict_locks() {
        for (info, policy) in [
            (
                "maxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n",
                Some("volatile-ttl"),
            ),
            (
                "maxmemory_policy:allkeys-lru\r\nmaxmemory:1\r\n",
                Some("allkeys-lru"),
            ),
            ("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", None),
            ("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", None),
            ("maxmemory_human:1B\r\nused_memory:1\r\n", None),
            ("", None),
        ] {
            let told = evicts(&Value::BulkString(info.into()));
            assert_eq!(told.as_deref(), policy, "{info}");
        }
        assert_eq!(evicts(&Value::Okay), None);
        assert_eq!(evicts(&Value::Nil), None);
    }

    #[test]
    fn a_version_is_quoted_in_one_line() {
        let version = "6.0.1\r\n2026-01-01 INFO all is well".repeat(1000);
        let error = check_server(&hello(&[("version", &version)]), false).expect_err("it is old");
        assert!(!error.message().contains(char::is_control), "{error}");
        assert!(error.message().len() < 500, "{error}");
    }

    #[test]
    fn the_url_says_whether_a_server_is_in_a_cluster() {
        let mode = |mode| hello(&[("mode", mode)]);
        assert_eq!(check_server(&mode("cluster"), true), Ok(()));
        for (found, in_cluster, advice) in [
            ("cluster", false, "write `redis-cluster://`"),
            ("standalone", true, "write `redis://`"),
        ] {
            let error = check_server(&mode(found), in_cluster).expect_err("the URL is wrong");
            assert!(
                error.is_final() && error.message().contains(advice),
                "{error}"
            );
        }
        let replica = hello(&[("mode", "cluster"), ("role", "replica")]);
        let error = check_server(&replica, true).expect_err("it takes no locks");
        assert_eq!(error.kind(), StoreErrorKind::ReadOnly);
    }
}
