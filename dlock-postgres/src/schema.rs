//! The schema with the tables and functions of the locks: its name, its version, and the statements that make it.

use std::fmt;

/// The version of the tables and functions, which [`version()`](self) of a schema returns.
pub(crate) const VERSION: i32 = 2;

/// The oldest version with the functions that this program calls.
pub(crate) const OLDEST: i32 = 1;

/// The tables of keys, those of leases, and the functions.
const KEYS: &str = include_str!("schema/keys.sql");
const LEASES: &str = include_str!("schema/leases.sql");
const ALL_FUNCTIONS: &str = include_str!("schema/functions.sql");

/// The rest of an upgrade from version 1.
const FROM_1: &str = include_str!("schema/from_1.sql");

/// The functions that a manager calls, and those that check its leases in a transaction.
pub(crate) const FUNCTIONS: [&str; 7] = [
    "version()",
    "acquire(text, text, bigint, integer, boolean, text, text)",
    "release(text, text)",
    "renew(text[], text[], bigint[], text[], text[])",
    "fence(text[], text[], bigint[])",
    "adopt(text, text, bigint)",
    "sweep()",
];

/// The function by which operators force a release.
pub(crate) const UNLOCK: &str = "unlock(text, text, bigint)";

/// The functions that only the others call.
const PARTS: [&str; 11] = [
    "next_fence(bigint, timestamptz)",
    "admits(integer, bigint, boolean)",
    "commit_durably()",
    "make_turn(text)",
    "remove_ended(text, bigint, timestamptz)",
    "extend(text, text, bigint, text, text)",
    "channel(text)",
    "message(text, bigint, bigint, text)",
    "notify(text, bigint, bigint, text)",
    "first_waiter(text, bigint, timestamptz)",
    "grant_waiters(text, timestamptz, text, text)",
];

/// The rest of a query for the objects of a schema `n` that do not belong to its owner.
pub(crate) const OTHERS_PARTS: &str =
    "FROM (SELECT p.proname AS name, p.proowner AS owner FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
           UNION ALL
           SELECT c.relname, c.relowner FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid
           UNION ALL
           SELECT t.typname, t.typowner FROM pg_catalog.pg_type t WHERE t.typnamespace = n.oid
           UNION ALL
           SELECT q.oprname, q.oprowner FROM pg_catalog.pg_operator q WHERE q.oprnamespace = n.oid) AS x
     JOIN pg_catalog.pg_roles r ON r.oid = x.owner
     WHERE x.owner <> n.nspowner";

/// The rest of a query for the roles, except its owner and superusers, that may create objects in a schema `n`.
pub(crate) const OTHER_CREATORS: &str =
    "FROM pg_catalog.aclexplode(n.nspacl) a LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
     WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE";

/// The tables that the commands for operators read.
pub(crate) const TABLES: [&str; 3] = ["turn", "holder", "waiter"];

/// The longest name of PostgreSQL, in bytes.
const LONGEST: usize = 63;

/// The PostgreSQL schema of a set of locks: two managers see the same locks if they use the same schema of the same
/// database.
///
/// ```
/// use dlock_postgres::Schema;
///
/// let schema = Schema::new("dlock")?;
/// let statements = schema.migration(Some("shop"))?;
/// assert!(statements.contains("CREATE TABLE \"dlock\".holder"));
/// # Ok::<(), dlock_postgres::InvalidSchema>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Schema {
    name: String,
    /// The name as statements contain it.
    quoted: String,
}

/// The name of a schema or role is empty, too long, or has a NUL; or that of a schema has `$$`.
///
/// ```
/// use dlock_postgres::Schema;
///
/// let error = Schema::new("").unwrap_err();
/// assert!(error.to_string().contains("between 1 and 63 bytes"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name in PostgreSQL has between 1 and 63 bytes and no NUL character; that of dlock's schema has no `$$` either"
)]
#[non_exhaustive]
pub struct InvalidSchema;

