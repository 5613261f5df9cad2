//! Passwords stand in no text, whichever type has them, however they came in, and whatever fails.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::{self, Debug},
    fs,
    path::Path,
    process::Command,
    time::Duration,
};

use dlock::{
    LockManager, LockManagerBuilder,
    admin::Inspect as _,
    store::{
        quorum::Quorum,
        redis::{Credentials, CredentialsProvider, RedisConfig, RedisStore, Tls},
    },
};
use dlock_testkit::{
    Authority, Cluster, RedisServer, SentinelShape, Sentinels, Worker, eventually,
};

use crate::common::{Log, builder, soon};
use crate::connection::LIMIT;

/// With all that has a meaning in a URL, and as it stands in one.
const RIGHT: [&str; 2] = [
    "r1ght/p@ss:w?rd#%&=+",
    "r1ght%2Fp%40ss%3Aw%3Frd%23%25%26%3D%2B",
];
const WRONG: [&str; 2] = ["wr0ng/p@ss:w?rd", "wr0ng%2Fp%40ss%3Aw%3Frd"];

/// Parts of the passwords above, which are nothing else in the world.
const PARTS: [&str; 3] = ["r1ght", "wr0ng", "rd#%"];

/// All that could be read by somebody.
struct Seen(Vec<String>);

impl Seen {
    fn debug(&mut self, value: &impl Debug) {
        self.0.push(format!("{value:?} {value:#?}"));
    }

    /// With all that is behind it.
    fn error(&mut self, error: &(dyn Error + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.0.push(format!("{error} {error:?} {error:#?}"));
            next = error.source();
        }
    }

    fn assert_silent(&self, log: &Log) {
        let all = [self.0.join("\n"), log.text()];
        for text in &all {
            for part in PARTS {
                let line = text.lines().find(|line| line.contains(part));
                assert!(line.is_none(), "`{part}` is in: {line:?}");
            }
        }
    }
}

/// For servers that let it in, on a machine that stands still for a second as well.
fn patient() -> LockManagerBuilder {
    builder().connect_timeout(LIMIT).wait(LIMIT)
}

/// For servers that do not.
fn quick() -> LockManagerBuilder {
    LockManager::builder()
        .connect_timeout(Duration::from_millis(600))
        .response_timeout(Duration::from_millis(300))
        .wait(Duration::from_millis(400))
}

fn provider(password: &'static str) -> CredentialsProvider {
    CredentialsProvider::fixed(Credentials::new("me", password))
}

fn with_credentials(password: &'static str, builder: LockManagerBuilder) -> LockManagerBuilder {
    builder
        .credentials(move || async move { Ok::<_, fmt::Error>(Credentials::new("me", password)) })
}

/// Looks at servers as far as they let one, and notes all that can be seen of it.
#[cfg(feature = "admin")]
async fn inspect(seen: &mut Seen, config: RedisConfig) {
    let config = config.connect_timeout(Duration::from_millis(600));
    match dlock::admin::Deployment::of(&config) {
        Ok(deployment) => seen.debug(&deployment),
        Err(error) => seen.error(&error),
    }
    match dlock::admin::RedisJudge::of(&config) {
        Ok(judge) => seen.debug(&judge),
        Err(error) => seen.error(&error),
    }
    match soon(dlock::admin::Inspector::connect(config)).await {
        Ok(inspector) => {
            seen.debug(&inspector);
            let reports = soon(inspector.servers()).await;
            seen.debug(&reports);
            match soon(inspector.grants()).await {
                Ok(grants) => seen.debug(&grants),
                Err(error) => seen.error(&error),
            }
            #[cfg(feature = "admin-web")]
            {
                let server = dlock::admin::web::Server::unknown(None);
                seen.debug(&server.after(&reports));
                let page = dlock::admin::web::Page::new(std::sync::Arc::new(inspector));
                seen.debug(&page.allow_unlock(RIGHT[0]));
            }
        }
        Err(error) => seen.error(&error),
    }
}

