//! Creates the tables and functions of dlock in a database, or upgrades them.

use std::time::Duration;

use dlock_runtime::{
    ConnectError,
    store::{StoreError, StoreErrorKind, StoreOptions},
};
use tokio::time::{Instant, sleep};
use tokio_postgres::{
    Client, Error, Row,
    types::{ToSql, Type},
};

use super::{
    link::{Connected, Purpose, connect, within},
    relied,
};
use crate::{
    InvalidSchema, Schema,
    config::Config,
    errors,
    schema::{OLDEST, VERSION, quoted},
    trust::{self, Owner},
};

/// At another level, the second of two migrations would not see what the first one has made.
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = pg_catalog, pg_temp";

const HAS_VERSION: &str =
    "SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proname = 'version')";

/// Two migrations at the same time wait for each other by this advisory lock. It is the ASCII of `dlock`.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(431316165483)";

/// How long an upgrade keeps requests waiting while it waits for the tables, and how long it leaves them alone after that.
const MOMENT: &str = "SET LOCAL lock_timeout = '200ms'";
const PAUSE: Duration = Duration::from_secs(1);

/// How long an upgrade tries to get the tables. Transactions that depend on leases keep it from them.
const PATIENCE: Duration = Duration::from_secs(60);

/// The statements that create the tables of dlock in a schema, with the permissions of some roles.
///
/// ```
/// use dlock_postgres::{Schema, admin::Migration};
///
/// let migration = Migration::new(Schema::new("dlock")?).role("shop")?.operator_role("operations")?;
/// let script = migration.script();
/// assert!(script.starts_with("BEGIN;") && script.ends_with("COMMIT;\n"));
/// assert!(script.contains("GRANT SELECT ON TABLE"));
/// # Ok::<(), dlock_postgres::InvalidSchema>(())
/// ```
#[derive(Clone, Debug)]
pub struct Migration {
    schema: Schema,
    grants: String,
}

/// The result of a [`Migration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Migrated {
    /// The tables were created.
    Created {
        /// The version of the schema.
        version: i32,
    },
    /// The tables were of an earlier version, and were upgraded.
    Upgraded {
        /// The version that was there.
        from: i32,
        /// The version of the schema.
        version: i32,
    },
    /// The tables were there. Only the permissions were granted.
    AlreadyThere {
        /// The version of the schema.
        version: i32,
    },
}

/// The reason why a [`Migration`] changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The URL is invalid, or the server cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The schema has a version of the tables that this program does not know.
    #[error("{0}")]
    OtherVersion(String),
    /// Transactions that depend on leases kept the upgrade from the tables for a minute.
    #[error("{0}")]
    Busy(String),
    /// The database refused a statement, and rolled all of them back.
    #[error("{0}")]
    Refused(String),
    /// The server did not answer, and it is unknown whether the tables were created. Apply the migration again.
    #[error("{0}; apply the migration again: it says what is there")]
    Unknown(StoreError),
}