impl Schema {
    /// Creates the name of a schema. Any name of PostgreSQL without `$$` will do; it is quoted in statements.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no schema can have this name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidSchema> {
        let name = name.into();
        // The bodies of functions are between two of them.
        if name.contains("$$") {
            return Err(InvalidSchema);
        }
        let quoted = quoted(&name)?;
        Ok(Self { name, quoted })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the statements that create the tables and functions, in one transaction, for `psql` or a migration of
    /// your own. With a `role`, they also grant it what a manager needs.
    ///
    /// They fail if the tables exist already.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no role can have this name.
    pub fn migration(&self, role: Option<&str>) -> Result<String, InvalidSchema> {
        let grants = role.map_or(Ok(String::new()), |role| self.grants(role))?;
        Ok(format!("BEGIN;\n{}{grants}COMMIT;\n", self.definition()))
    }

    /// Returns the statements that turn the tables and functions of version 1 into those of this version, in one transaction,
    /// for `psql` or a migration of your own. Apply them as the owner of the schema. Programs go on: those of version 1 work
    /// with version 2.
    ///
    /// They wait for transactions that depend on leases, and requests wait for them meanwhile: set a `lock_timeout` of a moment
    /// before, and try again if it has passed, as [`Migration::apply`](crate::admin::Migration::apply) does.
    #[must_use]
    pub fn upgrade(&self) -> String {
        let lock = self.lock_for_upgrade();
        format!("BEGIN;\n{lock}{}COMMIT;\n", self.upgrade_definition())
    }

    /// Returns the statement that keeps requests from the tables of version 1.
    pub(crate) fn lock_for_upgrade(&self) -> String {
        self.fill("LOCK TABLE {schema}.lock, {schema}.holder, {schema}.waiter IN ACCESS EXCLUSIVE MODE;\n")
    }

    /// Returns the statements of the upgrade from version 1, without a transaction around them.
    pub(crate) fn upgrade_definition(&self) -> String {
        let functions = ALL_FUNCTIONS.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION");
        self.made_of([KEYS, FROM_1, &functions])
    }

    /// Returns the statements that create the tables and functions, without a transaction around them.
    pub(crate) fn definition(&self) -> String {
        self.made_of([KEYS, LEASES, ALL_FUNCTIONS])
    }

    fn made_of(&self, parts: [&str; 3]) -> String {
        let parts = parts.map(|part| self.fill(part)).join("\n");
        format!("{}\n{parts}\n{}", self.beginning(), self.private())
    }

    /// Returns the statement after which only the owner may call a function, except `oldest`.
    fn private(&self) -> String {
        let functions = FUNCTIONS.into_iter().chain([UNLOCK]).chain(PARTS);
        let functions: Vec<_> = functions.map(|it| format!("    {{schema}}.{it}")).collect();
        self.fill(&format!(
            "REVOKE ALL ON FUNCTION\n{}\n    FROM PUBLIC;\n",
            functions.join(",\n")
        ))
    }

    /// Returns the statements that create the schema, or check that it and everything in it belongs to this role. Until the end of
    /// the transaction, names without a schema are those of PostgreSQL.
    fn beginning(&self) -> String {
        let (schema, name) = (&self.quoted, literal(&self.name));
        let refusal = literal(&format!(
            "schema {schema} belongs to another role in part, or others may create in it; apply this as its owner, or give dlock a \
             schema of its own"
        ));
        format!(
            "SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = {name}) THEN
        CREATE SCHEMA {schema};
    ELSIF EXISTS (
        SELECT FROM pg_namespace n, pg_roles me
        WHERE n.nspname = {name} AND me.rolname = current_user AND (
            n.nspowner <> me.oid
            OR EXISTS (SELECT {OTHER_CREATORS})
            OR EXISTS (SELECT {OTHERS_PARTS}))) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = {refusal};
    END IF;
END $$;
"
        )
    }

