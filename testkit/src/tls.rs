//! Authorities and certificates of a test's own.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;

/// A certificate with its private key, as PEM texts and as files that vanish with it.
pub struct Identity {
    cert: String,
    key: String,
    directory: TempDir,
}

impl Identity {
    fn new(cert: String, key: String) -> Self {
        let directory = TempDir::with_prefix("dlock-tls-").expect("a directory can be made");
        fs::write(directory.path().join("cert.pem"), &cert).expect("it can be written");
        fs::write(directory.path().join("key.pem"), &key).expect("it can be written");
        Self {
            cert,
            key,
            directory,
        }
    }

    /// The certificate as PEM text.
    #[must_use]
    pub fn cert_pem(&self) -> &str {
        &self.cert
    }

    /// The private key as PEM text.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// The file with the certificate.
    #[must_use]
    pub fn cert_file(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    /// The file with the private key.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }
}

/// Issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Identity,
}

impl Authority {
    /// An authority that no client trusts yet.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        // Authorities of one name would be mistaken for each other.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, format!("Authority {number}"));
        let key = KeyPair::generate().expect("a key can be made");
        let cert = params.self_signed(&key).expect("the parameters are valid");
        let root = Identity::new(cert.pem(), key.serialize_pem());
        let issuer = Issuer::new(params, key);
        Self { issuer, root }
    }

    /// The PEM file to trust.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.root.cert_file()
    }

    /// The PEM text to trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.root.cert_pem()
    }

    /// The options of a URL that trust this authority and show a certificate of the client's own if there is one. Those of
    /// Redis have other names.
    #[must_use]
    pub fn ssl_options(&self, own: Option<&Identity>) -> String {
        let own = own.map_or_else(String::new, |own| {
            let (cert, key) = (own.cert_file(), own.key_file());
            format!("&sslcert={}&sslkey={}", cert.display(), key.display())
        });
        let ca = self.ca_file();
        format!("sslmode=require&sslrootcert={}{own}", ca.display())
    }

    /// A certificate for these names and addresses, for a server or a client.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.sign(&params(names))
    }

    /// One that was valid once.
    #[must_use]
    pub fn issue_expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(&params)
    }

    /// One that will be valid.
    #[must_use]
    pub fn issue_early(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(4000, 1, 1);
        self.sign(&params)
    }

    /// One that says of itself to be an authority's, as those that are signed in haste do.
    #[must_use]
    pub fn issue_authority(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(&params)
    }

    /// A certificate for these names that the authority has revoked, with the list that says so as PEM text.
    #[must_use]
    pub fn issue_revoked(&self, names: &[&str]) -> (Identity, String) {
        let mut params = params(names);
        let serial = SerialNumber::from(7_u64);
        params.serial_number = Some(serial.clone());
        let revoked = RevokedCertParams {
            serial_number: serial,
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list
            .signed_by(&self.issuer)
            .expect("the parameters are valid");
        (self.sign(&params), list.pem().expect("it is valid"))
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key can be made");
        let cert = params
            .signed_by(&key, &self.issuer)
            .expect("the parameters are valid");
        Identity::new(cert.pem(), key.serialize_pem())
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    CertificateParams::new(names).expect("these are names")
}
