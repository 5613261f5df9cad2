//! URLs, the files with certificates that URLs name, TLS, and the thread of the connections, for all stores that have a
//! server.
//!
//! A store reads its URL with [`UrlText`], and turns the reasons into errors of its own:
//!
//! ```
//! use dlock_net::{Host, Login, UrlText};
//!
//! fn read(url: &UrlText) -> Result<(Option<Login>, Vec<Host>), String> {
//!     url.check()?;
//!     let login = url.login_with_password("shop://user:password@host")?;
//!     let hosts = url.hosts(7000).map_err(|reason| format!("{reason}; write `shop://host:7000`"))?;
//!     url.options(&["depth"], &[])?;
//!     Ok((login, hosts))
//! }
//!
//! let url = UrlText::split("shop://me:p%40ss@one,two:7001?depth=3");
//! let (login, hosts) = read(&url).unwrap();
//! assert_eq!(login.unwrap().password.as_deref(), Some("p@ss"));
//! assert_eq!(hosts[1].to_string(), "two:7001");
//! assert_eq!(url.shown("shop"), "shop://one,two:7001");
//! ```
//!
//! No reason contains a part of the URL that could be a password, and no error about a file contains what is in it.
//!
//! With the feature `tls`, [`tls`] makes configurations of rustls from files, and [`Reloaded`] reads the files again while the
//! program runs. [`Worker`] is the thread of a store.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod causes;
mod file;
mod host;
mod login;
mod options;
mod reloaded;
#[cfg(feature = "tls")]
pub mod tls;
mod url;
mod worker;

pub use self::{
    causes::causes,
    file::{OptionError, read_option_file},
    host::Host,
    login::Login,
    options::{QueryOptions, TlsPaths, pairs},
    reloaded::{HandshakeError, Reloaded},
    url::UrlText,
    worker::{Tasks, WorkGuard, Worker},
};