/// Uses servers as far as they let one, and notes all that can be seen of it.
async fn use_all(
    seen: &mut Seen,
    builder: impl Fn() -> LockManagerBuilder,
    config: RedisConfig,
) -> bool {
    let url = config.url.clone();
    seen.debug(&builder());
    seen.debug(&config);
    #[cfg(feature = "admin")]
    inspect(seen, config.clone()).await;
    match RedisStore::connect_lazy(config) {
        Ok(store) => seen.debug(&store),
        Err(error) => seen.error(&error),
    }
    match soon(builder().connect(&url)).await {
        Ok(manager) => seen.debug(&manager),
        Err(error) => seen.error(&error),
    }
    let manager = builder().connect_lazy(&url).unwrap();
    seen.debug(&manager);
    seen.debug(&manager.lock("order:42"));
    let works = match soon(manager.lock("order:42").acquire()).await {
        Ok(guard) => {
            seen.debug(&guard);
            seen.debug(&*guard);
            let release = guard.release();
            soon(release).await.unwrap();
            true
        }
        Err(error) => {
            seen.error(&error);
            false
        }
    };
    seen.debug(&soon(manager.shutdown(LIMIT)).await);
    works
}

/// Every way in by which a password comes to these servers; `LOGIN` stands where a URL has it.
async fn by_every_way(seen: &mut Seen, template: &str) {
    let in_url = |password: &str| {
        let login = if template.contains("?LOGIN") {
            format!("user=me&pass={password}")
        } else {
            format!("me:{password}@")
        };
        template.replace("LOGIN", &login)
    };
    for ([password, encoded], is_right) in [(RIGHT, true), (WRONG, false)] {
        let url = in_url(encoded);
        let builder = || if is_right { patient() } else { quick() };
        let works = use_all(seen, builder, RedisConfig::new(&url)).await;
        assert_eq!(works, is_right, "{template}");

        let plain = template.replace("?LOGIN", "").replace("LOGIN", "");
        let config = RedisConfig::new(&plain).credentials(provider(password));
        let works = use_all(seen, || with_credentials(password, builder()), config).await;
        assert_eq!(works, is_right, "{template}");

        // In both places, which is an error of its own.
        let both = with_credentials(password, quick()).connect_lazy(&url);
        seen.error(&both.expect_err("it is given twice"));
        // As the server's own user, who has no password.
        let nobody = url.replace("me:", ":").replace("user=me&", "");
        if let Err(error) = soon(quick().connect(&nobody)).await {
            seen.error(&error);
        }
    }
}

