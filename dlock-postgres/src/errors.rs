//! The meaning of an error of PostgreSQL or of a connection for a lock.

use std::{error, io};

use dlock_net::{
    causes,
    tls::{TlsOptionNames, explained, tls_error},
};
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio_postgres::{
    Error, Row,
    error::{DbError, Severity, SqlState},
};
use tokio_rustls::rustls::{self, AlertDescription};

use crate::{
    calls::Failure,
    config::Config,
    hosts,
    schema::{OLDEST, Schema, VERSION, quoted},
};

/// The error of a request without an answer of its own.
pub(crate) fn of_failure(failure: &Failure, config: &Config) -> StoreError {
    let disconnected = |text: &str| StoreError::new(StoreErrorKind::Disconnected, text);
    match failure {
        Failure::Postgres(error) => of_request(error, config),
        Failure::OfOthers => disconnected(
            "the pooler gave the answer to another request: a client at it has sent several requests at once, which \
             PgBouncer 1.18 miscounts; use a newer pooler, or connect to the server itself",
        ),
        Failure::Unsent => disconnected("the connection was given up before").unsent(),
        Failure::Closed => disconnected("the store was closed"),
    }
}

/// The error of a request that was sent.
pub(crate) fn of_request(error: &Error, config: &Config) -> StoreError {
    match error.as_db_error() {
        Some(refusal) => of_answer(refusal, config),
        // Also if dlock itself has given the connection up, because the server was silent.
        None if error.is_closed() => StoreError::new(
            StoreErrorKind::Disconnected,
            "the connection was closed before the answer came",
        ),
        None => StoreError::new(StoreErrorKind::Disconnected, causes(error)),
    }
}

/// The error of a connection to this host that could not be made.
pub(crate) fn of_connecting(
    error: &Error,
    host: &tokio_postgres::Config,
    config: &Config,
) -> StoreError {
    let found = match error.as_db_error() {
        Some(refusal) => of_answer(refusal, config),
        None if is_about_tls(error) || is_refusal(error) => of_tls(error, host, config),
        None if is_about_login(error) => {
            StoreError::new(StoreErrorKind::Unauthenticated, causes(error))
        }
        None => StoreError::new(StoreErrorKind::Unreachable, causes(error)),
    };
    found.unsent()
}

/// Whether a pooler has refused the settings with which a connection begins: PgBouncer, or RDS Proxy.
pub(crate) fn refuses_settings(error: &Error) -> bool {
    let refusals = [
        (SqlState::PROTOCOL_VIOLATION, "startup parameter"),
        (SqlState::FEATURE_NOT_SUPPORTED, "command-line options"),
    ];
    error.as_db_error().is_some_and(|it| {
        let mut refusals = refusals.iter();
        refusals.any(|(code, words)| it.code() == code && it.message().contains(words))
    })
}

/// Whether the server has refused a prepared statement before executing it: it does not know the name, or the function
/// was replaced by one with another result.
pub(crate) fn is_forgotten(error: &Error) -> bool {
    let code = error.code();
    code.is_some_and(|code| {
        [
            SqlState::INVALID_SQL_STATEMENT_NAME,
            SqlState::FEATURE_NOT_SUPPORTED,
        ]
        .contains(code)
    })
}

/// Whether a request was undone because it has found another version of the tables than that of its functions: the tables were
/// upgraded under it.
pub(crate) fn is_of_upgrade(failure: &Failure) -> bool {
    let Failure::Postgres(error) = failure else {
        return false;
    };
    let of_tables = [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
    ];
    error.code().is_some_and(|it| of_tables.contains(it))
}

