//! The servers of a store: which they are, and which of them a request is for.

pub(super) mod cluster;
pub(super) mod independent;
pub(super) mod lane;
pub(super) mod replicas;
pub(super) mod sentinel;
pub(super) mod servers;
pub(super) mod source;
pub(super) mod wake_ups;
