//! Inspection of all locks and clients, with the feature `admin`. The record that each client publishes exists
//! without the feature too.

#[cfg(feature = "admin")]
mod deployment;
#[cfg(feature = "admin")]
pub(super) mod inspect;
pub(super) mod presence;
#[cfg(feature = "admin")]
pub(super) mod reader;
#[cfg(feature = "admin")]
mod report;

#[cfg(feature = "admin")]
pub use self::{
    deployment::{Deployment, Layout},
    inspect::{
        HolderSnapshot, LeaseIdentity, LockSnapshot, PassOn, Survey, WaiterSnapshot, Wanted,
    },
    presence::Presence,
    reader::RedisReader,
    report::{ClockOffset, NodeFacts},
};
#[cfg(feature = "admin")]
pub use super::{
    net::listen::{HeardWakeUp, Listener},
    protocol::answers::AfterUnlock,
};
