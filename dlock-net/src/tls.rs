//! Configurations of rustls made of files, and the reasons of handshakes that fail.
//!
//! # Rules
//!
//! - A server is always verified, with its host. A revocation list in the file of the authorities applies to all certificates.
//! - A session is not resumed. A connection lasts for days, and each new one verifies the certificate that is valid then.
//!   (`a_session_is_not_resumed`)
//! - No error contains that of a parser, which quotes the lines that it cannot read: a key with wrong line breaks is one line.
//!   (`no_error_shows_a_key`)

mod files;
mod handshake;
mod pem;

pub use self::{
    files::{TlsFiles, TlsTexts, ring_provider},
    handshake::{ClientCertificate, explained, server_name, tls_error},
    pem::{Pem, TlsOptionNames},
};