impl Migration {
    /// Creates the migration of a schema, without permissions for other roles than the owner.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            grants: String::new(),
        }
    }

    /// Creates the migration of the schema that `url` names, or else the namespace of `options`.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL is invalid.
    pub fn for_url(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        Ok(Self::new(Config::parse(url, options)?.schema))
    }

    /// Adds the permissions that a process with locks needs.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no role can have this name.
    pub fn role(mut self, role: &str) -> Result<Self, InvalidSchema> {
        self.grants += &self.schema.grants(role)?;
        Ok(self)
    }

    /// Adds the permissions that operators need.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if no role can have this name.
    pub fn operator_role(mut self, role: &str) -> Result<Self, InvalidSchema> {
        self.grants += &self.schema.operator_grants(role)?;
        Ok(self)
    }

    /// Returns the schema.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the statements for an empty schema, in one transaction.
    #[must_use]
    pub fn script(&self) -> String {
        format!(
            "BEGIN;\n{}{}COMMIT;\n",
            self.schema.definition(),
            self.grants
        )
    }

    /// Returns the statements that upgrade version 1, in one transaction. [`Schema::upgrade`] says how to apply them.
    #[must_use]
    pub fn upgrade_script(&self) -> String {
        format!(
            "BEGIN;\n{}{}{}COMMIT;\n",
            self.schema.lock_for_upgrade(),
            self.schema.upgrade_definition(),
            self.grants
        )
    }

    /// Applies the migration to the database of `url` in one transaction: all of it, or nothing. Tables of an earlier version are
    /// upgraded while programs use them. If the tables are there already in this version, it grants the permissions only. It must
    /// be called on a runtime of tokio.
    ///
    /// An upgrade needs the tables for itself for a moment. While a transaction depends on a lease, it tries again every second,
    /// for a minute.
    ///
    /// # Errors
    ///
    /// [`MigrateError`]. Nothing was changed, except if it is [`Unknown`](MigrateError::Unknown).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all or none of the statements may have been applied.
    ///
    /// ```no_run
    /// use dlock_postgres::{Schema, admin::Migration};
    /// use dlock_runtime::store::StoreOptions;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let migration = Migration::new(Schema::new("dlock")?).role("shop")?;
    /// let url = "postgres://owner@db.internal/shop";
    /// println!("{:?}", migration.apply(url, &StoreOptions::default()).await?);
    /// # Ok(()) }
    /// ```
    pub async fn apply(&self, url: &str, options: &StoreOptions) -> Result<Migrated, MigrateError> {
        let mut config = Config::parse(url, options)?;
        config.schema = self.schema.clone();
        let connected = connect(&config, Purpose::Writing).await;
        let connected = connected.map_err(|reason| ConnectError::Unavailable {
            url: config.shown.clone(),
            reason,
        })?;
        let begun = Instant::now();
        loop {
            if let Some(migrated) = self.once(&config, &connected).await? {
                return Ok(migrated);
            }
            if begun.elapsed() > PATIENCE {
                return Err(MigrateError::Busy(self.busy(&config, &connected).await));
            }
            sleep(PAUSE).await;
        }
    }

    /// Applies the migration. Returns `None` if others use the tables that it has to change.
    async fn once(
        &self,
        config: &Config,
        connected: &Connected,
    ) -> Result<Option<Migrated>, MigrateError> {
        let client = &connected.client;
        let ask = async |statements: &str| {
            let asked = async { Ok(client.batch_execute(statements).await) };
            within(config, asked).await.map_err(MigrateError::Unknown)
        };
        let step = async |statements: &str| {
            let answered = ask(statements).await?;
            answered.map_err(|error| self.refused(&error))
        };
        step(BEGIN).await?;
        step(ONE_AT_A_TIME).await?;
        let version = VERSION;
        let migrated = match self.found(client).await? {
            None => {
                step(&self.schema.definition()).await?;
                Migrated::Created { version }
            }
            Some((VERSION, _)) => Migrated::AlreadyThere { version },
            Some((from, owner)) if (OLDEST..VERSION).contains(&from) => {
                // All of a schema belongs to one role.
                let owner = quoted(&owner.name).unwrap_or_default();
                step(&format!("SET LOCAL ROLE {owner}")).await?;
                step(MOMENT).await?;
                match ask(&self.schema.lock_for_upgrade()).await? {
                    Ok(()) => step(&self.schema.upgrade_definition()).await?,
                    Err(error) if is_busy(&error) => {
                        step("ROLLBACK").await?;
                        return Ok(None);
                    }
                    Err(error) => return Err(self.refused(&error)),
                }
                step("RESET ROLE").await?;
                Migrated::Upgraded { from, version }
            }
            Some((other, _)) => {
                let text = errors::other_version(&self.schema, other);
                return Err(MigrateError::OtherVersion(text));
            }
        };
        step(&self.grants).await?;
        step("COMMIT").await?;
        Ok(Some(migrated))
    }

    /// Says which transactions keep an upgrade from the tables.
    async fn busy(&self, config: &Config, connected: &Connected) -> String {
        let schema = &self.schema;
        let found = relied::relying(config, connected, "").await;
        let each = found.unwrap_or_default();
        let each: Vec<_> = each.iter().map(relied::Relying::described).collect();
        let seconds = PATIENCE.as_secs();
        format!(
            "the tables of dlock were not upgraded in schema `{schema}`: for {seconds} seconds, others had locked them; wait for \
             these transactions, or end them, and apply the migration again: {}",
            each.join("; ")
        )
    }

    /// Returns the version of the tables that are there, and whose they are.
    async fn found(&self, client: &Client) -> Result<Option<(i32, Owner)>, MigrateError> {
        let (schema, name) = (&self.schema, self.schema.name());
        let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&name, Type::TEXT)];
        let row = self.one(client, &trust::statement(), &parameters).await?;
        let Some(owner) = Owner::of(&row, schema).map_err(|error| self.untrusted(&error))? else {
            return Ok(None);
        };
        if let Some(distrust) = owner.distrust() {
            return Err(self.untrusted(&distrust));
        }
        // Whose functions these are, this role has not said.
        if !owner.is_self && !owner.is_superuser {
            return Err(MigrateError::Refused(format!(
                "schema `{schema}` belongs to role `{0}`; apply the migration as `{0}`, or choose another schema",
                owner.name
            )));
        }
        let row = self.one(client, HAS_VERSION, &parameters).await?;
        if !row.try_get(0).map_err(|error| self.refused(&error))? {
            return Ok(None);
        }
        let version = schema.fill("SELECT {schema}.version()");
        let row = self.one(client, &version, &[]).await?;
        let found = row.try_get(0).map_err(|error| self.refused(&error))?;
        Ok(Some((found, owner)))
    }

    async fn one(
        &self,
        client: &Client,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, MigrateError> {
        let asked = client.query_typed_one(statement, parameters).await;
        asked.map_err(|error| self.refused(&error))
    }

    fn untrusted(&self, reason: &StoreError) -> MigrateError {
        let schema = &self.schema;
        MigrateError::Refused(format!(
            "the tables of dlock were not created in schema `{schema}`: {reason}"
        ))
    }

    fn refused(&self, error: &Error) -> MigrateError {
        let Some(refusal) = error.as_db_error() else {
            return MigrateError::Unknown(StoreError::new(
                StoreErrorKind::Disconnected,
                error.to_string(),
            ));
        };
        let (schema, message) = (&self.schema, refusal.message());
        let advice = match refusal.code().code() {
            "42501" => {
                "apply it as the owner of the database or of the schema, or have it printed with `--print` for an \
                 administrator; `GRANT CREATE ON DATABASE … TO …` permits a role to create the schema"
                    .to_owned()
            }
            "42704" => "create the role first, with `CREATE ROLE … LOGIN`".to_owned(),
            "42P07" | "42723" | "42710" => format!(
                "schema `{schema}` has objects of the same names that are not dlock's: choose another schema"
            ),
            "25006" => "point dlock at the primary server, and not at a standby".to_owned(),
            code => format!("the code is {code}"),
        };
        MigrateError::Refused(format!(
            "the tables of dlock were not created in schema `{schema}`: {message}; {advice}"
        ))
    }
}

/// Whether the time limit for a lock has passed, or another session waits for this one.
fn is_busy(error: &Error) -> bool {
    let code = error.code().map(tokio_postgres::error::SqlState::code);
    matches!(code, Some("55P03" | "40P01"))
}
