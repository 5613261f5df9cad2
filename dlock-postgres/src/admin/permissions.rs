//! Finds the permissions that a user lacks.

use std::collections::BTreeSet;

use dlock_admin::Denied;
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio_postgres::types::Type;

use super::link::{Link, field};
use crate::schema::{FUNCTIONS, TABLES, UNLOCK, quoted};

/// The permissions of this user for the objects of the schema. The catalogs are visible to every user.
const ALLOWED: &str = "
    SELECT 'schema', n.nspname::text, has_schema_privilege(n.oid, 'USAGE') FROM pg_namespace n WHERE n.nspname = $1
    UNION ALL
    SELECT 'function', p.proname::text, has_function_privilege(p.oid, 'EXECUTE')
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1
    UNION ALL
    SELECT 'table', c.relname::text, has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')";

/// The permissions of a user.
pub(super) struct Permissions {
    /// `false` if the tables of dlock were never created.
    pub(super) is_there: bool,
    /// `true` if the user can read the version.
    pub(super) reads_version: bool,
    /// `true` if the user can read the tables.
    pub(super) reads_tables: bool,
    /// Returns the permissions that the user lacks, each with the statement that grants it.
    pub(super) denied: Vec<Denied>,
}

/// Reads the permissions of this user.
pub(super) async fn permissions(link: &Link, user: &str) -> Result<Permissions, StoreError> {
    let schema = &link.config().schema;
    let name = schema.name();
    let rows = link.ask(ALLOWED, &[(&name, Type::TEXT)]).await?;
    let (mut there, mut allowed) = (BTreeSet::new(), BTreeSet::new());
    for row in &rows {
        let object: (String, String) = (field(row, 0, "kind")?, field(row, 1, "name")?);
        if field(row, 2, "allowed")? {
            allowed.insert(object.clone());
        }
        there.insert(object);
    }
    let has = |set: &BTreeSet<(String, String)>, kind: &str, name: &str| {
        set.contains(&(kind.to_owned(), name.to_owned()))
    };
    let is_there = has(&there, "function", "version") && has(&there, "table", "holder");
    let has_usage = has(&allowed, "schema", name);
    let user = quoted(user)
        .map_err(|error| StoreError::new(StoreErrorKind::BadAnswer, error.to_string()))?;
    let mut denied = Vec::new();
    if is_there && !has_usage {
        let rule = format!(
            "GRANT USAGE ON SCHEMA {} TO {user};",
            schema.fill("{schema}")
        );
        denied.push(Denied::new(rule, "naming anything in the schema", true));
    }
    let functions = FUNCTIONS
        .iter()
        .map(|it| (*it, true))
        .chain([(UNLOCK, false)]);
    for (function, is_required) in functions.filter(|_| is_there) {
        let bare = function.split('(').next().unwrap_or(function);
        if !has(&allowed, "function", bare) {
            let rule = schema.fill(&format!(
                "GRANT EXECUTE ON FUNCTION {{schema}}.{function} TO {user};"
            ));
            denied.push(Denied::new(rule, purpose(bare), is_required));
        }
    }
    // Tables of another version are others.
    let tables = TABLES.into_iter();
    for table in tables.filter(|it| is_there && has(&there, "table", it)) {
        if !has(&allowed, "table", table) {
            let rule = schema.fill(&format!(
                "GRANT SELECT ON TABLE {{schema}}.{table} TO {user};"
            ));
            denied.push(Denied::new(rule, "listing locks", false));
        }
    }
    Ok(Permissions {
        is_there,
        reads_version: has_usage && has(&allowed, "function", "version"),
        reads_tables: has_usage && TABLES.iter().all(|it| has(&allowed, "table", it)),
        denied,
    })
}

fn purpose(function: &str) -> &'static str {
    match function {
        "version" => "connecting",
        "acquire" => "acquiring locks",
        "release" => "releasing locks",
        "renew" => "renewing leases",
        "fence" => "checking a lease in a transaction",
        "adopt" => "`lock_in`",
        "sweep" => "removing old rows",
        _ => "forcing a release",
    }
}
