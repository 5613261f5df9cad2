//! The table of URL schemes that stores of other crates are registered for.

use std::{future::Future, pin::Pin, sync::Arc};

use super::{
    boxed::OwnStore,
    scheme::{StoreOptions, StoreScheme},
};
use crate::error::ConnectError;

type Opening<'a> = Pin<Box<dyn Future<Output = Result<OwnStore, ConnectError>> + Send + 'a>>;

/// The registered schemes; those of dlock are not among them.
#[derive(Clone, Default)]
pub(crate) struct Schemes(Vec<(String, Arc<dyn DynScheme>)>);

impl Schemes {
    pub(crate) fn register(&mut self, name: String, scheme: impl StoreScheme) {
        self.0
            .retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.0.push((name, Arc::new(scheme)));
    }

    /// The scheme of `url`, if it is a registered one.
    pub(crate) fn find(&self, url: &str) -> Option<Arc<dyn DynScheme>> {
        let (scheme, _) = url.split_once(':')?;
        let mut all = self.0.iter();
        let (_, found) = all.find(|(name, _)| name.eq_ignore_ascii_case(scheme))?;
        Some(found.clone())
    }
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
