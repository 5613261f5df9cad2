//! The schema with the tables and functions of the locks: its name, its version, and the statements that make it.

use std::fmt;

/// The version of the tables and functions, which [`version()`](self) of a schema returns.
pub(crate) const VERSION: i32 = 1;

const DEFINITION: &str = include_str!("schema.sql");

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

/// The tables that the commands for operators read.
pub(crate) const TABLES: [&str; 3] = ["lock", "holder", "waiter"];

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

/// The name of a schema or role is empty, too long, or has a NUL.
///
/// ```
/// use dlock_postgres::Schema;
///
/// let error = Schema::new("").unwrap_err();
/// assert!(error.to_string().contains("between 1 and 63 bytes"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name in PostgreSQL has between 1 and 63 bytes and no NUL character")]
#[non_exhaustive]
pub struct InvalidSchema;

impl Schema {
    /// Creates the name of a schema. Any name of PostgreSQL will do, it is quoted in statements.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no schema can have this name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidSchema> {
        let name = name.into();
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

    /// Returns the statements that create the tables and functions, without a transaction around them.
    pub(crate) fn definition(&self) -> String {
        let (schema, definition) = (&self.quoted, self.fill(DEFINITION));
        format!(
            "CREATE SCHEMA IF NOT EXISTS {schema};\n\n{definition}\n\
             REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;\n"
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
    /// assert!(grants.contains("GRANT SELECT ON TABLE \"dlock\".lock"));
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

    /// Fills the name of the schema into a statement.
    pub(crate) fn fill(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.quoted)
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
        for bad in ["", "a\0b", &"x".repeat(64)] {
            assert_eq!(Schema::new(bad), Err(InvalidSchema));
        }
    }

    #[test]
    fn every_function_that_is_granted_is_defined() {
        for function in FUNCTIONS {
            let name = function.split('(').next().unwrap();
            assert!(
                DEFINITION.contains(&format!("CREATE FUNCTION {{schema}}.{name}(")),
                "{name}"
            );
        }
        assert!(DEFINITION.contains(&format!("$$ SELECT {VERSION} $$")));
    }
}
