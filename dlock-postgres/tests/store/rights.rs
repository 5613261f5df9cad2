//! Other roles of the database: no function that they have put into the schema is called, and the migration leaves the permissions of
//! theirs.

use dlock_admin::Inspect as _;
use dlock_postgres::{
    Postgres, Schema,
    admin::{MigrateError, Migrated, Migration, PostgresInspector},
};
use dlock_runtime::{LockManager, store::StoreOptions};
use dlock_testkit::PostgresServer;
use tokio_postgres::Client;

use crate::database::DEADLINE;

/// Gives the permissions of a superuser to the role `{mallory}`, if the caller can.
const SEIZE: &str = "IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
                         EXECUTE 'ALTER ROLE {mallory} SUPERUSER';
                     END IF;";

/// A database without dlock's tables, in which `mallory` may create schemas.
struct Shared {
    server: &'static PostgresServer,
    name: String,
    admin: Client,
}

impl Shared {
    async fn new() -> Self {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        let admin = server.client(&name).await;
        let shared = Self {
            server,
            name,
            admin,
        };
        for role in ["mallory", "owner", "shop"] {
            let role = shared.role(role);
            shared.execute(&format!("CREATE ROLE {role} LOGIN")).await;
        }
        for role in ["mallory", "owner"] {
            let grant = format!(
                "GRANT CREATE ON DATABASE {} TO {}",
                shared.name,
                shared.role(role)
            );
            shared.execute(&grant).await;
        }
        shared
    }

    /// Roles are those of the whole server.
    fn role(&self, name: &str) -> String {
        format!("{name}_{}", self.name)
    }

    async fn execute(&self, statements: &str) {
        self.admin.batch_execute(statements).await.unwrap();
    }

    /// Executes statements as a role. `{mallory}` stands for its name.
    async fn execute_as(&self, role: &str, statements: &str) {
        let (client, connection) =
            tokio_postgres::connect(&self.url_as(role), tokio_postgres::NoTls)
                .await
                .unwrap();
        tokio::spawn(connection);
        let statements = statements.replace("{mallory}", &self.role("mallory"));
        client.batch_execute(&statements).await.unwrap();
    }

    fn url(&self) -> String {
        self.server.url_of("postgres", &self.name)
    }

    fn url_as(&self, role: &str) -> String {
        self.server.url_of(&self.role(role), &self.name)
    }

    async fn mallory_has_won(&self) -> bool {
        let statement = "SELECT rolsuper FROM pg_roles WHERE rolname = $1";
        let role = self.role("mallory");
        self.admin
            .query_one(statement, &[&role])
            .await
            .unwrap()
            .get(0)
    }

    /// Everything that a manager, an operator or a migration does first, at `url`: the texts of the errors.
    async fn refusals(&self, url: &str) -> Vec<String> {
        let options = options();
        let manager = manager(url).await.map(drop);
        let inspector = PostgresInspector::connect(url, &options).await.map(drop);
        let migrated = migration().apply(url, &options).await.map(drop);
        let mut texts = vec![
            manager.unwrap_err().to_string(),
            inspector.unwrap_err().to_string(),
            migrated.unwrap_err().to_string(),
        ];
        // It reports on any server, and only reads catalogs of this one.
        let unchecked = PostgresInspector::connect_unchecked(url, &options).await;
        let report = unchecked.unwrap().servers().await.remove(0);
        texts.push(report.info["distrust"].clone());
        texts
    }
}

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.response_timeout = DEADLINE;
    options.connect_timeout = DEADLINE;
    options
}

fn migration() -> Migration {
    Migration::new(Schema::new("dlock").unwrap())
}

async fn manager(url: &str) -> Result<LockManager, dlock_runtime::ConnectError> {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let patient = builder.response_timeout(DEADLINE).connect_timeout(DEADLINE);
    patient.connect(url).await
}

#[tokio::test]
async fn a_schema_that_was_there_before_is_not_dlocks() {
    let shared = Shared::new().await;
    let planted = format!(
        "CREATE SCHEMA dlock; GRANT USAGE ON SCHEMA dlock TO PUBLIC;
         CREATE FUNCTION dlock.version() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN {SEIZE} RETURN 1; END $$"
    );
    shared.execute_as("mallory", &planted).await;
    for text in shared.refusals(&shared.url()).await {
        assert!(text.contains(&shared.role("mallory")), "{text}");
    }
    // The text for `psql`.
    let script = migration().script();
    let refused = shared.admin.batch_execute(&script).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42501");
    shared.execute("ROLLBACK").await;
    assert!(!shared.mallory_has_won().await);
}

