//! For operators: reads the locks of a namespace, releases one by force, and reports on the members.
//!
//! [`EtcdInspector`] implements `Inspect` of dlock-admin, by which the commands `dlock ls`, `inspect`, `watch`, `unlock`, `top`
//! and `doctor` work.
//!
//! If the members know users, the permission `read` on the prefix of the namespace is enough to look. A forced release needs
//! `readwrite`, as locks do.

mod doctor;
mod grants;
mod inspector;
mod link;
mod lock;
mod messages;
mod metrics;
mod page;
mod permissions;
mod report;
mod unlock;

pub use inspector::EtcdInspector;