    /// Returns the statements that grant a role what a manager needs: to call its functions, but not to touch its
    /// tables.
    ///
    /// ```
    /// use dlock_postgres::Schema;
    ///
    /// let grants = Schema::new("dlock")?.grants("shop")?;
    /// assert!(grants.contains("GRANT USAGE ON SCHEMA \"dlock\" TO \"shop\";"));
    /// assert!(!grants.contains("TABLE"));
    /// # Ok::<(), dlock_postgres::InvalidSchema>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no role can have this name.
    pub fn grants(&self, role: &str) -> Result<String, InvalidSchema> {
        let (schema, role) = (&self.quoted, quoted(role)?);
        let functions = FUNCTIONS.map(|function| format!("    {schema}.{function}"));
        Ok(format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role};\n\
             GRANT EXECUTE ON FUNCTION\n{}\n    TO {role};\n",
            functions.join(",\n")
        ))
    }

    /// Returns the statements that grant a role what the commands for operators need: to read the tables, and to call
    /// `unlock`.
    ///
    /// ```
    /// use dlock_postgres::Schema;
    ///
    /// let grants = Schema::new("dlock")?.operator_grants("operations")?;
    /// assert!(grants.contains("GRANT SELECT ON TABLE \"dlock\".turn"));
    /// # Ok::<(), dlock_postgres::InvalidSchema>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no role can have this name.
    pub fn operator_grants(&self, role: &str) -> Result<String, InvalidSchema> {
        let (schema, role) = (&self.quoted, quoted(role)?);
        let tables = TABLES.map(|table| format!("{schema}.{table}"));
        Ok(format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role};\n\
             GRANT SELECT ON TABLE {} TO {role};\n\
             GRANT EXECUTE ON FUNCTION {schema}.version(), {schema}.{UNLOCK} TO {role};\n",
            tables.join(", ")
        ))
    }

    /// Returns a message of PostgreSQL about a permission that `role` lacks, with what to do.
    pub(crate) fn denied(&self, message: &str, role: &str) -> String {
        let of_managers =
            "`Schema::grants`, or `dlock postgres migrate --role`, grants all that a manager needs";
        let lacking = message.strip_prefix("permission denied for ");
        let (kind, name) = lacking
            .and_then(|it| it.split_once(' '))
            .unwrap_or_default();
        let is_named = |function: &str| function.split('(').next() == Some(name);
        let schema = &self.quoted;
        let grant = match kind {
            "schema" => Some(format!("USAGE ON SCHEMA {schema}")),
            "function" => {
                let function = FUNCTIONS.iter().find(|it| is_named(it));
                function.map(|it| format!("EXECUTE ON FUNCTION {schema}.{it}"))
            }
            _ => None,
        };
        match (grant, quoted(role)) {
            (Some(grant), Ok(role)) => {
                format!("{message}; grant it with: GRANT {grant} TO {role}. {of_managers}")
            }
            _ if TABLES.contains(&name) || is_named(UNLOCK) => format!(
                "{message}; operators alone need it: grant it with `dlock postgres migrate --operator-role {role}`, or \
                 with the statements of `Schema::operator_grants`"
            ),
            _ => format!("{message}; {of_managers}"),
        }
    }

    /// Fills the name of the schema into a statement: `{schema}` as an identifier, `{name}` as a text.
    pub(crate) fn fill(&self, statement: &str) -> String {
        let statement = statement.replace("{schema}", &self.quoted);
        statement.replace("{name}", &literal(&self.name))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.name).finish()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns a text as statements contain it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(crate) fn quoted(name: &str) -> Result<String, InvalidSchema> {
    if name.is_empty() || name.len() > LONGEST || name.contains('\0') {
        return Err(InvalidSchema);
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_ends_its_quotes() {
        let schema = Schema::new("x\" CASCADE; --").unwrap();
        assert_eq!(schema.fill("{schema}.lock"), "\"x\"\" CASCADE; --\".lock");
        for bad in ["", "a\0b", "a$$b", &"x".repeat(64)] {
            assert_eq!(Schema::new(bad), Err(InvalidSchema));
        }
    }

    #[test]
    fn the_missing_permission_is_named() {
        let schema = Schema::new("locks").unwrap();
        for (name, advice) in [
            (
                "function release",
                "GRANT EXECUTE ON FUNCTION \"locks\".release(text, text) TO \"shop\"",
            ),
            (
                "schema locks",
                "GRANT USAGE ON SCHEMA \"locks\" TO \"shop\"",
            ),
            (
                "table holder",
                "dlock postgres migrate --operator-role shop",
            ),
            (
                "function unlock",
                "dlock postgres migrate --operator-role shop",
            ),
            ("function f", "dlock postgres migrate --role`"),
        ] {
            let denied = schema.denied(&format!("permission denied for {name}"), "shop");
            assert!(denied.contains(advice), "{denied}");
        }
        let other = schema.denied("permission denied", "shop");
        assert!(other.contains("`Schema::grants`"), "{other}");
    }

    #[test]
    fn every_function_is_named_in_permissions() {
        // A program that is too old for them has to be told so, whatever it was granted.
        let named = FUNCTIONS
            .into_iter()
            .chain([UNLOCK, "oldest()"])
            .chain(PARTS);
        let mut named: Vec<_> = named.map(|it| it.split('(').next().unwrap()).collect();
        let defined = ALL_FUNCTIONS.split("CREATE FUNCTION {schema}.").skip(1);
        let mut defined: Vec<_> = defined.map(|it| it.split('(').next().unwrap()).collect();
        named.sort_unstable();
        defined.sort_unstable();
        assert_eq!(named, defined);
        for (function, version) in [("version", VERSION), ("oldest", OLDEST)] {
            let defined = format!(
                "{function}() RETURNS integer\nLANGUAGE sql IMMUTABLE AS $$ SELECT {version} $$"
            );
            assert!(ALL_FUNCTIONS.contains(&defined), "{function}");
        }
    }

    #[test]
    fn a_name_of_63_bytes_is_the_longest() {
        assert!(Schema::new("x".repeat(63)).is_ok());
        assert!(Schema::new("\u{e4}".repeat(32)).is_err(), "64 bytes");
        assert_eq!(quoted("a\"b").unwrap(), "\"a\"\"b\"");
    }

    #[test]
    fn a_name_is_filled_in_as_an_identifier_and_as_a_text() {
        let schema = Schema::new("a'b\"c").unwrap();
        assert_eq!(schema.name(), "a'b\"c");
        assert_eq!(schema.to_string(), "a'b\"c");
        assert_eq!(format!("{schema:?}"), "Schema(\"a'b\\\"c\")");
        assert_eq!(
            schema.fill("{schema}.t, {name}"),
            "\"a'b\"\"c\".t, 'a''b\"c'"
        );
    }

    #[test]
    fn scripts_are_one_transaction_each_and_grant_what_they_were_asked_to() {
        let schema = Schema::new("locks").unwrap();
        let plain = schema.migration(None).unwrap();
        let granting = schema.migration(Some("shop")).unwrap();
        for script in [&plain, &granting, &schema.upgrade()] {
            assert!(script.starts_with("BEGIN;\n") && script.ends_with("COMMIT;\n"));
            assert!(!script.contains("{schema}") && !script.contains("{name}"));
        }
        let grants = schema.grants("shop").unwrap();
        assert!(
            !plain.contains("GRANT USAGE") && granting.ends_with(&format!("{grants}COMMIT;\n"))
        );
        assert!(schema.migration(Some("")).is_err() && schema.grants("").is_err());
        let operators = schema.operator_grants("ops").unwrap();
        assert_eq!(
            operators,
            "GRANT USAGE ON SCHEMA \"locks\" TO \"ops\";\n\
             GRANT SELECT ON TABLE \"locks\".turn, \"locks\".holder, \"locks\".waiter TO \"ops\";\n\
             GRANT EXECUTE ON FUNCTION \"locks\".version(), \"locks\".unlock(text, text, bigint) TO \"ops\";\n"
        );
        assert!(schema.operator_grants("").is_err());
    }
}
