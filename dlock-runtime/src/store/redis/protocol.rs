//! The requests to a server and its answers: scripts, commands, names of keys and errors.

pub(super) mod answers;
pub(super) mod command;
pub(super) mod errors;
pub(super) mod label;
pub(super) mod names;
pub(super) mod redirect;
pub(super) mod scripts;
pub(super) mod slot;
pub(super) mod value;
