//! Text in PEM format: where it comes from, and what it contains.

use std::{fs, path::PathBuf, sync::Arc};

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject,
};

use crate::file::{OptionError, read_option_file};

const NO_CERTIFICATE: &str = "it contains no certificate in PEM format, or a part of one";

/// The names of the options that name files, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsOptionNames {
    /// That of the authorities to trust.
    pub root: &'static str,
    /// That of the client's certificate.
    pub cert: &'static str,
    /// That of its key.
    pub key: &'static str,
}

impl TlsOptionNames {
    /// The names of libpq.
    pub const SSL: Self = Self {
        root: "sslrootcert",
        cert: "sslcert",
        key: "sslkey",
    };
}

/// The source of a text in PEM format.
#[derive(Clone)]
pub enum Pem {
    /// A regular file, which is read again from time to time.
    File(PathBuf),
    /// A file of any kind. One that is not regular, such as a pipe, is read once.
    AnyFile(PathBuf),
    /// The text.
    Text(Arc<[u8]>),
}

impl Pem {
    /// Returns the path of the file, or another description of the source.
    #[must_use]
    pub fn origin(&self) -> String {
        match self {
            Self::File(path) | Self::AnyFile(path) => path.display().to_string(),
            Self::Text(_) => "the given text".to_owned(),
        }
    }

    /// Returns `true` for text that cannot be read again.
    pub(super) fn is_read_once(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::AnyFile(path) => fs::metadata(path).is_ok_and(|found| !found.is_file()),
            Self::Text(_) => true,
        }
    }

    pub(super) fn read(&self, option: &'static str) -> Result<Vec<u8>, OptionError> {
        match self {
            Self::AnyFile(path) if self.is_read_once() => fs::read(path)
                .map_err(|error| OptionError::of(option, self.origin(), error.to_string())),
            Self::File(path) | Self::AnyFile(path) => read_option_file(option, path),
            Self::Text(text) => Ok(text.to_vec()),
        }
    }

    /// Returns the error of a text that this source has.
    pub(super) fn refused(&self, option: &'static str, reason: &str) -> OptionError {
        OptionError::of(option, self.origin(), reason)
    }

    /// Returns the certificates in its text, at least one.
    pub(super) fn certificates(
        &self,
        option: &'static str,
        text: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, OptionError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        match read {
            Ok(all) if !all.is_empty() => Ok(all),
            _ => Err(self.refused(option, NO_CERTIFICATE)),
        }
    }

    /// Returns the revocation lists in its text.
    pub(super) fn revocation_lists(
        &self,
        option: &'static str,
        text: &[u8],
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, OptionError> {
        let read: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
        read.map_err(|_| self.refused(option, NO_CERTIFICATE))
    }

    /// Returns the private key in its text.
    pub(super) fn private_key(
        &self,
        option: &'static str,
        text: &[u8],
    ) -> Result<PrivateKeyDer<'static>, OptionError> {
        // In both forms of keys with a passphrase.
        const ENCRYPTED: &[u8] = b"ENCRYPTED";
        PrivateKeyDer::from_pem_slice(text).map_err(|_| {
            let is_encrypted = text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
            let reason = if is_encrypted {
                "the key is encrypted; use a key without a passphrase"
            } else {
                "it contains no private key in PEM format"
            };
            self.refused(option, reason)
        })
    }
}