/// What the migration of a superuser once made in a schema of another role.
#[tokio::test]
async fn a_schema_with_parts_of_two_owners_is_refused() {
    let shared = Shared::new().await;
    let tables = migration().script();
    shared.execute(&tables).await;
    let given = format!(
        "ALTER SCHEMA dlock OWNER TO {0}; GRANT USAGE ON SCHEMA dlock TO {1};
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dlock TO {1}",
        shared.role("mallory"),
        shared.role("shop")
    );
    shared.execute(&given).await;
    let replaced = format!(
        "DROP TABLE dlock.turn;
         CREATE TABLE dlock.turn (key text COLLATE \"C\" PRIMARY KEY, last_fence bigint NOT NULL DEFAULT 0,
             epoch bigint NOT NULL DEFAULT 0, is_shared boolean NOT NULL DEFAULT false,
             granted_at timestamptz NOT NULL DEFAULT clock_timestamp());
         CREATE FUNCTION dlock.boo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {SEIZE} RETURN NEW; END $$;
         CREATE TRIGGER boo BEFORE INSERT ON dlock.turn FOR EACH ROW EXECUTE FUNCTION dlock.boo()"
    );
    shared.execute_as("mallory", &replaced).await;
    for url in [shared.url(), shared.url_as("shop")] {
        for text in shared.refusals(&url).await {
            let parts = ["belongs to role", "in it belongs to role `postgres`"];
            assert!(parts.iter().all(|it| text.contains(it)), "{text}");
        }
    }
    assert!(!shared.mallory_has_won().await);
}

#[tokio::test]
async fn a_schema_in_which_others_may_create_is_refused() {
    for (grantee, named) in [("{mallory}", "mallory_"), ("PUBLIC", "PUBLIC")] {
        let shared = Shared::new().await;
        migration().apply(&shared.url(), &options()).await.unwrap();
        let grantee = grantee.replace("{mallory}", &shared.role("mallory"));
        let opened = format!("GRANT USAGE, CREATE ON SCHEMA dlock TO {grantee}");
        shared.execute(&opened).await;
        // A better match for a call with two small numbers.
        let planted = format!(
            "CREATE FUNCTION dlock.notify(_owner text, _fence integer, _number integer, _key text) RETURNS void
             LANGUAGE plpgsql AS $$ BEGIN {SEIZE} END $$"
        );
        for text in shared.refusals(&shared.url()).await {
            assert!(
                text.contains("REVOKE CREATE") && text.contains(named),
                "{text}"
            );
        }
        shared.execute_as("mallory", &planted).await;
        shared
            .execute(&format!("REVOKE CREATE ON SCHEMA dlock FROM {grantee}"))
            .await;
        for text in shared.refusals(&shared.url()).await {
            assert!(
                text.contains("`notify` in it belongs to role `mallory_"),
                "{text}"
            );
        }
        assert!(!shared.mallory_has_won().await);
    }
}

#[tokio::test]
async fn a_superuser_calls_nothing_of_a_plain_role() {
    let shared = Shared::new().await;
    let own = migration().role(&shared.role("shop")).unwrap();
    let migrated = own.apply(&shared.url_as("owner"), &options()).await;
    assert_eq!(migrated.unwrap(), Migrated::Created { version: 2 });
    for text in shared.refusals(&shared.url()).await {
        assert!(
            text.contains("greater permissions") && text.contains("owner_"),
            "{text}"
        );
    }
    for role in ["owner", "shop"] {
        let manager = manager(&shared.url_as(role)).await.unwrap();
        let guard = manager.lock("account:7").acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    // Nor does one who may create roles.
    let powerful = format!("ALTER ROLE {} CREATEROLE", shared.role("shop"));
    shared.execute(&powerful).await;
    let refused = manager(&shared.url_as("shop")).await.unwrap_err();
    assert!(
        refused.to_string().contains("greater permissions"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_migration_leaves_the_rights_of_other_functions() {
    let shared = Shared::new().await;
    let shop = shared.role("shop");
    let theirs = format!(
        "CREATE SCHEMA dlock; GRANT USAGE ON SCHEMA dlock TO {shop};
         CREATE FUNCTION dlock.total() RETURNS integer LANGUAGE sql AS 'SELECT 1'"
    );
    shared.execute(&theirs).await;
    let migrated = migration().apply(&shared.url(), &options()).await;
    assert_eq!(migrated.unwrap(), Migrated::Created { version: 2 });
    shared.execute_as("shop", "SELECT dlock.total()").await;
    let refused = manager(&shared.url_as("shop")).await.unwrap_err();
    assert!(
        refused.to_string().contains("permission denied"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_role_that_may_not_migrate_is_told_the_owner() {
    let shared = Shared::new().await;
    migration()
        .apply(&shared.url_as("owner"), &options())
        .await
        .unwrap();
    let refused = migration()
        .role(&shared.role("shop"))
        .unwrap()
        .apply(&shared.url_as("mallory"), &options())
        .await
        .unwrap_err();
    assert!(matches!(refused, MigrateError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("owner_"), "{refused}");
}
