use std::{error, fmt};

use dlock_runtime::store::StoreOptions;
use dlock_testkit::PostgresServer;
use tokio_postgres::Client;

use super::*;

fn config() -> Config {
    let url = "postgres://shop:secret@db/shop?schema=locks";
    Config::parse(url, &StoreOptions::default()).unwrap()
}

/// A connection, whose errors are those of a server.
async fn connected() -> Client {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    server.client(&name).await
}

/// The error of a statement that the server refuses with this code.
async fn refused(client: &Client, code: &str) -> Error {
    refused_with(client, code, "so it is").await
}

async fn refused_with(client: &Client, code: &str, message: &str) -> Error {
    let raise = format!(
        "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = '{message}'; END $$"
    );
    client.batch_execute(&raise).await.unwrap_err()
}

/// Codes, what they mean for a lock, and what is said of them.
const REFUSALS: [(&str, StoreErrorKind, &str); 21] = {
    use StoreErrorKind::{
        Denied, Disconnected, Loading, OutOfMemory, ReadOnly, Refused, Unauthenticated,
        Unreachable, Unsupported,
    };
    [
        (
            "55P03",
            Refused,
            "a transaction that has fenced the lease is still open; it ends with the transaction",
        ),
        (
            "40001",
            Refused,
            "PostgreSQL has undone the request: so it is; it is repeated",
        ),
        (
            "40P01",
            Refused,
            "PostgreSQL has undone the request: so it is; it is repeated",
        ),
        (
            "57014",
            Refused,
            "PostgreSQL has undone the request: so it is; it is repeated",
        ),
        (
            "25006",
            ReadOnly,
            "so it is; point dlock at the primary server, and not at a standby. Behind a pooler, also set \
          `default_transaction_read_only` of the role and of the database to `off`",
        ),
        (
            "57P03",
            Loading,
            "so it is; wait until the server has started, or start it",
        ),
        (
            "22P05",
            Unsupported,
            "so it is; use a database with the encoding UTF8, or keys and labels in its own encoding",
        ),
        (
            "53100",
            Refused,
            "so it is; free space on the server's disk",
        ),
        (
            "53200",
            OutOfMemory,
            "so it is; give the server more memory",
        ),
        (
            "53300",
            Unreachable,
            "so it is; a manager needs two connections, and a third one at times: raise `max_connections`, \
          or the `CONNECTION LIMIT` of the role or the database",
        ),
        (
            "28P01",
            Unauthenticated,
            "so it is; check the user and the password in the URL",
        ),
        (
            "28000",
            Unauthenticated,
            "so it is; check `pg_hba.conf`, and add `sslmode=require` to the URL if the server wants TLS",
        ),
        (
            "3D000",
            Unsupported,
            "so it is; create it, or correct the URL",
        ),
        (
            "42501",
            Denied,
            "so it is; `Schema::grants`, or `dlock postgres migrate --role`, grants all that a manager needs",
        ),
        (
            "3F000",
            Unsupported,
            "the tables of dlock are not in schema `locks`; execute `dlock postgres migrate`, or the statements \
          of `Schema::migration`",
        ),
        (
            "42883",
            Unsupported,
            "the tables of dlock are not in schema `locks`; execute `dlock postgres migrate`, or the statements \
          of `Schema::migration`",
        ),
        (
            "42P01",
            Unsupported,
            "the tables of dlock are not in schema `locks`; execute `dlock postgres migrate`, or the statements \
          of `Schema::migration`",
        ),
        (
            "57P01",
            Disconnected,
            "the server ended the connection: so it is",
        ),
        (
            "57P05",
            Disconnected,
            "the server ended the connection: so it is",
        ),
        (
            "25P03",
            Disconnected,
            "the server ended the connection: so it is",
        ),
        ("P0001", Refused, "so it is (P0001)"),
    ]
};

#[tokio::test]
async fn a_refusal_has_a_kind_says_what_to_do_and_has_changed_nothing() {
    let (client, config) = (connected().await, config());
    for (code, kind, says) in REFUSALS {
        let error = of_request(&refused(&client, code).await, &config);
        assert_eq!((error.kind(), &*error.to_string()), (kind, says), "{code}");
        assert!(error.has_no_effect(), "{code}: it was rolled back");
    }
}

