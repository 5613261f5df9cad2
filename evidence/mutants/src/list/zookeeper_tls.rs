//! Mistakes in TLS to ZooKeeper, and in its URLs.

use super::super::look::Look::{self, Test};
use super::super::mutant::Mutant;
use super::zookeeper::{STORE, UNIT};

const CONFIG: &str = "dlock-zookeeper/src/config.rs";
const DIAL: &str = "dlock-zookeeper/src/dial.rs";
const FILES: &str = "dlock-zookeeper/src/tls/files.rs";
const TRUST: &str = "dlock-zookeeper/src/tls/trust.rs";

const VERIFIED: &[Look] = &[Test(
    STORE,
    "tls::both_sides_are_verified_and_a_refusal_says_what_to_do",
)];

const URLS: &[Look] = &[Test(
    UNIT,
    "config::tests::a_refused_url_says_why_and_does_not_show_the_password",
)];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "zookeeper-tls-plain",
        "A session is not encrypted, although the URL asks for it",
        TRUST,
        "Ok(«connector.with_tls(options).secure_connect(hosts).await?»)",
        "connector.with_tls(options).connect(hosts).await?",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-plain-word",
        "A connection beside the session is not encrypted",
        DIAL,
        "«return encrypted(trust, host).await;»",
        "let _ = trust;",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-no-identity",
        "A session does not show the certificate of the client",
        FILES,
        "Some((cert, key)) => «builder.with_identity(TlsIdentity::from_pem(cert, key)?)»,",
        "{ let _ = (cert, key); builder }",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-closed-is-final",
        "A connection that is closed in the handshake is refused for good",
        DIAL,
        "StoreError::new(«StoreErrorKind::Disconnected», text).with_advice()",
        "StoreErrorKind::Tls",
        VERIFIED,
    ),
    Mutant::new(
        "zookeeper-tls-own-provider",
        "The process needs no TLS provider, without which the client panics",
        TRUST,
        "Self::with(Files::new(own), «provider(CryptoProvider::get_default())?»)",
        "Arc::new(tokio_rustls::rustls::crypto::ring::default_provider())",
        &[Test(
            UNIT,
            "tls::files::tests::a_process_without_a_provider_gets_an_error",
        )],
    ),
    Mutant::new(
        "zookeeper-tls-revoked",
        "A server is trusted although its certificate was revoked",
        FILES,
        "TlsCerts::builder().with_ca(«TlsCa::from_pem(roots)?»)",
        "TlsCa::from_pem(roots.split(\"-----BEGIN X509 CRL-----\").next().unwrap_or_default())?",
        &[Test(
            STORE,
            "tls::a_server_whose_certificate_was_revoked_is_refused",
        )],
    ),
    Mutant::new(
        "zookeeper-tls-shows-key",
        "An error shows the text of a key",
        FILES,
        "«invalid(\"sslkey\", path, reason)»",
        "invalid(\"sslkey\", path, format!(\"{reason}: {text}\"))",
        &[Test(UNIT, "tls::files::tests::no_error_shows_a_key")],
    ),
    Mutant::new(
        "zookeeper-url-without-bounds",
        "A session or a tick may be so long that sums with it overflow",
        CONFIG,
        "if !time.is_zero() && «time <= longest» => Ok(time),",
        "longest > time || time >= longest",
        URLS,
    ),
];
