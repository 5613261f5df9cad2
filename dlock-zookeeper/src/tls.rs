//! The options of a URL for TLS.

#[cfg(feature = "tls")]
mod files;
#[cfg(not(feature = "tls"))]
mod none;
#[cfg(feature = "tls")]
mod trust;

#[cfg(feature = "tls")]
pub(crate) use files::{advised, name_of};
#[cfg(not(feature = "tls"))]
pub(crate) use none::Trust;
#[cfg(feature = "tls")]
pub(crate) use trust::Trust;

/// The options after the `?` that are about TLS.
#[derive(Default)]
pub(crate) struct Own {
    ssl_mode: Option<String>,
    root: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Own {
    /// Notes an option. Returns `false` if it is not about TLS.
    pub(crate) fn note(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let slot = match name {
            "sslmode" => &mut self.ssl_mode,
            "sslrootcert" => &mut self.root,
            "sslcert" => &mut self.cert,
            "sslkey" => &mut self.key,
            _ => return Ok(false),
        };
        if slot.replace(value.to_owned()).is_some() {
            return Err(format!("`{name}` is there twice; remove one"));
        }
        Ok(true)
    }

    /// Returns `true` if connections are encrypted.
    pub(crate) fn is_required(&self) -> Result<bool, String> {
        if self.cert.is_some() != self.key.is_some() {
            return Err("`sslcert` and `sslkey` belong together; write both".to_owned());
        }
        let has_files = self.root.is_some() || self.cert.is_some();
        let is_required = match self.ssl_mode.as_deref() {
            None | Some("disable") => false,
            Some("require") => true,
            Some(_) => {
                let reason =
                    "`sslmode` is `disable` or `require`, which verifies the server's certificate";
                return Err(reason.to_owned());
            }
        };
        if has_files && !is_required {
            // Otherwise the connection would be plain although the URL names certificates.
            return Err("certificates need `sslmode=require`; add it".to_owned());
        }
        Ok(is_required)
    }
}
