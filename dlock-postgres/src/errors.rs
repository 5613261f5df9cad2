//! What an error of PostgreSQL or of a connection means for a lock.

use std::error::Error as _;

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

use crate::schema::{Schema, VERSION};

/// The error of a request that was sent.
pub(crate) fn of_request(error: &Error, schema: &Schema) -> StoreError {
    match error.as_db_error() {
        Some(refusal) => of_answer(refusal, schema),
        None => StoreError::new(StoreErrorKind::Disconnected, cause(error)),
    }
}

/// The error of a connection that could not be made.
pub(crate) fn of_connecting(error: &Error, schema: &Schema) -> StoreError {
    let found = match error.as_db_error() {
        Some(refusal) => of_answer(refusal, schema),
        None if is_about_tls(error) => StoreError::new(StoreErrorKind::Tls, cause(error)),
        None if is_about_login(error) => {
            StoreError::new(StoreErrorKind::Unauthenticated, cause(error))
        }
        None => StoreError::new(StoreErrorKind::Unreachable, cause(error)),
    };
    found.unsent()
}

/// Whether a pooler has refused the settings with which a connection begins.
pub(crate) fn refuses_settings(error: &Error) -> bool {
    let refusal = error.as_db_error();
    refusal.is_some_and(|it| {
        *it.code() == SqlState::PROTOCOL_VIOLATION && it.message().contains("startup parameter")
    })
}

fn of_answer(refusal: &DbError, schema: &Schema) -> StoreError {
    let message = refusal.message();
    let code = refusal.code();
    let (kind, text) = match code.code() {
        "55P03" => (
            StoreErrorKind::Refused,
            "a transaction that has fenced the lease is still open; it ends with the transaction"
                .to_owned(),
        ),
        "40001" | "40P01" | "57014" => (
            StoreErrorKind::Refused,
            format!("PostgreSQL has undone the request: {message}; it is repeated"),
        ),
        "25006" => (
            StoreErrorKind::ReadOnly,
            format!("{message}; point dlock at the primary server, and not at a standby"),
        ),
        "57P03" => (
            StoreErrorKind::Loading,
            format!("{message}; wait until the server has started"),
        ),
        "53100" => (
            StoreErrorKind::Refused,
            format!("{message}; free space on the server's disk"),
        ),
        "53200" => (
            StoreErrorKind::OutOfMemory,
            format!("{message}; give the server more memory"),
        ),
        "53300" => (
            StoreErrorKind::Unreachable,
            format!("{message}; raise `max_connections`: a manager needs two connections"),
        ),
        "28P01" => (
            StoreErrorKind::Unauthenticated,
            format!("{message}; check the user and the password in the URL"),
        ),
        "28000" => (
            StoreErrorKind::Unauthenticated,
            format!(
                "{message}; check `pg_hba.conf`, and add `sslmode=require` to the URL if the server wants TLS"
            ),
        ),
        "3D000" => (
            StoreErrorKind::Unsupported,
            format!("{message}; create it, or correct the URL"),
        ),
        "42501" => (
            StoreErrorKind::Denied,
            format!(
                "{message}; grant it with the statements of `Schema::grants`, or with `dlock postgres migrate --role`; \
                 operators need `Schema::operator_grants`, or `--operator-role`"
            ),
        ),
        "3F000" | "42883" | "42P01" => (StoreErrorKind::Unsupported, missing(schema)),
        // The server ends the connection; the request may have been carried out before.
        "57P01" | "57P02" | "57P05" | "25P03" => (
            StoreErrorKind::Disconnected,
            format!("the server ended the connection: {message}"),
        ),
        _ => (
            StoreErrorKind::Refused,
            format!("{message} ({})", code.code()),
        ),
    };
    let error = StoreError::new(kind, text).with_advice();
    match refusal.parsed_severity() {
        // PostgreSQL rolls back a statement that it refuses.
        Some(Severity::Error) => error.without_effect(),
        _ => error,
    }
}

/// The advice for a schema that is not there.
pub(crate) fn missing(schema: &Schema) -> String {
    format!(
        "the tables of dlock are not in schema `{schema}`; execute `dlock postgres migrate`, or the statements of \
         `Schema::migration`"
    )
}

/// Refuses a schema of another version, and a standby.
pub(crate) fn check(schema: &Schema, version: i32, is_standby: bool) -> Result<(), StoreError> {
    let refusal = if version != VERSION {
        let text = other_version(schema, version);
        StoreError::new(StoreErrorKind::Unsupported, text)
    } else if is_standby {
        let text = "the server is a standby; point dlock at the primary server";
        StoreError::new(StoreErrorKind::ReadOnly, text)
    } else {
        return Ok(());
    };
    Err(refusal.with_advice().unsent())
}

/// The text about a schema of another version.
pub(crate) fn other_version(schema: &Schema, found: i32) -> String {
    let advice = if found < VERSION {
        "the tables have to be made anew"
    } else {
        "update the program"
    };
    format!(
        "schema `{schema}` has version {found} of dlock's tables, and this program needs version {VERSION}; {advice}"
    )
}

fn is_about_tls(error: &Error) -> bool {
    error.to_string().contains("TLS")
}

fn is_about_login(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("password missing") || text.contains("authentication")
}

/// The innermost causes as well: the text of the outer error says only where it happened.
fn cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
