//! TLS to the servers, with the feature `tls`.

#[cfg(feature = "tls")]
mod files;
#[cfg(not(feature = "tls"))]
mod none;
#[cfg(feature = "tls")]
mod trust;

#[cfg(feature = "tls")]
pub(crate) use files::advised;
#[cfg(not(feature = "tls"))]
pub(crate) use none::Trust;
#[cfg(feature = "tls")]
pub(crate) use trust::Trust;
