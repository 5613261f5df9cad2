//! TLS connections, whose certificates are always verified.

use std::{fmt, path::Path, sync::Arc};

use dlock_runtime::ConnectError;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The files that a URL names.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) root: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

/// Reads the certificates.
///
/// # Errors
///
/// [`ConnectError::InvalidCertificate`] if a file cannot be used.
pub(crate) fn connector(files: &Files) -> Result<MakeRustlsConnect, ConnectError> {
    let roots = match &files.root {
        Some(path) => roots_of(path)?,
        None => system_roots(),
    };
    let refused = |error: tokio_rustls::rustls::Error| invalid("sslcert", "", error);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_root_certificates(roots);
    let config = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates("sslcert", cert)?;
            let secret = PrivateKeyDer::from_pem_file(Path::new(key))
                .map_err(|error| invalid("sslkey", key, error))?;
            config
                .with_client_auth_cert(chain, secret)
                .map_err(|error| invalid("sslcert", cert, error))?
        }
        _ => config.with_no_client_auth(),
    };
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
    let read = CertificateDer::pem_file_iter(Path::new(path)).and_then(Iterator::collect);
    let all: Vec<_> = read.map_err(|error| invalid(option, path, error))?;
    if all.is_empty() {
        return Err(invalid(option, path, "it contains no certificate"));
    }
    Ok(all)
}

fn invalid(option: &'static str, path: &str, reason: impl fmt::Display) -> ConnectError {
    ConnectError::InvalidOption {
        option,
        reason: format!("cannot use `{path}`: {reason}").into(),
    }
}
