//! For operators: reads the locks of a namespace, releases one by force, and reports on the servers.
//!
//! [`ZooKeeperInspector`] implements `Inspect` of dlock-admin, by which the commands `dlock ls`, `inspect`, `watch`, `unlock`,
//! `top` and `doctor` work.
//!
//! If the URL of the services has a user, their nodes belong to this user alone. An inspector needs the same login then, or the
//! permission `READ` on the nodes to look. A forced release needs what locks need.

mod doctor;
mod grants;
mod inspector;
mod link;
mod lock;
mod page;
mod permissions;
mod report;
mod unlock;
mod word;

pub use inspector::ZooKeeperInspector;
