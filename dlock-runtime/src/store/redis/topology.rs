//! The servers of a store, and the choice of the server for a request.

pub(super) mod cluster;
pub(super) mod independent;
pub(super) mod lane;
pub(super) mod replicas;
pub(super) mod sentinel;
pub(super) mod servers;
pub(super) mod source;
pub(super) mod wake_ups;