#[tokio::test]
async fn a_refusal_is_told_from_others_by_its_code() {
    let client = connected().await;
    for (code, forgotten, upgraded) in [
        ("26000", true, false),
        ("0A000", true, false),
        ("42P01", false, true),
        ("42703", false, true),
        ("42883", false, true),
        ("55P03", false, false),
        ("08P01", false, false),
    ] {
        let error = refused(&client, code).await;
        assert_eq!(is_forgotten(&error), forgotten, "{code}");
        // A pooler names what it refuses.
        assert!(!refuses_settings(&error), "{code}");
        let failure = Failure::from(error);
        assert!(failure.is_of_server(), "{code}");
        assert_eq!(is_of_upgrade(&failure), upgraded, "{code}");
        // The same code has a row that a transaction depends on.
        assert!(!is_lock_limit(&failure), "{code}");
    }
    for failure in [Failure::OfOthers, Failure::Unsent, Failure::Closed] {
        let is_any = is_of_upgrade(&failure) || is_lock_limit(&failure) || failure.is_of_server();
        assert!(!is_any, "{failure:?}");
    }
}

/// The connection is then made without them.
#[tokio::test]
async fn a_pooler_that_refuses_settings_is_known_by_its_code_and_its_words() {
    let client = connected().await;
    let of_pgbouncer = "unsupported startup parameter in options: statement_timeout";
    let of_rds_proxy =
        "Feature not supported: RDS Proxy currently doesn\u{2019}t support command-line options.";
    for (code, message, refuses) in [
        ("08P01", of_pgbouncer, true),
        ("08P01", "unsupported startup parameter: options", true),
        ("0A000", of_rds_proxy, true),
        // The words of one with the code of the other, and other errors of these codes.
        ("0A000", of_pgbouncer, false),
        ("08P01", of_rds_proxy, false),
        ("08P01", "invalid message format", false),
        ("0A000", "cached plan must not change result type", false),
        ("42501", of_rds_proxy, false),
    ] {
        let error = refused_with(&client, code, message).await;
        assert_eq!(refuses_settings(&error), refuses, "{code}: {message}");
    }
}

#[tokio::test]
async fn a_wait_for_a_lock_that_was_too_long_names_where_to_look() {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    let (client, other) = (server.client(&name).await, server.client(&name).await);
    other.batch_execute("CREATE TABLE t ()").await.unwrap();
    other.batch_execute("BEGIN; LOCK TABLE t").await.unwrap();
    let limit = "SET lock_timeout = '10ms'";
    client.batch_execute(limit).await.unwrap();
    let waits = "SELECT FROM t";
    let error = client.batch_execute(waits).await.unwrap_err();
    let told = of_request(&error, &config());
    assert_eq!(told.kind(), StoreErrorKind::Refused);
    let says = "another session has locked rows or tables of schema `locks`; find it in `pg_locks`, and end its transaction";
    assert!(told.to_string().ends_with(says), "{told}");
    assert!(is_lock_limit(&error.into()));
}

#[tokio::test]
async fn after_the_end_of_a_connection_the_outcome_is_unknown() {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    let config = config();
    let (client, admin) = (server.client(&name).await, server.client(&name).await);
    let pid: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);
    let sleeping =
        tokio::spawn(async move { (client.batch_execute("SELECT pg_sleep(600)").await, client) });
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%'";
    dlock_testkit::eventually(
        std::time::Duration::from_secs(30),
        "it sleeps",
        async || {
            admin
                .query_one(end, &[&pid])
                .await
                .unwrap()
                .get::<_, i64>(0)
                == 1
        },
    )
    .await;
    let (ended, client) = sleeping.await.unwrap();
    let told = of_request(&ended.unwrap_err(), &config);
    assert_eq!(told.kind(), StoreErrorKind::Disconnected);
    assert!(
        told.to_string()
            .starts_with("the server ended the connection: "),
        "{told}"
    );
    assert!(
        !told.has_no_effect(),
        "broken promise: a request may have been carried out"
    );

    let closed = client.batch_execute("SELECT 1").await.unwrap_err();
    let failure = Failure::from(closed);
    assert!(!failure.is_of_server());
    let told = of_failure(&failure, &config);
    assert_eq!(
        told.message(),
        "the connection was closed before the answer came"
    );
    assert!(!told.has_no_effect());
    let Failure::Postgres(closed) = failure else {
        unreachable!()
    };
    let told = of_transaction(&closed);
    assert!(told.ends_with("; begin the transaction again"), "{told}");
}

#[test]
fn a_request_without_an_answer_says_why() {
    let config = config();
    for (failure, says, is_unsent) in [
        (
            Failure::OfOthers,
            "the pooler gave the answer to another request: a client at it has sent several requests at once, which PgBouncer \
             1.18 miscounts; use a newer pooler, or connect to the server itself",
            false,
        ),
        (Failure::Unsent, "the connection was given up before", true),
        (Failure::Closed, "the store was closed", false),
    ] {
        let told = of_failure(&failure, &config);
        assert_eq!(told.kind(), StoreErrorKind::Disconnected);
        assert_eq!(told.message(), says);
        assert_eq!(told.has_no_effect(), is_unsent, "{says}");
    }
}

