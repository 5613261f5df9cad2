//! Whose a schema is: asked before anything in it is called or read.
//!
//! Any role that may create schemas in a database can make the one of dlock before dlock does, with functions and triggers that
//! run with the permissions of those who call or write. So the catalogs are read first, which runs nothing of others.
//!
//! # Rules
//!
//! - **Safety.** All that is in a schema belongs to the owner of the schema, and no other role may create anything in it:
//!   functions that run with the permissions of the owner would call it.
//!   (`a_schema_with_parts_of_two_owners_is_refused`, `a_schema_in_which_others_may_create_is_refused`)
//! - **Safety.** A role calls nothing of a role with fewer permissions. (`a_superuser_calls_nothing_of_a_plain_role`)

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio_postgres::{Error, Row};

use crate::{
    errors,
    schema::{OTHER_CREATORS, OTHERS_PARTS, Schema},
};

/// The statement that asks for the schema with the name `$1`, and has one row. `{number}` may be one more column. Everything
/// is named with its schema, or has exactly the types of its operands: nothing of another schema fits better.
const OWNER: &str = "
    SELECT pg_catalog.min(o.rolname::pg_catalog.text),
           coalesce(pg_catalog.bool_or(o.rolsuper), false),
           coalesce(pg_catalog.bool_or(m.oid = o.oid), false),
           coalesce(pg_catalog.bool_or(m.rolsuper AND NOT o.rolsuper
               OR m.rolcreaterole AND NOT o.rolcreaterole AND NOT o.rolsuper), false),
           pg_catalog.min((
               SELECT pg_catalog.min(pg_catalog.format('`%s` in it belongs to role `%s`', x.name, r.rolname))
               {others_parts})),
           pg_catalog.min((
               SELECT pg_catalog.min(coalesce(pg_catalog.quote_ident(r.rolname::pg_catalog.text), 'PUBLIC'))
               {other_creators}))
           {number}
    FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
    JOIN pg_catalog.pg_roles m ON m.rolname = current_user
    WHERE n.nspname = $1";

/// The owner of a schema.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) name: String,
    #[cfg(feature = "admin")]
    pub(crate) is_superuser: bool,
    /// `true` if it is the role of the connection.
    #[cfg(feature = "admin")]
    pub(crate) is_self: bool,
    /// The reason why nothing in the schema is called or read, with what to do.
    distrust: Option<String>,
}

/// Returns the statement whose row [`Owner::of`] reads. Its parameter is the name of the schema as a `text`.
#[cfg(feature = "admin")]
pub(crate) fn statement() -> String {
    filled("")
}

/// Returns it with a second parameter, which is the last column.
pub(crate) fn numbered() -> String {
    filled(", $2")
}

fn filled(number: &str) -> String {
    let statement = OWNER.replace("{number}", number);
    statement
        .replace("{others_parts}", OTHERS_PARTS)
        .replace("{other_creators}", OTHER_CREATORS)
}

impl Owner {
    /// Reads the answer: `None` if there is no such schema.
    pub(crate) fn of(row: &Row, schema: &Schema) -> Result<Option<Self>, StoreError> {
        Self::read(row, schema).map_err(|error| errors::unreadable(&error))
    }

    fn read(row: &Row, schema: &Schema) -> Result<Option<Self>, Error> {
        let Some(name) = row.try_get(0)? else {
            return Ok(None);
        };
        let mut owner = Self {
            name,
            #[cfg(feature = "admin")]
            is_superuser: row.try_get(1)?,
            #[cfg(feature = "admin")]
            is_self: row.try_get(2)?,
            distrust: None,
        };
        let is_weaker: bool = row.try_get(3)?;
        let foreign: Option<String> = row.try_get(4)?;
        let creator: Option<String> = row.try_get(5)?;
        owner.distrust = owner.judged(schema, is_weaker, foreign, creator);
        Ok(Some(owner))
    }

    fn judged(
        &self,
        schema: &Schema,
        is_weaker: bool,
        foreign: Option<String>,
        creator: Option<String>,
    ) -> Option<String> {
        let name = &self.name;
        if let Some(foreign) = foreign {
            return Some(format!(
                "schema `{schema}` belongs to role `{name}`, but {foreign}, and would run with the permissions of others; \
                 find out who has put it there, and give dlock a schema of its own"
            ));
        }
        if let Some(creator) = creator {
            let quoted = schema.fill("{schema}");
            return Some(format!(
                "{creator} may create functions in schema `{schema}`, which run with the permissions of others; execute: \
                 REVOKE CREATE ON SCHEMA {quoted} FROM {creator}"
            ));
        }
        is_weaker.then(|| {
            format!(
                "schema `{schema}` belongs to role `{name}`, whose functions would run with the greater permissions of this \
                 role; connect as `{name}`, or as a role to which `dlock postgres migrate` has granted permissions with \
                 `--role` or `--operator-role`"
            )
        })
    }

    /// Returns the reason why nothing in the schema may be called or read.
    pub(crate) fn distrust(&self) -> Option<StoreError> {
        let text = self.distrust.as_ref()?;
        let error = StoreError::new(StoreErrorKind::Denied, text.clone());
        Some(error.with_advice().unsent())
    }

    /// Returns the error for a schema that is missing, or not to be trusted.
    pub(crate) fn trusted(found: Option<Self>, schema: &Schema) -> Result<Self, StoreError> {
        let Some(owner) = found else {
            let error = StoreError::new(StoreErrorKind::Unsupported, errors::missing(schema));
            return Err(error.with_advice().unsent());
        };
        owner.distrust().map_or(Ok(owner), Err)
    }
}
