//! The meaning of an error of etcd or of a connection for a lock.

use std::error;

use dlock_net::{
    causes,
    tls::{ClientCertificate, TlsOptionNames, explained, tls_error},
};
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tonic::{Code, Status};

use crate::{config::Config, keys};

/// Returns `true` if the server says that a lease does not exist. The request had no effect.
pub(crate) fn is_missing_lease(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// Returns `true` if the database of the server is full. A request that was on its way when the database became full is
/// carried out, and gets this answer as well.
pub(crate) fn is_full(status: &Status) -> bool {
    status.message().contains("database space exceeded")
}

/// Returns `true` if the server wants a new login before it looks at the request.
pub(crate) fn wants_login(status: &Status) -> bool {
    let text = status.message();
    [
        "invalid auth token",
        "revision of auth store is old",
        "user name is empty",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// Returns `true` if the connection, or the member behind it, may be unusable.
pub(crate) fn is_doubtful(status: &Status) -> bool {
    !is_refusal(status)
}

/// The error of a request that was sent. etcd refuses requests by codes of gRPC with texts of its own.
pub(crate) fn of_status(status: &Status, config: &Config) -> StoreError {
    let text = status.message();
    let has = |part: &str| text.contains(part);
    let error = |kind, advice: &str| {
        let text = text.trim_start_matches("etcdserver: ");
        StoreError::new(kind, format!("{text}; {advice}")).with_advice()
    };
    let error = match status.code() {
        Code::PermissionDenied => {
            let prefix = keys::prefix(&config.namespace, "");
            let prefix = String::from_utf8_lossy(&prefix);
            error(
                StoreErrorKind::Denied,
                &format!(
                    "grant the user's role `readwrite` on the prefix `{prefix}`: etcdctl role grant-permission ROLE readwrite \
                     {prefix} --prefix"
                ),
            )
        }
        _ if has("invalid user ID or password") => error(
            StoreErrorKind::Unauthenticated,
            "check the user and the password in the URL",
        ),
        _ if has("user name is empty") => error(
            StoreErrorKind::Unauthenticated,
            "the server wants a login: write `etcd://user:password@host`",
        ),
        _ if has("authentication is not enabled") => error(
            StoreErrorKind::Unauthenticated,
            "the URL has a user, and the server knows none: remove it, or enable authentication",
        ),
        Code::Unauthenticated => error(
            StoreErrorKind::Unauthenticated,
            "check the user and the password in the URL",
        ),
        _ if is_full(status) => error(
            StoreErrorKind::OutOfMemory,
            "compact and defragment the members, or raise `--quota-backend-bytes`; then: etcdctl alarm disarm",
        ),
        _ if has("too many requests") => error(
            StoreErrorKind::Refused,
            "the members are overloaded: check their disks",
        ),
        _ if has("corrupt") => error(
            StoreErrorKind::Refused,
            "the members disagree about their data: check their logs",
        ),
        _ if has("no leader") || has("leader changed") || has("request timed out") => {
            StoreError::new(
                StoreErrorKind::Disconnected,
                format!(
                    "{}; a majority of the members must be up and reachable",
                    text.trim_start_matches("etcdserver: ")
                ),
            )
            .with_advice()
        }
        Code::Unimplemented => error(
            StoreErrorKind::Unsupported,
            "dlock needs etcd 3.4 or later; check the version and the address",
        ),
        _ if text.starts_with("etcdserver: ") && is_refusal(status) => {
            StoreError::new(StoreErrorKind::Refused, text)
        }
        // Of the connection.
        _ => StoreError::new(StoreErrorKind::Disconnected, of_transport(status)),
    };
    if is_refusal(status) && !is_full(status) {
        error.without_effect()
    } else {
        error
    }
}

/// Returns `true` if the server has refused the request. All refusals except [`is_full`] come before the request is carried out.
fn is_refusal(status: &Status) -> bool {
    match status.code() {
        Code::Unauthenticated
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::Unimplemented => true,
        // The client has these codes for an answer that it cannot take, and proxies have them for reasons of their own.
        Code::PermissionDenied | Code::OutOfRange | Code::ResourceExhausted => {
            status.message().starts_with("etcdserver:")
        }
        _ => false,
    }
}

/// The same text for a request of which an earlier step was carried out.
pub(crate) fn with_effect(error: &StoreError) -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, error.message()).with_advice()
}

fn of_transport(status: &Status) -> String {
    let source = error::Error::source(status);
    match source {
        Some(source) => format!("{}: {}", status.message(), causes(source)),
        None if status.message().is_empty() => format!("{:?}", status.code()),
        None => status.message().to_owned(),
    }
}

/// The error of a connection to this host that could not be made. A member, or what is before it, closes connections for many
/// reasons, which are none of TLS.
pub(crate) fn of_connecting(
    error: &(dyn error::Error + 'static),
    host: &str,
    client: Option<ClientCertificate>,
) -> StoreError {
    let Some((fault, client)) = tls_error(error).zip(client) else {
        return StoreError::new(StoreErrorKind::Unreachable, causes(error)).unsent();
    };
    let text = explained(fault, host, client, TlsOptionNames::SSL);
    let text =
        text.unwrap_or_else(|| format!("{fault}; check that the member has TLS on this port"));
    StoreError::new(StoreErrorKind::Tls, text)
        .with_advice()
        .unsent()
}

/// The error of the first request over a connection. A member that requires a certificate of its clients refuses it after the
/// handshake, and closes the connection. The alert with the reason can be lost.
pub(crate) fn of_first_request(status: &Status, config: &Config) -> StoreError {
    let error = of_status(status, config).unsent();
    let has_answered = status.message().starts_with("etcdserver: ");
    let client = config.tls.as_ref().map(|tls| tls.client);
    let is_nameless = client == Some(ClientCertificate::Missing);
    if !is_nameless || has_answered || error.kind() != StoreErrorKind::Disconnected {
        return error;
    }
    let text = format!(
        "{}; if the member requires a client certificate (`--client-cert-auth`), add `sslcert` and `sslkey` to the URL",
        error.message()
    );
    StoreError::new(StoreErrorKind::Disconnected, text)
        .with_advice()
        .unsent()
}

/// The error of an ensemble of which no member could be used. Of several members, each is named with its reason.
pub(crate) fn of_members(failures: &[(&str, StoreError)]) -> StoreError {
    match failures {
        [] => StoreError::new(StoreErrorKind::Unreachable, "the URL names no host").unsent(),
        [(_, only)] => only.clone(),
        [.., (_, last)] => {
            let reasons = failures
                .iter()
                .map(|(place, error)| format!("{place}: {error}"));
            let text = reasons.collect::<Vec<_>>().join("; ");
            let is_about_tls =
                |(_, error): &(&str, StoreError)| error.kind() == StoreErrorKind::Tls;
            let kind = match last.kind() {
                // Another member may be up soon, so callers go on waiting.
                StoreErrorKind::Tls if !failures.iter().all(is_about_tls) => {
                    StoreErrorKind::Unreachable
                }
                kind => kind,
            };
            StoreError::new(kind, text).with_advice().unsent()
        }
    }
}

pub(crate) fn bad_answer(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, what)
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use dlock_runtime::store::StoreOptions;
    use dlock_testkit::Authority;
    use tokio_rustls::rustls;

    use super::*;

    #[test]
    fn a_missing_permission_is_named_by_the_prefix_that_keys_have() {
        let mut options = StoreOptions::default();
        options.namespace = "shop/eu".to_owned();
        let config = Config::parse("etcd://a", &options).unwrap();
        let status = Status::permission_denied("etcdserver: permission denied");
        let text = of_status(&status, &config).to_string();
        assert!(text.contains("readwrite shop%2Feu/ --prefix"), "{text}");
    }

    #[test]
    fn a_certificate_that_may_be_missing_is_named() {
        let (authority, closed) = (Authority::new(), Status::unavailable("broken pipe"));
        let own = authority.issue(&["shop"]);
        let [ca, with_own] = [None, Some(&own)].map(|own| authority.ssl_options(own));
        let headless = Status::unavailable("etcdserver: no leader");
        let denied = Status::unauthenticated("etcdserver: invalid user ID or password");
        let of_proxy = Status::unimplemented("unknown service");
        for (query, status, is_named) in [
            (&*ca, &closed, true),
            (&ca, &denied, false),
            (&ca, &of_proxy, false),
            (&ca, &headless, false),
            (&with_own, &closed, false),
            ("sslmode=disable", &closed, false),
        ] {
            let config = Config::parse(&format!("etcd://a?{query}"), &StoreOptions::default());
            let error = of_first_request(status, &config.unwrap());
            let text = error.to_string();
            assert_eq!(
                text.contains("add `sslcert` and `sslkey`"),
                is_named,
                "{text}"
            );
            assert!(error.has_no_effect(), "{text}");
        }
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of all answers")]
    fn each_answer_says_what_is_to_be_done_and_whether_the_request_may_have_been_carried_out() {
        use StoreErrorKind::{
            Denied, Disconnected, OutOfMemory, Refused, Unauthenticated, Unsupported,
        };
        const CHECK: &str = "check the user and the password in the URL";
        const MAJORITY: &str = "a majority of the members must be up and reachable";
        let config = Config::parse("etcd://a", &StoreOptions::default()).unwrap();
        for (code, text, kind, words, advice, has_no_effect) in [
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Denied,
                "permission denied",
                "grant the user's role `readwrite` on the prefix `dlock/`: etcdctl role grant-permission ROLE readwrite \
                 dlock/ --prefix",
                true,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Unauthenticated,
                "authentication failed, invalid user ID or password",
                CHECK,
                true,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                Unauthenticated,
                "user name is empty",
                "the server wants a login: write `etcd://user:password@host`",
                true,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: authentication is not enabled",
                Unauthenticated,
                "authentication is not enabled",
                "the URL has a user, and the server knows none: remove it, or enable authentication",
                true,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                Unauthenticated,
                "invalid auth token",
                CHECK,
                true,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                OutOfMemory,
                "mvcc: database space exceeded",
                "compact and defragment the members, or raise `--quota-backend-bytes`; then: etcdctl alarm disarm",
                false,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                Refused,
                "too many requests",
                "the members are overloaded: check their disks",
                true,
            ),
            (
                Code::DataLoss,
                "etcdserver: corrupt cluster",
                Refused,
                "corrupt cluster",
                "the members disagree about their data: check their logs",
                false,
            ),
            (
                Code::Unavailable,
                "etcdserver: no leader",
                Disconnected,
                "no leader",
                MAJORITY,
                false,
            ),
            (
                Code::Unavailable,
                "etcdserver: leader changed",
                Disconnected,
                "leader changed",
                MAJORITY,
                false,
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out",
                Disconnected,
                "request timed out",
                MAJORITY,
                false,
            ),
            (
                Code::Unimplemented,
                "unknown service etcdserverpb.KV",
                Unsupported,
                "unknown service etcdserverpb.KV",
                "dlock needs etcd 3.4 or later; check the version and the address",
                true,
            ),
        ] {
            let error = of_status(&Status::new(code, text), &config);
            assert_eq!(error.kind(), kind, "{text}");
            assert_eq!(error.to_string(), format!("{words}; {advice}"));
            assert_eq!(error.has_no_effect(), has_no_effect, "{text}");
        }
    }

    #[test]
    fn an_answer_without_advice_of_its_own_keeps_its_text() {
        use StoreErrorKind::{Disconnected, Refused};
        let config = Config::parse("etcd://a", &StoreOptions::default()).unwrap();
        for (code, text, kind, words, has_no_effect) in [
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                Refused,
                "etcdserver: requested lease not found",
                true,
            ),
            (
                Code::Unavailable,
                "etcdserver: server stopped",
                Disconnected,
                "etcdserver: server stopped",
                false,
            ),
            (
                Code::InvalidArgument,
                "no request of etcd's",
                Disconnected,
                "no request of etcd's",
                true,
            ),
            (Code::Unavailable, "", Disconnected, "Unavailable", false),
        ] {
            let error = of_status(&Status::new(code, text), &config);
            assert_eq!((error.kind(), error.message()), (kind, words));
            assert_eq!(error.has_no_effect(), has_no_effect, "{text}");
        }
    }

    #[test]
    fn the_cause_of_a_broken_connection_is_named() {
        let config = Config::parse("etcd://a", &StoreOptions::default()).unwrap();
        let mut status = Status::unavailable("transport error");
        status.set_source(Arc::new(io::Error::other("broken pipe")));
        let error = of_status(&status, &config);
        assert_eq!(error.message(), "transport error: broken pipe");
    }

    #[test]
    fn only_an_answer_of_the_connection_makes_it_doubtful() {
        for (status, is_expected) in [
            (
                Status::permission_denied("etcdserver: permission denied"),
                false,
            ),
            (Status::permission_denied("forbidden by a proxy"), true),
            (Status::unavailable("broken pipe"), true),
        ] {
            assert_eq!(is_doubtful(&status), is_expected, "{status}");
        }
    }

    #[test]
    fn a_missing_lease_and_a_full_database_are_known_by_their_answers() {
        for (code, text, is_missing) in [
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                true,
            ),
            (Code::NotFound, "etcdserver: member not found", false),
            (
                Code::Unknown,
                "etcdserver: requested lease not found",
                false,
            ),
        ] {
            let status = Status::new(code, text);
            assert_eq!(is_missing_lease(&status), is_missing, "{code:?} {text}");
            assert!(!is_full(&status), "{text}");
        }
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert!(is_full(&full));
    }

    #[test]
    fn a_request_of_which_a_step_was_carried_out_may_have_an_effect() {
        let refused = StoreError::new(StoreErrorKind::Denied, "permission denied; ask")
            .with_advice()
            .without_effect();
        let error = with_effect(&refused);
        assert!(!error.has_no_effect());
        assert_eq!(error.to_string(), "permission denied; ask");
    }

    #[test]
    fn a_connection_that_ends_in_its_handshake_is_no_fault_of_certificates() {
        use rustls::{CertificateError, Error, InvalidMessage::InvalidContentType};
        let client = Some(ClientCertificate::Missing);
        let of = |error: &io::Error, client| of_connecting(error, "a", client);
        for (fault, words) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "set `sslrootcert`",
            ),
            (
                Error::InvalidMessage(InvalidContentType),
                "TLS on this port",
            ),
        ] {
            let error = of(&io::Error::other(fault), client);
            assert_eq!(error.kind(), StoreErrorKind::Tls, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.has_no_effect());
        }
        for (kind, client) in [
            (io::ErrorKind::UnexpectedEof, client),
            (io::ErrorKind::ConnectionReset, client),
            (io::ErrorKind::ConnectionRefused, None),
        ] {
            let error = of(&io::Error::from(kind), client);
            assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
            assert!(error.has_no_effect());
        }
    }

    #[test]
    fn each_member_is_named_with_its_reason() {
        let [one, other] = ["refused", "silent"]
            .map(|why| StoreError::new(StoreErrorKind::Unreachable, why).with_advice());
        let only = of_members(&[("a:2379", one.clone())]);
        assert_eq!(only, one, "the URL names it");
        let both = of_members(&[("a:2379", one), ("b:2379", other)]);
        assert_eq!(both.to_string(), "a:2379: refused; b:2379: silent");
        assert!(both.has_no_effect());
    }

    #[test]
    fn a_fault_of_tls_is_final_only_if_no_other_member_can_be_up_soon() {
        let error = |kind| StoreError::new(kind, "why");
        let [tls, gone] = [StoreErrorKind::Tls, StoreErrorKind::Unreachable];
        for (first, last, expected) in [(tls, tls, tls), (gone, tls, gone), (tls, gone, gone)] {
            let failures = [("a", error(first)), ("b", error(last))];
            assert_eq!(of_members(&failures).kind(), expected);
        }
    }

    #[test]
    fn only_a_refusal_by_etcd_itself_has_no_effect() {
        for (code, text, expected) in [
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                true,
            ),
            (Code::PermissionDenied, "forbidden", false),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                true,
            ),
            (Code::ResourceExhausted, "quota of the proxy", false),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                true,
            ),
            (Code::OutOfRange, "decoded message length too large", false),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                true,
            ),
            (Code::Unavailable, "etcdserver: request timed out", false),
        ] {
            let status = Status::new(code, text);
            assert_eq!(is_refusal(&status), expected, "{code:?} {text}");
        }
        let config = Config::parse("etcd://a", &StoreOptions::default()).unwrap();
        for (text, expected) in [
            ("etcdserver: too many requests", true),
            ("etcdserver: mvcc: database space exceeded", false),
        ] {
            let status = Status::resource_exhausted(text);
            let error = of_status(&status, &config);
            assert_eq!(error.has_no_effect(), expected, "{text}");
        }
    }

    #[test]
    fn a_request_without_a_valid_token_is_sent_again_after_a_login() {
        for (text, expected) in [
            ("etcdserver: invalid auth token", true),
            ("etcdserver: user name is empty", true),
            ("etcdserver: revision of auth store is old", true),
            ("etcdserver: permission denied", false),
        ] {
            assert_eq!(
                wants_login(&Status::unauthenticated(text)),
                expected,
                "{text}"
            );
        }
    }
}
