//! The settings of a store: URL, options and credentials.

pub(super) mod credentials;
pub(super) mod env;
mod options;
pub(super) mod scheme;
pub(super) mod secrets;
pub(super) mod settings;
pub(super) mod url;