/// Whether a notice says that a request was cancelled while its commit waited for a synchronous standby. PostgreSQL reports
/// such a request as carried out.
pub(crate) fn is_not_replicated(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// Whether a request was undone because other sessions have locked what it needs.
pub(crate) fn is_lock_limit(failure: &Failure) -> bool {
    let Failure::Postgres(error) = failure else {
        return false;
    };
    error.as_db_error().is_some_and(is_of_lock_timeout)
}

/// The name of the place is in no language, unlike the message.
fn is_of_lock_timeout(refusal: &DbError) -> bool {
    *refusal.code() == SqlState::LOCK_NOT_AVAILABLE
        && refusal.routine() == Some("ProcessInterrupts")
}

fn of_answer(refusal: &DbError, config: &Config) -> StoreError {
    let message = refusal.message();
    let code = refusal.code();
    let schema = &config.schema;
    let (kind, text) = match code.code() {
        "55P03" if is_of_lock_timeout(refusal) => (
            StoreErrorKind::Refused,
            format!(
                "{message}: another session has locked rows or tables of schema `{schema}`; find it in `pg_locks`, and \
                 end its transaction"
            ),
        ),
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
            format!(
                "{message}; point dlock at the primary server, and not at a standby. Behind a pooler, also set \
                 `default_transaction_read_only` of the role and of the database to `off`"
            ),
        ),
        "57P03" => (
            StoreErrorKind::Loading,
            format!("{message}; wait until the server has started, or start it"),
        ),
        "22P05" => (
            StoreErrorKind::Unsupported,
            format!(
                "{message}; use a database with the encoding UTF8, or keys and labels in its own encoding"
            ),
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
            format!(
                "{message}; a manager needs two connections, and a third one at times: raise `max_connections`, or the \
                 `CONNECTION LIMIT` of the role or the database"
            ),
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
        "42501" => (StoreErrorKind::Denied, schema.denied(message, &config.role)),
        "3F000" | "42883" | "42P01" => (StoreErrorKind::Unsupported, missing(schema)),
        // The server ends the connection; the request may have been carried out before.
        "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => (
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

/// The error of a statement in a transaction of the user, with what to do. The text of another driver's error is shown
/// as it is.
pub(crate) fn of_transaction<D: error::Error + 'static>(error: &D) -> String {
    let error: &(dyn error::Error + 'static) = error;
    let Some(own) = error.downcast_ref::<Error>() else {
        return format!("{}; roll back the transaction", causes(error));
    };
    let Some(refusal) = own.as_db_error() else {
        return format!("{}; begin the transaction again", causes(own));
    };
    let advice = match refusal.code().code() {
        "40001" | "40P01" => "roll back, and begin the transaction again",
        "25006" => "begin a transaction that may write, on the primary server",
        "25P02" => "roll back: an earlier statement of the transaction has failed",
        "42501" => "`Schema::grants` of dlock-postgres has the statements that grant it",
        "3F000" | "42883" | "42P01" => {
            "use the database of the lock manager, and check that `Schema::migration` was executed there"
        }
        _ => "roll back the transaction",
    };
    let code = refusal.code().code();
    format!("{} ({code}); {advice}", refusal.message())
}

/// The advice for a schema that is not there.
pub(crate) fn missing(schema: &Schema) -> String {
    format!(
        "the tables of dlock are not in schema `{schema}`; execute `dlock postgres migrate`, or the statements of \
         `Schema::migration`"
    )
}

/// The statement whose row [`check`] and [`check_level`] judge.
pub(crate) const STATE: &str = "SELECT {schema}.version(), pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('dlock.connection', true)";

/// The setting by which a connection tells itself from others. A pooler that ignores settings, instead of refusing them,
/// is found by it.
pub(crate) const MARK: &str = "dlock.connection";

/// Returns the mark of a connection.
pub(crate) fn mark(row: &Row) -> Result<Option<String>, StoreError> {
    row.try_get(3).map_err(|error| unreadable(&error))
}

/// The version of the tables.
pub(crate) fn version(row: &Row) -> Result<i32, StoreError> {
    row.try_get(0).map_err(|error| unreadable(&error))
}

/// The statement whose row says for which programs tables of a later version are.
pub(crate) const OLDEST_PROGRAM: &str = "SELECT {schema}.oldest()";

/// Refuses tables that are not for this program. `oldest` is that of later tables.
pub(crate) fn check_version(
    schema: &Schema,
    version: i32,
    oldest: Option<i32>,
) -> Result<(), StoreError> {
    if (OLDEST..=VERSION).contains(&version) || oldest.is_some_and(|it| it <= VERSION) {
        return Ok(());
    }
    Err(of_version(schema, version))
}

/// The error for a schema of another version.
pub(crate) fn of_version(schema: &Schema, version: i32) -> StoreError {
    let text = other_version(schema, version);
    let error = StoreError::new(StoreErrorKind::Unsupported, text);
    error.with_advice().unsent()
}

/// Refuses a standby.
pub(crate) fn check(row: &Row) -> Result<(), StoreError> {
    if row.try_get(1).map_err(|error| unreadable(&error))? {
        let text = "the server is a standby; point dlock at the primary server";
        let error = StoreError::new(StoreErrorKind::ReadOnly, text);
        return Err(error.with_advice().unsent());
    }
    Ok(())
}

/// Refuses a connection whose transactions see an old snapshot: a request that has waited for the mutex of a key would
/// miss waiters, and wait for transactions of users. Only a pooler keeps dlock from choosing the level.
pub(crate) fn check_level(row: &Row, config: &Config) -> Result<(), StoreError> {
    let level: &str = row.try_get(2).map_err(|error| unreadable(&error))?;
    if level == "read committed" {
        return Ok(());
    }
    let role = quoted(&config.role).unwrap_or_default();
    let text = format!(
        "behind this pooler, transactions run at `{level}`, and dlock needs `read committed`; set it with: \
         ALTER ROLE {role} SET default_transaction_isolation = 'read committed'"
    );
    let error = StoreError::new(StoreErrorKind::Unsupported, text);
    Err(error.with_advice().unsent())
}

/// The error of an answer without a row.
pub(crate) fn no_row() -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, "the function returned no row")
}

/// The error of a row that is not of the expected form: a function of the user may have the name of one of dlock's.
pub(crate) fn unreadable(error: &Error) -> StoreError {
    StoreError::new(StoreErrorKind::BadAnswer, causes(error)).unsent()
}

/// The text about a schema of another version.
pub(crate) fn other_version(schema: &Schema, found: i32) -> String {
    let advice = if found < VERSION {
        "execute `dlock postgres migrate`, which upgrades them while programs run"
    } else {
        "update the program"
    };
    format!(
        "schema `{schema}` has version {found} of dlock's tables, and this program needs version {VERSION}; {advice}"
    )
}

fn is_about_tls(error: &Error) -> bool {
    error.to_string().contains("TLS") && !has_broken(error)
}

fn of_tls(error: &Error, host: &tokio_postgres::Config, config: &Config) -> StoreError {
    let explained = tls_error(error).and_then(|fault| {
        let host = hosts::name(host);
        explained(fault, &host, config.client, TlsOptionNames::SSL)
    });
    let text = explained.unwrap_or_else(|| {
        let text = causes(error);
        format!("{text}; enable TLS in the server with `ssl = on`, or remove `sslmode=require` from the URL")
    });
    StoreError::new(StoreErrorKind::Tls, text).with_advice()
}

/// Returns `true` if the server has refused the client's certificate. It looks at it only when the handshake is over for the client.
fn is_refusal(error: &(dyn error::Error + 'static)) -> bool {
    matches!(
        tls_error(error),
        Some(rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::DecryptError,
        ))
    )
}

/// Returns `true` if the other end has closed the connection, which it does for many reasons.
fn has_broken(error: &dyn error::Error) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(
            kind,
            Some(
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            )
        )
    })
}

fn is_about_login(error: &Error) -> bool {
    // That the password is missing is the cause of an error about the configuration.
    let text = causes(error);
    text.contains("password missing") || text.contains("authentication")
}

#[cfg(test)]
mod tests;
