//! The options that only Redis stores have.

#[cfg(feature = "redis")]
use crate::store::redis::CredentialsProvider;
#[cfg(feature = "tls")]
use crate::store::redis::Tls;

/// Options for a store at a Redis URL.
#[derive(Clone, Default)]
pub(crate) struct RedisOptions {
    pub(crate) raw_keys: bool,
    pub(crate) min_replicas: u32,
    #[cfg(feature = "redis")]
    pub(crate) credentials: Option<CredentialsProvider>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
}

impl RedisOptions {
    /// Returns the name of an option that is set and that only a Redis store supports.
    pub(crate) fn first_of_a_server(&self) -> Option<&'static str> {
        if self.raw_keys {
            return Some("raw_keys");
        }
        #[cfg(feature = "redis")]
        if self.credentials.is_some() {
            return Some("credentials");
        }
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return Some("tls");
        }
        None
    }
}
