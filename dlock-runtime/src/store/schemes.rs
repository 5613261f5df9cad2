//! The table of URL schemes: those of dlock, and those that are registered for stores of other crates.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::time::timeout;

use super::{
    boxed::OwnStore,
    scheme::{StoreOptions, StoreScheme},
    url::{shown, why_unknown},
};
use crate::error::{ConnectError, StoreError};

type Opening<'a> = Pin<Box<dyn Future<Output = Result<OwnStore, ConnectError>> + Send + 'a>>;

/// The kind of store that a scheme names.
#[derive(Clone)]
pub(crate) enum StoreKind {
    Memory,
    /// Redis or Valkey, with the options of the builder.
    #[cfg(feature = "redis")]
    Redis,
    Registered(Arc<dyn DynScheme>),
}

/// The schemes of one builder.
#[derive(Clone)]
pub(crate) struct Schemes(Vec<(String, StoreKind)>);

impl Default for Schemes {
    /// The schemes of dlock.
    fn default() -> Self {
        #[cfg_attr(not(feature = "redis"), expect(unused_mut, reason = "there is one"))]
        let mut all = vec![("memory".to_owned(), StoreKind::Memory)];
        #[cfg(feature = "redis")]
        all.extend(super::redis::schemes().map(|name| (name.to_owned(), StoreKind::Redis)));
        Self(all)
    }
}

impl Schemes {
    pub(crate) fn register(&mut self, name: String, scheme: impl StoreScheme) {
        self.0
            .retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        let scheme = StoreKind::Registered(Arc::new(scheme));
        self.0.push((name, scheme));
    }

    /// Returns the kind of store that `url` names.
    ///
    /// # Errors
    ///
    /// If the scheme of the URL is not in the table; the text lists the known schemes. Also if a scheme was
    /// registered under a name that no URL can have.
    pub(crate) fn find(&self, url: &str) -> Result<&StoreKind, ConnectError> {
        if let Some((name, _)) = self.0.iter().find(|(name, _)| !is_scheme(name)) {
            return Err(ConnectError::InvalidOption {
                option: "scheme",
                reason: format!(
                    "`{}` is not a URL scheme; write a letter, followed by letters, digits, `+`, `-` or `.`, \
                     without `://`",
                    name.escape_debug()
                )
                .into(),
            });
        }
        let found = url.split_once(':').and_then(|(scheme, _)| {
            let mut all = self.0.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(scheme))
        });
        let Some((_, kind)) = found else {
            let names = self.0.iter().map(|(name, _)| &**name);
            return Err(ConnectError::InvalidUrl {
                url: shown(url),
                reason: why_unknown(url, names),
            });
        };
        if matches!(kind, StoreKind::Memory) && !matches!(&url["memory:".len()..], "" | "//") {
            return Err(ConnectError::InvalidUrl {
                url: "memory://…".to_owned(),
                reason: "nothing may follow `memory://`; remove the rest".to_owned(),
            });
        }
        Ok(kind)
    }
}

/// Returns `true` if a URL can begin with `name` and a colon (RFC 3986, section 3.1).
fn is_scheme(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
}

/// [`StoreScheme`] with boxed stores.
pub(crate) trait DynScheme: Send + Sync {
    /// Creates the store without waiting for it.
    fn open(&self, url: &str, options: &StoreOptions) -> Result<OwnStore, ConnectError>;

    /// Creates the store, and waits until it answers.
    fn open_ready<'a>(&'a self, url: &'a str, options: &'a StoreOptions) -> Opening<'a>;
}

impl<S: StoreScheme> DynScheme for S {
    fn open(&self, url: &str, options: &StoreOptions) -> Result<OwnStore, ConnectError> {
        Ok(OwnStore::new(StoreScheme::open(self, url, options)?))
    }

    fn open_ready<'a>(&'a self, url: &'a str, options: &'a StoreOptions) -> Opening<'a> {
        Box::pin(async move {
            let store = StoreScheme::open(self, url, options)?;
            let limit = options.connect_timeout;
            let Ok(ready) = timeout(limit, self.ready(&store, options)).await else {
                // The text does not repeat the URL: only its scheme is certainly not a password.
                let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
                return Err(ConnectError::Unavailable {
                    url: format!("{scheme}://…"),
                    reason: StoreError::timed_out(limit),
                });
            };
            ready?;
            Ok(OwnStore::new(store))
        })
    }
}
