//! For operators: reads the locks of a schema, releases one by force, reports on the server, and creates the schema.
//!
//! [`PostgresInspector`] implements `Inspect` of dlock-admin, by which the commands `dlock ls`, `inspect`, `watch`, `unlock`,
//! `top` and `doctor` work. [`Migration`] creates the tables, as `dlock postgres migrate` does.
//!
//! Its user needs the permissions of [`Schema::operator_grants`](crate::Schema::operator_grants), and `pg_read_all_stats`
//! to see since when other users' transactions run.

mod doctor;
mod inspector;
mod link;
mod migrate;
mod page;
mod pattern;
mod permissions;
mod relied;
mod report;
mod unlock;

pub use inspector::PostgresInspector;
pub use migrate::{MigrateError, Migrated, Migration};
