//! The requests to a server and its answers: scripts, commands, names of keys and errors.

pub(super) mod errors;
pub(super) mod names;
pub(super) mod redirect;
pub(super) mod script;
pub(super) mod slot;
pub(super) mod value;
