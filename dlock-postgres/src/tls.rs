//! TLS connections, whose certificates are always verified.

use dlock_net::{Reloaded, TlsPaths, tls::TlsFiles};
use dlock_runtime::ConnectError;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The name of the protocol in the TLS handshake.
const PROTOCOL: &[u8] = b"postgresql";

/// Reads the certificates, and reads files again from time to time.
///
/// # Errors
///
/// [`ConnectError::InvalidOption`] if a file cannot be used.
pub(crate) fn connector(paths: &TlsPaths) -> Result<Reloaded<MakeRustlsConnect>, ConnectError> {
    let files = TlsFiles::of_paths(paths)?;
    let connector = files.load("postgres", |mut config| {
        // Without it, a server refuses `sslnegotiation=direct`.
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        MakeRustlsConnect::new(config)
    });
    Ok(connector?)
}
