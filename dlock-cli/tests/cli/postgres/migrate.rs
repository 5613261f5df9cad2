//! `dlock postgres migrate`, logins, and the permissions of roles.

use dlock_testkit::{PostgresOptions, PostgresServer};

use super::{Database, at};
use crate::{
    call,
    cases::{Place as _, json},
};

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'dlock'";

#[tokio::test]
async fn tables_are_created_once_and_then_found() {
    let database = Database::empty().await;
    let missing = database.call(&["ls"]).await.with(69);
    assert!(
        missing.stderr.contains("`dlock`") && missing.stderr.contains("dlock postgres migrate"),
        "{}",
        missing.stderr
    );
    let created = database.call(&["postgres", "migrate"]).await.with(0);
    assert_eq!(
        created.stdout,
        "Created the tables of dlock in schema `dlock`, version 2.\n"
    );
    let again = database.call(&["postgres", "migrate"]).await.with(0);
    assert!(
        again.stdout.contains("already, version 2"),
        "{}",
        again.stdout
    );
    let again = database
        .call(&["--json", "postgres", "migrate"])
        .await
        .with(0);
    let said = json(&again.stdout);
    assert_eq!(
        (&said["schema"], &said["outcome"], &said["version"]),
        (&"dlock".into(), &"already-there".into(), &2.into())
    );
    database.call(&["run", "job", "true"]).await.with(0);
    // Another schema has its own tables.
    let other = ["postgres", "migrate", "--schema", "Locks \"2\""];
    let created = database.call(&other).await.with(0);
    assert!(created.stdout.contains("Created"), "{}", created.stdout);
    assert!(created.stderr.contains("?schema="), "{}", created.stderr);
    let ran = database.call(&["--namespace", "Locks \"2\"", "run", "job", "true"]);
    ran.await.with(0);
}

#[tokio::test]
async fn two_migrations_at_once_create_the_tables_once() {
    let database = Database::empty().await;
    let words = ["--json", "postgres", "migrate"];
    let (one, other) = tokio::join!(database.call(&words), database.call(&words));
    let outcomes = [one, other].map(|it| json(&it.with(0).stdout)["outcome"].to_string());
    let mut outcomes = outcomes.to_vec();
    outcomes.sort();
    assert_eq!(outcomes, ["\"already-there\"", "\"created\""]);
}

