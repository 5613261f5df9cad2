//! `dlock postgres`: creates the tables of dlock in a database.

use clap::{Args, Subcommand};
use dlock_postgres::{
    Schema,
    admin::{MigrateError, Migrated, Migration},
};
use serde_json::json;

use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    output,
};

/// Prepares a PostgreSQL database for locks
#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    #[command(subcommand)]
    command: PostgresCommand,
}

#[derive(Debug, Subcommand)]
enum PostgresCommand {
    Migrate(MigrateArgs),
}

/// Creates the tables of dlock, upgrades them, or prints the statements that do
///
/// All statements are one transaction. Tables of an earlier version are upgraded while programs
/// run. If the tables are there already in this version, only the permissions are granted. The
/// exit code is 1 if the schema has tables of a later version, the database refuses a statement,
/// or transactions keep an upgrade from the tables for a minute; then nothing was changed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct MigrateArgs {
    /// Prints the statements, and does not connect
    #[arg(long)]
    print: bool,
    /// Prints the statements that upgrade this version
    #[arg(long, value_name = "VERSION", requires = "print", value_parser = clap::value_parser!(i32).range(1..2))]
    from: Option<i32>,
    /// The schema; without it that of the URL, or else
    /// `--namespace`
    #[arg(long, verbatim_doc_comment, value_name = "NAME")]
    schema: Option<String>,
    /// Grants a role what processes with locks need
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Grants a role what `ls`, `inspect`, `watch`, `top`,
    /// `doctor` and `unlock` need
    #[arg(long, verbatim_doc_comment, value_name = "ROLE")]
    operator_role: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: PostgresArgs) -> Result<Exit, Failure> {
    let PostgresCommand::Migrate(args) = args.command;
    let migration = migration(global, &args)?;
    let schema = migration.schema().name().to_owned();
    if args.print {
        let script = match args.from {
            Some(_) => migration.upgrade_script(),
            None => migration.script(),
        };
        if global.json {
            output::document(&json!({ "schema": schema, "script": script }))?;
        } else {
            output::text(&script)?;
        }
        return Ok(Exit::Success);
    }
    if global.store().name() != "PostgreSQL" {
        let text = "the URL is not that of a PostgreSQL database. Set `--url postgres://user@host/database`, or add \
                    `--print`";
        return Err(Failure::new(Exit::Usage, text));
    }
    let migrated = migration.apply(&global.url, &global.options()?).await;
    let (outcome, version, from) = match migrated.map_err(failure)? {
        Migrated::Created { version } => ("created", version, None),
        Migrated::Upgraded { from, version } => ("upgraded", version, Some(from)),
        Migrated::AlreadyThere { version } => ("already-there", version, None),
        other => {
            return Err(Failure::new(
                Exit::Internal,
                format!("unknown outcome {other:?}"),
            ));
        }
    };
    if global.json {
        let document =
            json!({ "schema": schema, "outcome": outcome, "version": version, "from": from });
        output::document(&document)?;
    } else {
        output::line(&match (outcome, from) {
            ("created", _) => {
                format!("Created the tables of dlock in schema `{schema}`, version {version}.")
            }
            (_, Some(from)) => format!(
                "Upgraded the tables of dlock in schema `{schema}` from version {from} to version {version}."
            ),
            _ => {
                format!("The tables of dlock are in schema `{schema}` already, version {version}.")
            }
        })?;
        if !args.role.is_empty() || !args.operator_role.is_empty() {
            let roles: Vec<_> = args.role.iter().chain(&args.operator_role).collect();
            let roles: Vec<_> = roles.into_iter().map(|it| format!("`{it}`")).collect();
            output::line(&format!("Granted the permissions of {}.", roles.join(", ")))?;
        }
    }
    if schema != "dlock" && global.namespace != schema && args.schema.is_some() {
        let text = format!("name the schema in your URLs: `?schema={schema}`");
        note(global.json, &text);
    }
    Ok(Exit::Success)
}

fn migration(global: &Global, args: &MigrateArgs) -> Result<Migration, Failure> {
    let invalid = |option: &str, value: &str, error: &dyn std::fmt::Display| {
        let text = format!("invalid {option} `{value}`: {error}");
        Failure::new(Exit::Usage, text)
    };
    let mut migration = match &args.schema {
        Some(name) => {
            let schema = Schema::new(name.as_str());
            Migration::new(schema.map_err(|error| invalid("--schema", name, &error))?)
        }
        None if global.store().name() == "PostgreSQL" => {
            Migration::for_url(&global.url, &global.options()?)?
        }
        None => {
            let schema = Schema::new(global.namespace.as_str());
            let of = |error| invalid("--namespace", &global.namespace, &error);
            Migration::new(schema.map_err(of)?)
        }
    };
    for role in &args.role {
        migration = migration
            .role(role)
            .map_err(|error| invalid("--role", role, &error))?;
    }
    for role in &args.operator_role {
        migration = migration
            .operator_role(role)
            .map_err(|error| invalid("--operator-role", role, &error))?;
    }
    Ok(migration)
}

fn failure(error: MigrateError) -> Failure {
    match error {
        MigrateError::Connect(error) => error.into(),
        MigrateError::Unknown(_) => Failure::new(Exit::Unavailable, error.to_string()),
        _ => Failure::new(Exit::Negative, error.to_string()),
    }
}
