//! The commands, one module for each.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod inspect;
pub(crate) mod ls;
pub(crate) mod postgres;
#[cfg(unix)]
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod unlock;
pub(crate) mod watch;