#[tokio::test]
async fn an_error_in_a_transaction_of_the_user_says_what_to_do_with_it() {
    let client = connected().await;
    let of_tables = "use the database of the lock manager, and check that `Schema::migration` was executed there";
    for (code, advice) in [
        ("40001", "roll back, and begin the transaction again"),
        ("40P01", "roll back, and begin the transaction again"),
        (
            "25006",
            "begin a transaction that may write, on the primary server",
        ),
        (
            "25P02",
            "roll back: an earlier statement of the transaction has failed",
        ),
        (
            "42501",
            "`Schema::grants` of dlock-postgres has the statements that grant it",
        ),
        ("3F000", of_tables),
        ("42883", of_tables),
        ("42P01", of_tables),
        ("57014", "roll back the transaction"),
    ] {
        let told = of_transaction(&refused(&client, code).await);
        assert_eq!(told, format!("so it is ({code}); {advice}"));
    }
    let other = Caused(
        "the driver has failed",
        Some(Box::new(Caused("no route", None))),
    );
    assert_eq!(
        of_transaction(&other),
        "the driver has failed: no route; roll back the transaction"
    );
}

/// An error with a cause.
#[derive(Debug)]
struct Caused(&'static str, Option<Box<dyn error::Error>>);

impl fmt::Display for Caused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl error::Error for Caused {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.1.as_deref()
    }
}

fn caused_by(cause: impl error::Error + 'static) -> Caused {
    let middle = Caused("in the middle", Some(Box::new(cause)));
    Caused("outside", Some(Box::new(middle)))
}

#[test]
fn a_refused_certificate_is_found_among_the_causes_and_other_alerts_are_not() {
    let of = |received| {
        let inner = rustls::Error::AlertReceived(received);
        is_refusal(&caused_by(io::Error::new(
            io::ErrorKind::InvalidData,
            inner,
        )))
    };
    for about_certificates in [
        AlertDescription::BadCertificate,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::CertificateExpired,
        AlertDescription::CertificateUnknown,
        AlertDescription::CertificateRequired,
        AlertDescription::UnknownCA,
        AlertDescription::AccessDenied,
        AlertDescription::DecryptError,
    ] {
        assert!(of(about_certificates));
    }
    assert!(!of(AlertDescription::CloseNotify));
    assert!(!of(AlertDescription::HandshakeFailure));
    assert!(!is_refusal(&caused_by(io::Error::other("no alert"))));
    let silent = io::Error::from(io::ErrorKind::TimedOut);
    assert!(!is_refusal(&caused_by(silent)));
}

#[test]
fn an_end_by_the_other_side_is_found_among_the_causes() {
    for (kind, has_broken_off) in [
        (io::ErrorKind::UnexpectedEof, true),
        (io::ErrorKind::ConnectionReset, true),
        (io::ErrorKind::ConnectionAborted, true),
        (io::ErrorKind::BrokenPipe, true),
        (io::ErrorKind::InvalidData, false),
        (io::ErrorKind::ConnectionRefused, false),
    ] {
        assert_eq!(
            has_broken(&caused_by(io::Error::from(kind))),
            has_broken_off,
            "{kind}"
        );
    }
    assert!(!has_broken(&Caused("without a cause", None)));
}

#[test]
fn tables_are_for_programs_of_their_version_and_for_those_that_they_name() {
    let schema = Schema::new("locks").unwrap();
    for (version, oldest, is_right) in [
        (OLDEST - 1, None, false),
        (OLDEST, None, true),
        (VERSION, None, true),
        (VERSION + 1, Some(VERSION + 1), false),
        (VERSION + 1, Some(VERSION), true),
        (VERSION + 1, Some(VERSION - 1), true),
    ] {
        let checked = check_version(&schema, version, oldest);
        assert_eq!(checked.is_ok(), is_right, "{version}, {oldest:?}");
    }
    for (version, advice) in [
        (
            VERSION - 1,
            "execute `dlock postgres migrate`, which upgrades them while programs run",
        ),
        (VERSION + 1, "update the program"),
    ] {
        let told = of_version(&schema, version);
        assert_eq!(
            told.to_string(),
            format!(
                "schema `locks` has version {version} of dlock's tables, and this program needs version {VERSION}; {advice}"
            )
        );
        assert!(told.has_no_effect() && told.is_final());
    }
}
