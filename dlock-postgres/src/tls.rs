//! TLS connections, whose certificates are always verified.
//!
//! No error contains that of a parser, which quotes the lines that it cannot read: a key with wrong line breaks is one line.

use std::{fmt, sync::Arc};

use dlock_runtime::{
    ConnectError,
    store::{Reloaded, read_option_file},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// The name of the protocol in the TLS handshake.
const PROTOCOL: &[u8] = b"postgresql";

/// The files that a URL names.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) root: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

impl Files {
    /// Returns `true` if the URL names one.
    pub(crate) fn are_named(&self) -> bool {
        self.root.is_some() || self.cert.is_some()
    }
}

/// Reads the certificates, and reads files again from time to time.
///
/// # Errors
///
/// [`ConnectError::InvalidOption`] if a file cannot be used.
pub(crate) fn connector(files: Files) -> Result<Reloaded<MakeRustlsConnect>, ConnectError> {
    // Those of the machine are many. They are read once.
    let machine = Arc::new(match files.root {
        None => system_roots(),
        Some(_) => RootCertStore::empty(),
    });
    if !files.are_named() {
        return Ok(Reloaded::fixed(read(&files, &machine)?));
    }
    Reloaded::new("postgres", move || read(&files, &machine))
}

fn read(files: &Files, machine: &Arc<RootCertStore>) -> Result<MakeRustlsConnect, ConnectError> {
    let roots = match &files.root {
        Some(path) => Arc::new(roots_of(path)?),
        None => machine.clone(),
    };
    let refused = |error: tokio_rustls::rustls::Error| invalid("sslcert", "", error);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_root_certificates(roots);
    let mut config = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates("sslcert", cert)?;
            let secret = PrivateKeyDer::from_pem_slice(&read_option_file("sslkey", key)?)
                .map_err(|error| unread("sslkey", key, &error))?;
            config
                .with_client_auth_cert(chain, secret)
                .map_err(|error| {
                    let reason = format!("it is no key of the certificate `{cert}`: {error}");
                    invalid("sslkey", key, reason)
                })?
        }
        _ => config.with_no_client_auth(),
    };
    // Without it, a server refuses `sslnegotiation=direct`.
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

fn roots_of(path: &str) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        roots
            .add(certificate)
            .map_err(|error| invalid("sslrootcert", path, error))?;
    }
    Ok(roots)
}

/// Those of this machine. Without any, no server is trusted.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn certificates(
    option: &'static str,
    path: &str,
) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let text = read_option_file(option, path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = read.map_err(|error| unread(option, path, &error))?;
    if all.is_empty() {
        return Err(invalid(option, path, "it contains no certificate"));
    }
    Ok(all)
}

fn unread(option: &'static str, path: &str, error: &pem::Error) -> ConnectError {
    match error {
        pem::Error::NoItemsFound if option == "sslkey" => invalid(
            option,
            path,
            "it contains no private key that is not encrypted",
        ),
        _ => invalid(option, path, "it is not in PEM format"),
    }
}

fn invalid(option: &'static str, path: &str, reason: impl fmt::Display) -> ConnectError {
    ConnectError::InvalidOption {
        option,
        reason: format!("cannot use `{path}`: {reason}").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dlock_testkit::Authority;

    use super::*;

    fn fault(root: &str, cert: &str, key: &str) -> String {
        let files = Files {
            root: Some(root.to_owned()),
            cert: Some(cert.to_owned()),
            key: Some(key.to_owned()),
        };
        let error = connector(files).expect_err("a file cannot be used");
        error.to_string()
    }

    /// A parser quotes the line that it cannot read, and a key from a variable may be one line.
    #[test]
    fn an_unusable_file_is_named_and_no_key_is_shown() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let [own, foreign] = ["shop", "shop"].map(|name| authority.issue(&[name]));
        let cert = own.cert_file().display().to_string();
        let [key, other] = [&own, &foreign].map(|it| it.key_file().display().to_string());
        for (error, option, path) in [
            (fault("/none", &cert, &key), "sslrootcert", "/none"),
            (fault(&ca, &key, &key), "sslcert", &*key),
            (fault(&ca, &cert, &cert), "sslkey", &*cert),
            (fault(&ca, &cert, &other), "sslkey", &*other),
        ] {
            let named = format!("`{option}`: cannot use `{path}`");
            assert!(error.contains(&named), "{error}");
        }
        let text = fault(&ca, &cert, own.key_pem());
        assert!(
            text.contains("the name of a file") && text.len() < 200,
            "{text}"
        );
        for lines in [" ", "\\n"] {
            let text = own.key_pem().replace('\n', lines);
            fs::write(own.key_file(), &text).unwrap();
            for error in [
                fault(&ca, &cert, &key),
                fault(&ca, &key, &key),
                fault(&key, &cert, &key),
            ] {
                let middle = text.len() / 2;
                let secret = &text[middle..middle + 8];
                let numbers = format!("{:?}", secret.as_bytes());
                assert!(!error.contains(secret), "{error}");
                assert!(!error.contains(numbers.trim_matches(['[', ']'])), "{error}");
            }
        }
    }
}