#[tokio::test]
async fn printed_statements_are_those_that_are_applied() {
    let database = Database::empty().await;
    let role = database.role("app").await;
    // No server listens there: none is asked.
    let nowhere = "postgres://owner@127.0.0.1:1/nowhere";
    let printed = call(&mut at(
        nowhere,
        &["postgres", "migrate", "--print", "--role", &role],
    ))
    .await
    .with(0);
    database.execute(&printed.stdout).await;
    database
        .call_as(&role, &["run", "job", "true"])
        .await
        .with(0);
    let found = database.call(&["postgres", "migrate"]).await.with(0);
    assert!(
        found.stdout.contains("already, version 2"),
        "{}",
        found.stdout
    );
    let by_default = call(&mut at(
        "redis://localhost",
        &["postgres", "migrate", "--print"],
    ))
    .await;
    assert!(by_default.with(0).stdout.contains("\"dlock\".holder"));
    let refused = call(&mut at("redis://localhost", &["postgres", "migrate"]))
        .await
        .with(2);
    assert!(refused.stderr.contains("--print"), "{}", refused.stderr);
    let long = "x".repeat(64);
    let words = ["postgres", "migrate", "--print", "--role", &long];
    let refused = call(&mut at(nowhere, &words)).await.with(2);
    assert!(
        refused.stderr.contains("between 1 and 63 bytes"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn an_earlier_version_is_upgraded_or_its_upgrade_printed() {
    const VERSION_1: &str = include_str!("../../../../dlock-postgres/tests/fixtures/schema-1.sql");
    let old = format!("CREATE SCHEMA dlock; {VERSION_1}").replace("{schema}", "dlock");
    let database = Database::empty().await;
    database.execute(&old).await;
    database.call(&["run", "job", "true"]).await.with(0);
    let told = database.call(&["doctor"]).await.with(1);
    assert!(
        told.stdout.contains("dlock postgres migrate"),
        "{}",
        told.stdout
    );
    let upgraded = database
        .call(&["--json", "postgres", "migrate"])
        .await
        .with(0);
    let said = json(&upgraded.stdout);
    assert_eq!(
        (&said["outcome"], &said["from"], &said["version"]),
        (&"upgraded".into(), &1.into(), &2.into())
    );
    database.call(&["ls"]).await.with(0);

    let other = Database::empty().await;
    other.execute(&old).await;
    let printed = other.call(&["postgres", "migrate", "--print", "--from", "1"]);
    other.execute(&printed.await.with(0).stdout).await;
    let found = other.call(&["postgres", "migrate"]).await.with(0);
    assert!(
        found.stdout.contains("already, version 2"),
        "{}",
        found.stdout
    );
    let unknown = other.call(&["postgres", "migrate", "--print", "--from", "2"]);
    unknown.await.with(2);
}

#[tokio::test]
async fn another_version_is_refused_by_name() {
    let database = Database::new().await;
    let other = "CREATE OR REPLACE FUNCTION dlock.version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 3'";
    database.execute(other).await;
    let refused = database.call(&["postgres", "migrate"]).await.with(1);
    let listed = database.call(&["ls"]).await.with(69);
    for text in [refused.stderr, listed.stderr] {
        assert!(
            text.contains("schema `dlock` has version 3") && text.contains("update the program"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_migration_that_is_refused_leaves_nothing_and_says_what_to_do() {
    let database = Database::empty().await;
    let role = database.role("poor").await;
    let refused = database
        .call_as(&role, &["postgres", "migrate"])
        .await
        .with(1);
    for part in ["permission denied", "GRANT CREATE ON DATABASE", "--print"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(database.number(SCHEMAS).await, 0);

    let words = ["postgres", "migrate", "--role", "nobody_has_this_name"];
    let refused = database.call(&words).await.with(1);
    assert!(
        refused.stderr.contains("CREATE ROLE") && refused.stderr.contains("nobody_has_this_name"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        database.number(SCHEMAS).await,
        0,
        "all of it was rolled back"
    );

    database
        .execute("CREATE SCHEMA dlock; CREATE TABLE dlock.holder ()")
        .await;
    let refused = database.call(&["postgres", "migrate"]).await.with(1);
    assert!(
        refused.stderr.contains("choose another schema"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn exactly_the_permissions_of_operators_are_enough_for_them() {
    let database = Database::empty().await;
    let (operator, app) = (database.role("operator").await, database.role("app").await);
    let nobody = database.role("nobody").await;
    let words = [
        "postgres",
        "migrate",
        "--operator-role",
        &operator,
        "--role",
        &app,
    ];
    let granted = database.call(&words).await.with(0);
    assert!(
        granted
            .stdout
            .contains(&format!("permissions of `{app}`, `{operator}`")),
        "{}",
        granted.stdout
    );
    let guard = database
        .manager("billing")
        .await
        .lock("order:1")
        .acquire()
        .await
        .unwrap();
    for words in [&["ls"][..], &["inspect", "order:1"], &["top", "--once"]] {
        let shown = database.call_as(&operator, words).await.with(0);
        assert!(
            shown.stdout.contains("billing@"),
            "{words:?}: {}",
            shown.stdout
        );
    }
    let unlock = ["unlock", "-y", "order:1"];
    for (words, code) in [
        (&["ls"][..], 69),
        (&["inspect", "order:1"], 69),
        (&["top", "--once"], 69),
        (&unlock, 69),
        (&["run", "order:2", "true"], 69),
    ] {
        let refused = database.call_as(&nobody, words).await.with(code);
        assert!(
            refused.stderr.contains("permission denied") && refused.stderr.contains("GRANT USAGE"),
            "{words:?}: {}",
            refused.stderr
        );
    }
    guard.ensure_held().unwrap();
    let refused = database
        .call_as(&operator, &["run", "order:2", "true"])
        .await
        .with(69);
    assert!(
        refused.stderr.contains("permission denied"),
        "{}",
        refused.stderr
    );
    let refused = database.call_as(&app, &["ls"]).await.with(69);
    assert!(
        refused.stderr.contains("permission denied"),
        "{}",
        refused.stderr
    );
    database
        .call_as(&app, &["run", "order:2", "true"])
        .await
        .with(0);
    database.call_as(&operator, &unlock).await.with(0);
    guard.lost().await;
}

#[tokio::test]
async fn a_password_stands_in_the_environment_and_is_never_shown() {
    let access = "host all guest 127.0.0.1/32 scram-sha-256";
    let server = PostgresServer::start_with(PostgresOptions::new().access(access)).await;
    server
        .execute("CREATE USER guest SUPERUSER PASSWORD 'r1ght @&'")
        .await;
    let nameless = format!("postgres://127.0.0.1:{}/postgres", server.port());
    let named = server.url_of("guest", "postgres");
    for (url, user) in [(&nameless, Some("guest")), (&named, None)] {
        for variable in ["DLOCK_PASSWORD", "PGPASSWORD"] {
            let of = |password: &str, words: &[&str]| {
                let mut command = at(url, words);
                command.env(variable, password);
                if let Some(user) = user {
                    command.env("DLOCK_USER", user);
                }
                command
            };
            call(&mut of("r1ght @&", &["postgres", "migrate"]))
                .await
                .with(0);
            call(&mut of("r1ght @&", &["run", "job", "true"]))
                .await
                .with(0);
            let refused = call(&mut of("wr0ng", &["-vvv", "ls"])).await.with(69);
            assert!(
                refused.stderr.contains("check the user and the password")
                    && !refused.stderr.contains("wr0ng"),
                "{}",
                refused.stderr
            );
        }
    }
}
