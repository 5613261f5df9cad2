//! Invalid files and options of TLS: an error when the manager is built.

use std::{fs, path::Path};

use dlock::{ConnectError, LockManager, LockManagerBuilder, store::redis::Tls};
use dlock_testkit::Authority;

use crate::common::shown;
use crate::connection::SECRET;

fn made(builder: LockManagerBuilder, url: &str) -> ConnectError {
    let error = builder.connect_lazy(url).expect_err("it cannot be made");
    let text = shown(&error);
    assert!(
        !text.contains(SECRET) && !text.contains("PRIVATE"),
        "{text}"
    );
    error
}

fn certificate(error: &ConnectError) -> (&'static str, &str, &str) {
    match error {
        ConnectError::InvalidCertificate {
            option,
            origin,
            reason,
        } => (option, origin, reason),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_with_its_option() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (one, other) = (authority.issue(&["one"]), authority.issue(&["other"]));
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let missing = directory.path().join("missing.pem");
    let garbage = write("garbage.pem", SECRET);
    let empty = write("empty.pem", "");
    let hollow = format!("-----BEGIN CERTIFICATE-----\n{SECRET}\n-----END CERTIFICATE-----\n");
    let hollow = write("hollow.pem", &hollow);
    let coded = one
        .key_pem()
        .replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let coded = write("coded.pem", &coded);
    let (cert, key) = (one.cert_file(), one.key_file());

    let with = |options: &[(&str, &Path)]| {
        let options: Vec<_> = options
            .iter()
            .map(|(name, path)| format!("{name}={}", path.display()))
            .collect();
        format!("rediss://:{SECRET}@127.0.0.1:1?{}", options.join("&"))
    };
    let ca = authority.ca_file();
    for (option, file, url, words) in [
        ("ca", &missing, with(&[("ca", &missing)]), "no such file"),
        ("ca", &garbage, with(&[("ca", &garbage)]), "no certificate"),
        ("ca", &empty, with(&[("ca", &empty)]), "no certificate"),
        ("ca", &hollow, with(&[("ca", &hollow)]), "certificate"),
        ("ca", &key, with(&[("ca", &key)]), "no certificate"),
        (
            "cert",
            &missing,
            with(&[("ca", &ca), ("cert", &missing), ("key", &key)]),
            "no such file",
        ),
        (
            "key",
            &garbage,
            with(&[("ca", &ca), ("cert", &cert), ("key", &garbage)]),
            "no private key",
        ),
        (
            "key",
            &coded,
            with(&[("ca", &ca), ("cert", &cert), ("key", &coded)]),
            "encrypted",
        ),
        (
            "key",
            &other.key_file(),
            with(&[("ca", &ca), ("cert", &cert), ("key", &other.key_file())]),
            "",
        ),
    ] {
        let error = made(LockManager::builder(), &url);
        let (found, origin, reason) = certificate(&error);
        assert_eq!((found, origin), (option, file.to_str().unwrap()), "{error}");
        assert!(reason.to_lowercase().contains(words), "{error}");
    }
}

#[tokio::test]
async fn what_is_given_as_text_is_not_repeated() {
    let authority = Authority::new();
    let one = authority.issue(&["one"]);
    let trusting = Tls::new().ca_pem(authority.ca_pem());
    for (tls, option) in [
        (Tls::new().ca_pem(SECRET), "ca"),
        (trusting.clone().identity_pem(SECRET, one.key_pem()), "cert"),
        (trusting.clone().identity_pem(one.cert_pem(), SECRET), "key"),
    ] {
        assert!(!format!("{tls:?}").contains(SECRET), "{tls:?}");
        let builder = LockManager::builder().tls(tls);
        let error = made(builder, "rediss://127.0.0.1:1");
        let (found, origin, _) = certificate(&error);
        assert_eq!((found, origin), (option, "the given text"), "{error}");
    }
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused() {
    let authority = Authority::new();
    let one = authority.issue(&["one"]);
    let ca = authority.ca_file();
    let ca = ca.display();
    let refused = |builder, url: String| match made(builder, &url) {
        ConnectError::InvalidOption { option, reason } => (option, reason),
        other => panic!("{other}"),
    };
    let tls = || LockManager::builder().tls(Tls::new().ca_pem(authority.ca_pem()));

    let (option, reason) = refused(tls(), format!("rediss://h?ca={ca}"));
    assert!(option == "ca" && reason.contains("one place"), "{reason}");
    let (option, reason) = refused(tls(), "redis://h".to_owned());
    assert!(
        option == "tls" && reason.contains("`rediss://`"),
        "{reason}"
    );
    let half = format!("rediss://h?ca={ca}&cert={}", one.cert_file().display());
    let (option, reason) = refused(LockManager::builder(), half);
    assert!(option == "cert" && reason.contains("both"), "{reason}");
    let half = format!("rediss://h?ca={ca}&key={}", one.key_file().display());
    let (option, _) = refused(LockManager::builder(), half);
    assert_eq!(option, "key");
}

/// An option that is put where it does not belong may be a secret.
#[tokio::test]
async fn options_of_the_url_are_refused_without_being_shown() {
    for (url, words) in [
        (format!("redis://h?ca=/{SECRET}"), "it cannot have `ca`"),
        (format!("rediss://h?key={SECRET}"), "`key=/path.pem`"),
        (format!("rediss://h?{SECRET}"), "`ca`, `cert`, `key`"),
        (format!("rediss://h?{SECRET}=1"), "unknown"),
        (format!("rediss://h?ca=/a&ca=/{SECRET}"), "`ca` twice"),
        (format!("redis://h?protocol={SECRET}"), "`resp2` or `resp3`"),
        (format!("redis://h?protocol=resp2&pass={SECRET}"), "`pass`"),
        (format!("redis+unix:///s?key={SECRET}"), "`key`"),
    ] {
        let error = made(LockManager::builder(), &url);
        assert!(matches!(error, ConnectError::InvalidUrl { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
