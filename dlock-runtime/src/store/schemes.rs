//! The table of URL schemes: dlock's own, and those that stores of other crates are registered for.
//!
//! The text before `://` may be a password in the wrong place, so of an unknown scheme nothing is shown but the names
//! listed here.

use std::{future::Future, pin::Pin, sync::Arc};

use super::{
    boxed::OwnStore,
    scheme::{StoreOptions, StoreScheme},
};
use crate::error::ConnectError;

type Opening<'a> = Pin<Box<dyn Future<Output = Result<OwnStore, ConnectError>> + Send + 'a>>;

/// Schemes of servers that are no store of dlock: URLs of such are in the variable next to ours.
const OTHERS: [&str; 6] = ["http", "https", "tcp", "mysql", "postgres", "amqp"];

/// The kind of store that a scheme stands for.
#[derive(Clone)]
pub(crate) enum StoreKind {
    Memory,
    /// Redis or Valkey, whose options are those of the builder.
    #[cfg(feature = "redis")]
    Redis,
    Registered(Arc<dyn DynScheme>),
}

/// The schemes of one builder.
#[derive(Clone)]
pub(crate) struct Schemes(Vec<(String, StoreKind)>);

impl Default for Schemes {
    /// Those of dlock.
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

    /// The kind of store that `url` names.
    ///
    /// # Errors
    ///
    /// When its scheme is not in the table; the text lists those that are.
    pub(crate) fn find(&self, url: &str) -> Result<&StoreKind, ConnectError> {
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
                reason: "`memory://` takes nothing after it".to_owned(),
            });
        }
        Ok(kind)
    }
}

/// The reason to refuse a URL whose scheme is none of `names`.
pub(crate) fn why_unknown<'a>(url: &str, names: impl Iterator<Item = &'a str>) -> String {
    if url.contains(|c: char| c.is_control() || c == ' ') {
        return WHITE_SPACE.to_owned();
    }
    let Some((scheme, _)) = url.split_once("://") else {
        let example = if cfg!(feature = "redis") {
            "redis://host:6379"
        } else {
            "memory://"
        };
        return format!("it has no scheme; write `{example}`");
    };
    let what = match other(scheme) {
        Some(other) => format!("`{other}://` is not supported"),
        None => "its scheme is unknown".to_owned(),
    };
    let names: Vec<_> = names.map(|name| format!("`{name}://`")).collect();
    let more = if cfg!(feature = "redis") {
        ""
    } else {
        ", and those of Redis with the feature `redis` of `dlock-rs`"
    };
    format!("{what}; supported: {}{more}", names.join(", "))
}

pub(crate) const WHITE_SPACE: &str = "it holds white space; remove it, or encode it as `%20`";

/// The part of a URL of an unknown scheme that may be shown.
pub(crate) fn shown(url: &str) -> String {
    let scheme = url.split_once("://").and_then(|(scheme, _)| other(scheme));
    scheme.map_or_else(|| "…".to_owned(), |scheme| format!("{scheme}://…"))
}

fn other(scheme: &str) -> Option<&'static str> {
    let mut others = OTHERS.into_iter();
    others.find(|other| other.eq_ignore_ascii_case(scheme))
}

/// [`StoreScheme`], whose stores are boxed.
pub(crate) trait DynScheme: Send + Sync {
    /// Makes the store without waiting for it.
    fn open(&self, url: &str, options: &StoreOptions) -> Result<OwnStore, ConnectError>;

    /// Makes the store, and waits until it answers.
    fn open_ready<'a>(&'a self, url: &'a str, options: &'a StoreOptions) -> Opening<'a>;
}

impl<S: StoreScheme> DynScheme for S {
    fn open(&self, url: &str, options: &StoreOptions) -> Result<OwnStore, ConnectError> {
        Ok(OwnStore::new(StoreScheme::open(self, url, options)?))
    }

    fn open_ready<'a>(&'a self, url: &'a str, options: &'a StoreOptions) -> Opening<'a> {
        Box::pin(async move {
            let store = StoreScheme::open(self, url, options)?;
            self.ready(&store, options).await?;
            Ok(OwnStore::new(store))
        })
    }
}
