//! Inspects the locks in a store for operators, and releases a lock by force.
//!
//! [`Inspect`] is the trait of all inspectors. The commands of `dlock` use it, and each store with its own server
//! implements it.
//!
//! An `Inspector` implements `Inspect` for Redis, with the feature `redis`. It reads a server and acquires no locks. It does not
//! delay other clients: it reads the keys in small steps that take at most 5 % of the server's time, and reads each lock by a
//! read-only script.
//!
//! # Permissions for Redis
//!
//! On a server with access control lists, a user with the permissions for locks can also inspect a lock and force its
//! release. The user needs `+scan` as well to list locks and processes, `+psubscribe` to watch grants, and `+info` to read the
//! server's settings. Without raw keys, the following user can do all of it and nothing else:
//!
//! ```text
#![doc = include_str!("redis/permissions.txt")]
//! ```
//!
//! A user that only looks, for example by `dlock serve`, needs no command that writes:
//!
//! ```text
#![doc = include_str!("redis/permissions_look.txt")]
//! ```
//!
//! In a cluster they need these too, on every node:
//!
//! ```text
#![doc = include_str!("redis/permissions_cluster.txt")]
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod doctor;
mod grants;
mod inspect;
mod make;
mod model;
mod pace;
mod pattern;
#[cfg(feature = "redis")]
mod redis;
pub mod view;

#[cfg(feature = "redis")]
#[doc(inline)]
pub use dlock_runtime::admin::{Deployment, Layout};

#[cfg(feature = "redis")]
pub use self::redis::{Inspector, RedisJudge};
pub use self::{
    grants::Grants,
    inspect::{Inspect, Inspecting},
    model::{
        ClockReading, Denied, Grant, HolderInfo, LockInfo, Overview, ProcessInfo, ReplicaReport,
        ServerReport, Unlocked, WaiterInfo,
    },
    pace::{Pace, Walk},
    pattern::KeyPattern,
};
