//! The reasons of handshakes that fail, each with what to do.

use std::{error, io, iter::successors};

use rustls::{AlertDescription, CertificateError, Error, pki_types::ServerName};

use super::pem::TlsOptionNames;

/// The client's certificate, as a server knows it when it ends a handshake, or the connection after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// The server has not asked for a certificate.
    NotAsked,
    /// The server has asked, or may have asked, and the client has none.
    Missing,
    /// The client has shown a certificate.
    Shown,
}

impl ClientCertificate {
    /// Returns what is known where the handshake does not show whether the server asks.
    #[must_use]
    pub fn of(has_identity: bool) -> Self {
        if has_identity {
            Self::Shown
        } else {
            Self::Missing
        }
    }
}

/// Returns the name that the certificate of a server must have, if a certificate can have it. `host` has no brackets.
#[must_use]
pub fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

/// Returns the error of rustls that is among the causes of an error.
#[must_use]
pub fn tls_error<'a>(error: &'a (dyn error::Error + 'static)) -> Option<&'a Error> {
    successors(Some(error), |error| error.source()).find_map(|error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref());
        inner.or_else(|| error.downcast_ref())
    })
}

/// Says why one side has refused the other, and what to do. Returns `None` for an error that is about neither, such as an answer
/// that is not TLS.
#[must_use]
pub fn explained(
    error: &Error,
    host: &str,
    client: ClientCertificate,
    options: TlsOptionNames,
) -> Option<String> {
    let TlsOptionNames { cert, key, .. } = options;
    Some(match error {
        Error::InvalidCertificate(error) => of_certificate(error, host, options),
        Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
            format!(
                "the server has no version of TLS in common ({error}); allow TLS 1.2 or 1.3 there"
            )
        }
        // Servers do not agree on the alert for a client without a certificate.
        Error::AlertReceived(alert) => match client {
            ClientCertificate::NotAsked => {
                format!("the server ended the TLS handshake ({alert:?}); check its log")
            }
            ClientCertificate::Missing => {
                format!("the server requires a client certificate; set `{cert}` and `{key}`")
            }
            ClientCertificate::Shown => format!(
                "the server refused the client certificate ({alert:?}); name one that it trusts in `{cert}` and `{key}`"
            ),
        },
        _ => return None,
    })
}

fn of_certificate(error: &CertificateError, host: &str, options: TlsOptionNames) -> String {
    use CertificateError as Is;
    let root = options.root;
    match error {
        // A certificate with the name of a known authority, but another key, is unknown too.
        Is::UnknownIssuer | Is::BadSignature => format!(
            "the server's certificate is from an unknown authority; set `{root}` to its certificate"
        ),
        Is::Expired | Is::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it".to_owned()
        }
        Is::NotValidYet | Is::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; check this machine's clock".to_owned()
        }
        Is::NotValidForName | Is::NotValidForNameContext { .. } => format!(
            "the server's certificate is not valid for the name `{host}`; write the host in the URL as the certificate names it"
        ),
        Is::Revoked => "the server's certificate was revoked; give the server another one".to_owned(),
        Is::UnknownRevocationStatus => format!(
            "the file of `{root}` has revocation lists, but none of the authority of the server's certificate; add its list, or \
             remove all lists"
        ),
        Is::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            "the server presents the certificate of an authority as its own; issue one with `basicConstraints=CA:FALSE`"
                .to_owned()
        }
        error => format!("the server's certificate is not valid: {error}; issue another one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_to_do() {
        use ClientCertificate::{Missing, NotAsked, Shown};
        let of = |error| Error::InvalidCertificate(error);
        let alert = Error::AlertReceived(AlertDescription::HandshakeFailure);
        let version = Error::AlertReceived(AlertDescription::ProtocolVersion);
        let text = |error: &Error, client| explained(error, "db", client, TlsOptionNames::SSL);
        for (error, client, words) in [
            (
                &of(CertificateError::UnknownIssuer),
                Shown,
                "set `sslrootcert`",
            ),
            (
                &of(CertificateError::BadSignature),
                Shown,
                "set `sslrootcert`",
            ),
            (&of(CertificateError::Expired), Shown, "renew it"),
            (&of(CertificateError::NotValidYet), Shown, "clock"),
            (
                &of(CertificateError::NotValidForName),
                Shown,
                "for the name `db`",
            ),
            (&of(CertificateError::Revoked), Shown, "was revoked"),
            (
                &of(CertificateError::UnknownRevocationStatus),
                Shown,
                "the file of `sslrootcert`",
            ),
            (&version, Missing, "TLS 1.2 or 1.3"),
            (&alert, Missing, "requires a client certificate"),
            (
                &alert,
                Shown,
                "refused the client certificate (HandshakeFailure)",
            ),
            (&alert, NotAsked, "check its log"),
        ] {
            let text = text(error, client).unwrap();
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(text(&Error::DecryptError, Shown), None);
    }

    #[test]
    fn an_error_of_tls_is_found_among_the_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outside")]
        struct Outside(#[source] io::Error);

        let of = |error| Outside(io::Error::other(error));
        let found = of(io::Error::other(Error::DecryptError).into_inner().unwrap());
        assert_eq!(tls_error(&found), Some(&Error::DecryptError));
        let direct = io::Error::other(Error::DecryptError);
        assert_eq!(tls_error(&direct), Some(&Error::DecryptError));
        assert_eq!(tls_error(&Error::DecryptError), Some(&Error::DecryptError));
        assert_eq!(tls_error(&io::Error::other("another one")), None);
    }

    #[test]
    fn hosts_are_names_that_certificates_can_have() {
        for host in ["zk-1", "zk_1.internal", "10.0.0.1", "::1"] {
            assert!(server_name(host).is_some(), "{host}");
        }
        for host in ["", "a b", "fe80::1%eth0", "a]", "[a", "\u{fc}"] {
            assert!(server_name(host).is_none(), "{host}");
        }
    }
}