async fn let_in(server: &RedisServer) {
    redis::cmd("ACL")
        .arg(&["SETUSER", "me", "on", "~*", "&*", "+@all"])
        .arg(format!(">{}", RIGHT[0]))
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn of_one_server_are_never_shown() {
    let (log, _capturing) = Log::capture();
    let mut seen = Seen(Vec::new());
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let server = RedisServer::start_with_tls(&identity, None, &[]).await;
    let_in(&server).await;
    let port = server.port();
    let over_tls = server.tls_url(&authority);
    for template in [
        format!("redis://LOGIN127.0.0.1:{port}"),
        format!("redis://LOGIN127.0.0.1:{port}?protocol=resp2"),
        over_tls.replace("127.0.0.1", "LOGIN127.0.0.1"),
        format!("redis+unix://{}?LOGIN", server.socket().display()),
    ] {
        by_every_way(&mut seen, &template).await;
    }
    // Somebody changes the password, and throws everybody out.
    let url = format!("redis://me:{}@127.0.0.1:{port}", RIGHT[1]);
    let manager = soon(patient().connect(&url)).await.unwrap();
    let mut behind = server.connection().await;
    for words in [
        &["ACL", "SETUSER", "me", "resetpass"][..],
        &["CLIENT", "KILL", "USER", "me"],
    ] {
        let mut command = redis::cmd(words[0]);
        command
            .arg(&words[1..])
            .exec_async(&mut behind)
            .await
            .unwrap();
    }
    eventually(LIMIT, "it is refused", async || {
        let outcome = manager.lock("order:42").run(async |_| ()).await;
        outcome.is_err_and(|error| error.to_string().contains("the password"))
    })
    .await;
    seen.assert_silent(&log);
    assert!(
        log.text().contains("check the user and the password"),
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn of_several_servers_are_never_shown() {
    let (log, _capturing) = Log::capture();
    let mut seen = Seen(Vec::new());
    let cluster = Cluster::start(1, 0).await;
    let_in(cluster.node(0)).await;
    let template = format!("redis-cluster://LOGIN127.0.0.1:{}", cluster.port(0));
    by_every_way(&mut seen, &template).await;

    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(RedisServer::start().await);
        let_in(&nodes[nodes.len() - 1]).await;
    }
    let hosts: Vec<_> = nodes
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    by_every_way(&mut seen, &format!("redlock://LOGIN{}", hosts.join(","))).await;
    let stores = hosts.iter().map(|host| {
        let url = format!("redis://me:{}@{host}", WRONG[1]);
        RedisStore::connect_lazy(RedisConfig::new(url)).unwrap()
    });
    let quorum = Quorum::of(stores).unwrap();
    seen.debug(&quorum);
    let manager = quick().build_with_store(quorum).unwrap();
    seen.debug(&manager);
    let outcome = soon(manager.lock("order:42").run(async |_| ())).await;
    seen.error(&outcome.expect_err("no node lets it in"));

    let sentinels = Sentinels::start_with(SentinelShape {
        replicas: 0,
        sentinels: 1,
        sentinel_password: Some("s3ntinel-wr0ng-it-is-not"),
        ..SentinelShape::default()
    })
    .await;
    let_in(sentinels.master().await).await;
    let url = sentinels.url().replace("://", "://LOGIN");
    by_every_way(
        &mut seen,
        &format!("{url}?sentinel_pass=s3ntinel-wr0ng-it-is-not"),
    )
    .await;
    for refused in ["", "sentinel_user=nobody&"] {
        let url = format!("{}?{refused}sentinel_pass={}", sentinels.url(), WRONG[1]);
        assert!(!use_all(&mut seen, quick, RedisConfig::new(url)).await);
    }
    seen.assert_silent(&log);
    assert!(
        log.text().contains("check the user and the password"),
        "{}",
        log.text()
    );
}

#[test]
fn of_certificates_no_key_is_shown() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    let secret = identity.key_pem().lines().nth(1).unwrap();
    let tls = Tls::new()
        .ca_pem(authority.ca_pem())
        .identity_pem(identity.cert_pem(), identity.key_pem());
    let builder = LockManager::builder().tls(tls.clone());
    let config = RedisConfig::new("rediss://localhost").tls(tls.clone());
    let bytes = format!("{:?}", &secret.as_bytes()[..8]);
    let bytes = bytes.trim_matches(['[', ']']);
    for shown in [
        format!("{tls:?}"),
        format!("{tls:#?}"),
        format!("{builder:?}"),
        format!("{config:?}"),
    ] {
        assert!(!shown.contains(secret) && !shown.contains(bytes), "{shown}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
}

/// Set for a process that connects as its environment says.
const CHILD: &str = "DLOCK_TEST_SECRETS_FROM_ENV";

/// The test is all processes: it runs itself again, with other environments.
#[tokio::test]
async fn of_the_environment_are_never_shown() {
    if env::var(CHILD).is_ok() {
        let (log, _capturing) = Log::capture();
        let mut seen = Seen(Vec::new());
        seen.debug(&patient());
        match patient().connect_env().await {
            Ok(manager) => {
                seen.debug(&manager);
                let outcome = soon(manager.lock("order:42").run(async |_| ())).await;
                println!("it works: {}", outcome.is_ok());
            }
            Err(error) => {
                seen.error(&error);
                println!("it fails");
            }
        }
        // The parent looks for secrets.
        println!("{}\n{}\nit is all", seen.0.join("\n"), log.text());
        return;
    }
    let server = RedisServer::start().await;
    let_in(&server).await;
    let in_url = format!("redis://me:{}@127.0.0.1:{}", RIGHT[1], server.port());
    for (url, user, password, expected) in [
        (server.url(), "me", RIGHT[0], "it works: true"),
        (server.url(), "me", WRONG[0], "it fails"),
        // The server's own user has no password, and is let in with any.
        (server.url(), "", WRONG[0], "it works: true"),
        (in_url, "me", WRONG[0], "it works: true"),
        (WRONG[0].to_owned(), "me", RIGHT[0], "it fails"),
        (server.url(), RIGHT[0], "", "it fails"),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        let test = "connection::secrets::of_the_environment_are_never_shown";
        command
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .env("DLOCK_URL", &url)
            .env("DLOCK_USER", user)
            .env("DLOCK_PASSWORD", password);
        let child = Worker::spawn(&mut command);
        child.line("it is all", LIMIT).await;
        let said = child.stdout() + &child.stderr();
        assert!(said.contains(expected), "{expected}: {said}");
        for part in PARTS {
            assert!(!said.contains(part), "`{part}` is in: {said}");
        }
    }
}

/// Those that have seen a URL, a password or a key, or somebody who has: the tests above show them.
const SEEN: &[&str] = &[
    "ConnectError",
    "Credentials",
    "CredentialsProvider",
    "Deployment",
    "Grants",
    "Inspector",
    "Lease",
    "LockError",
    "LockGuard",
    "LockManager",
    "LockManagerBuilder",
    "LockRequest",
    "LostCause",
    "Page",
    "Quorum",
    "RedisConfig",
    "RedisJudge",
    "RedisStore",
    "Server",
    "ServerReport",
    "ShutdownReport",
    "StoreError",
    "Tls",
];

/// Those that cannot have one, or are not shown: they have no `Debug`, or hold a future.
const OTHERS: &[&str] = &[
    "Acquire",
    "AcquireOutcome",
    "AcquireRequest",
    "AfterUnlock",
    "AlreadyInstalled",
    "AnyStore",
    "BlockingGuard",
    "BlockingManager",
    "BlockingRequest",
    "Budget",
    "ClaimHandle",
    "ClientId",
    "ClockReading",
    "Denied",
    "Detach",
    "Detached",
    "Drift",
    "EnsembleMember",
    "Facts",
    "FencingToken",
    "Finding",
    "Finish",
    "FinishIfHeld",
    "ForeignOwner",
    "Grant",
    "HeardWakeUp",
    "Hint",
    "HintSink",
    "Holder",
    "HolderInfo",
    "HolderSnapshot",
    "HolderView",
    "InvalidHandle",
    "InvalidKeyReason",
    "KeyInMode",
    "KeyPattern",
    "Known",
    "Layout",
    "LeaseIdentity",
    "LeaseRecord",
    "Listener",
    "LockFacts",
    "LockInfo",
    "LockKey",
    "LockKeyBuilder",
    "LockKeys",
    "LockMode",
    "LockModes",
    "LockRules",
    "LockSite",
    "LockSnapshot",
    "LockView",
    "MemoryStore",
    "Moment",
    "NodeFacts",
    "OnLost",
    "OptionalBlockingGuard",
    "OptionalGuard",
    "Options",
    "Overview",
    "OwnerId",
    "Pace",
    "PartWriter",
    "Piece",
    "Presence",
    "Problem",
    "Problems",
    "ProblemsBuilder",
    "ProblemsError",
    "ProcessInfo",
    "ProcessView",
    "Proposal",
    "Queue",
    "RaiseRequest",
    "Raised",
    "RedisReader",
    "Release",
    "ReleaseRequest",
    "Released",
    "RenewBatch",
    "RenewRequest",
    "Renewal",
    "ReplicaReport",
    "RunIfHeld",
    "RunWhileHeld",
    "Severity",
    "StoreErrorKind",
    "StoreOptions",
    "StoreProperties",
    "StoreToken",
    "Survey",
    "SystemClock",
    "SystemRandom",
    "Topic",
    "Unlocked",
    "Wait",
    "WaiterInfo",
    "WaiterSnapshot",
    "WaiterView",
    "Walk",
    "Wanted",
];

/// A type that comes later is to be put into one of the lists above, and shown if it has to be.
#[test]
fn every_public_type_was_thought_of() {
    fn collect(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for line in text.lines() {
                    let mut words = line.split_whitespace();
                    if words.next() == Some("pub")
                        && words
                            .next()
                            .is_some_and(|it| ["struct", "enum", "union"].contains(&it))
                    {
                        let name = words.next().unwrap();
                        let end = name
                            .find(|c: char| !c.is_alphanumeric())
                            .unwrap_or(name.len());
                        found.insert(name[..end].to_owned());
                    }
                }
            }
        }
    }

    let mut found = BTreeSet::new();
    for package in ["dlock-runtime", "dlock-admin", "dlock-admin-web"] {
        let sources = crate::common::root().join(package).join("src");
        collect(&sources, &mut found);
    }
    let known: BTreeSet<_> = SEEN
        .iter()
        .chain(OTHERS)
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(found, known);
}
