//! `dlock ls` and `dlock inspect`, with locks of dlock and of third-party clients.

use std::time::Duration;

use dlock::{LockManager, Wait, distributed_lock, with_manager};
use dlock_testkit::{RedisServer, eventually};
use serde_json::Value;

use super::{Ended, LIMIT, call, dlock, locks};

pub(super) async fn manager(server: &RedisServer, application: &str) -> LockManager {
    let builder = LockManager::builder()
        .application(application)
        .ttl(Duration::from_secs(60))
        .response_timeout(Duration::from_secs(10))
        .connect_timeout(LIMIT);
    let connected = builder.connect(&server.url()).await;
    connected.expect("the server runs")
}

pub(super) async fn set(server: &RedisServer, key: &[u8], value: &[u8]) {
    let mut connection = server.connection().await;
    let mut command = redis::cmd("SET");
    let done = command
        .arg(key)
        .arg(value)
        .query_async::<()>(&mut connection);
    done.await.expect("the server writes");
}

#[distributed_lock(key = "order:<id>")]
async fn settle(
    id: u32,
    until: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), dlock::LockError> {
    let _ = id;
    drop(until.await);
    Ok(())
}

/// A function of `billing` holds `order:1`, and `mail` waits for it.
pub(super) struct Scene {
    pub(super) done: tokio::sync::oneshot::Sender<()>,
    pub(super) holder: tokio::task::JoinHandle<Result<(), dlock::LockError>>,
    pub(super) waiter: tokio::task::JoinHandle<Result<dlock::LockGuard, dlock::LockError>>,
}

pub(super) async fn scene(server: &RedisServer) -> Scene {
    let billing = manager(server, "billing").await;
    let mail = manager(server, "mail").await;
    let (done, until) = tokio::sync::oneshot::channel();
    let holder = tokio::spawn(with_manager(billing, settle(1, until)));
    let is_held = async || locks(server).await.contains(&"dlock:{order:1}".to_owned());
    eventually(LIMIT, "it is held", is_held).await;
    let waiter = tokio::spawn(mail.lock("order:1").wait(Wait::Forever).acquire());
    let waits = async || {
        locks(server)
            .await
            .contains(&"dlock:{order:1}:q".to_owned())
    };
    eventually(LIMIT, "there is a waiter", waits).await;
    Scene {
        done,
        holder,
        waiter,
    }
}

impl Scene {
    async fn end(self) {
        self.done.send(()).expect("it waits for that");
        self.holder
            .await
            .expect("no panic")
            .expect("it was held to the end");
        let guard = self
            .waiter
            .await
            .expect("no panic")
            .expect("it is handed on");
        guard.release().await.expect("it was held to the end");
    }
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}

/// Returns the columns of a line.
fn columns(line: &str) -> Vec<&str> {
    let columns = line.split("  ").map(str::trim);
    columns.filter(|column| !column.is_empty()).collect()
}

#[tokio::test]
async fn locks_are_listed_with_their_holders() {
    let server = RedisServer::start().await;
    let scene = scene(&server).await;
    set(&server, b"dlock:{order:2}", b"a foreign value").await;

    let shown = call(&mut dlock(&server, &["ls"])).await.with(0);
    let lines: Vec<_> = shown.stdout.lines().map(columns).collect();
    assert_eq!(
        lines[0],
        ["KEY", "HOLDER", "FUNCTION", "HELD", "TTL", "WAITERS"]
    );
    assert_eq!(lines[1][0], "order:1");
    assert!(lines[1][1].starts_with("billing@"), "{lines:?}");
    assert_eq!(lines[1].last(), Some(&"1"));
    assert_eq!(
        lines[2],
        ["order:2", "(third-party client)", "-", "-", "none", "0"]
    );
    assert_eq!(lines.len(), 3);
    assert!(!shown.stdout.contains('\x1b'), "no colours into a pipe");

    let colored = call(&mut dlock(&server, &["ls", "--color", "always"]))
        .await
        .with(0);
    assert!(colored.stdout.contains("\x1b[1m"), "{:?}", colored.stdout);

    let of_second = call(&mut dlock(&server, &["ls", "--json", "*:2"]))
        .await
        .with(0);
    let listed = json(&of_second);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(listed[0]["key"], "order:2");
    assert_eq!(listed[0]["holder"]["handle"], Value::Null);
    scene.end().await;
}

#[tokio::test]
async fn the_function_of_a_holder_is_shown() {
    let server = RedisServer::start().await;
    let value = b"0123456789abcdef0123456789abcdef.1 5 billing@host-3/4711#shop::settle";
    set(&server, b"dlock:{order:1}", value).await;
    let shown = call(&mut dlock(&server, &["ls"])).await.with(0);
    let row: Vec<_> = shown.stdout.lines().nth(1).map(columns).expect("a row");
    assert_eq!(row[..3], ["order:1", "billing@host-3/4711", "shop::settle"]);
    let shown = call(&mut dlock(&server, &["inspect", "order:1"]))
        .await
        .with(0);
    assert!(
        shown.stdout.contains("function     shop::settle\n"),
        "{}",
        shown.stdout
    );
    // dlock never writes a lock without a TTL.
    assert!(
        shown.stdout.contains("written or restored by hand"),
        "{}",
        shown.stdout
    );
    let shown = call(&mut dlock(&server, &["inspect", "--json", "order:1"]))
        .await
        .with(0);
    assert_eq!(json(&shown)["holder"]["function"], "shop::settle");
}

#[tokio::test]
async fn lists_show_how_many_servers_of_a_quorum_have_the_lock() {
    let servers = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let places = servers
        .each_ref()
        .map(|it| format!("127.0.0.1:{}", it.port()));
    let url = format!("redlock://{}", places.join(","));
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("job").acquire().await.unwrap();
    let held = async || server_column(&servers[0], &url).await == "3 of 3";
    eventually(LIMIT, "the last server has it too", held).await;
    servers[2].kill();
    assert_eq!(server_column(&servers[0], &url).await, "2 of 2");
    guard.release().await.unwrap();
}

async fn server_column(server: &RedisServer, url: &str) -> String {
    let shown = call(&mut dlock(server, &["--url", url, "ls"]))
        .await
        .with(0);
    let lines: Vec<_> = shown.stdout.lines().map(columns).collect();
    assert_eq!(lines[0].last(), Some(&"SERVERS"), "{lines:?}");
    lines[1].last().expect("it has columns").to_string()
}

#[tokio::test]
async fn no_locks_are_no_failure() {
    let server = RedisServer::start().await;
    let shown = call(&mut dlock(&server, &["ls"])).await.with(0);
    assert_eq!(shown.stdout, "");
    assert_eq!(shown.stderr, "dlock: no locks are held or waited for\n");
    let shown = call(&mut dlock(&server, &["ls", "order:*"])).await.with(0);
    let none = "dlock: no locks match `order:*`\n";
    assert_eq!((&*shown.stdout, &*shown.stderr), ("", none));
    let shown = call(&mut dlock(&server, &["--json", "ls"])).await.with(0);
    assert_eq!(
        (json(&shown), shown.stderr.as_str()),
        (Value::Array(Vec::new()), "")
    );
}

#[tokio::test]
async fn one_lock_is_shown_with_all_that_is_known() {
    let server = RedisServer::start().await;
    let scene = scene(&server).await;
    let shown = call(&mut dlock(&server, &["inspect", "order:1"]))
        .await
        .with(0);
    let pid = std::process::id().to_string();
    for (name, text) in [
        ("lock", "order:1"),
        ("holder", "billing@"),
        ("application", "billing"),
        ("process", &pid),
        ("since", ", for "),
        ("token", "or slightly greater"),
        ("waiters", "1"),
        ("1.", "mail@"),
    ] {
        let line = shown
            .stdout
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("`{name}` in\n{}", shown.stdout));
        assert!(line.contains(text), "{line}");
    }

    let shown = json(
        &call(&mut dlock(&server, &["inspect", "--json", "order:1"]))
            .await
            .with(0),
    );
    let holder = &shown["holder"];
    assert_eq!(holder["process"]["pid"], std::process::id());
    let token: i64 = holder["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(token >> 12, holder["fence"].as_i64().unwrap());
    assert!(holder["ttl_ms"].as_u64().unwrap() <= 60_000);
    assert_eq!(shown["waiters"][0]["is_alive"], true);
    scene.end().await;
}

#[tokio::test]
async fn a_free_lock_and_one_of_another_client_say_so() {
    let server = RedisServer::start().await;
    let shown = call(&mut dlock(&server, &["inspect", "order:1"]))
        .await
        .with(1);
    assert!(
        shown.stdout.contains("holder         none"),
        "{}",
        shown.stdout
    );
    let shown = call(&mut dlock(&server, &["inspect", "order:1", "--json"]))
        .await
        .with(1);
    assert_eq!(json(&shown)["holder"], Value::Null);

    set(&server, b"dlock:{order:1}", b"a foreign value").await;
    let shown = call(&mut dlock(&server, &["inspect", "order:1"]))
        .await
        .with(0);
    assert!(
        shown.stdout.contains("TTL          none"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains("it never expires"),
        "{}",
        shown.stdout
    );
    assert!(
        !shown.stdout.contains("a foreign value"),
        "it may be secret"
    );

    let refused = call(&mut dlock(&server, &["inspect", "a{b"])).await.with(2);
    assert!(refused.stderr.contains("a{b"), "{}", refused.stderr);
}

/// Returns `true` if a terminal only prints the text.
pub(super) fn is_harmless(text: &str) -> bool {
    let drives = |c: char| {
        c != '\n' && c.is_control()
            || matches!(c, '\u{200e}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    !text.contains(drives)
}

#[tokio::test]
async fn text_of_other_clients_does_not_control_the_terminal() {
    let server = RedisServer::start().await;
    let evil = "a\x1b[2J\x1b]0;x\x07\u{9b}31m\u{202e}\r";
    let owner = "0123456789abcdef0123456789abcdef.1";
    for key in [evil, "order:\u{202e}1", "\u{8ba2}\u{5355}:1"] {
        let value = format!("{owner} 5 {evil}");
        set(
            &server,
            format!("dlock:{{{key}}}").as_bytes(),
            value.as_bytes(),
        )
        .await;
    }
    set(&server, b"dlock:{\xff\xfe\x1b}", b"\xff\x1b[31m").await;
    let manager = manager(&server, evil).await;
    let guard = manager.lock("order:9").acquire().await.unwrap();

    let mut found = String::new();
    for words in [
        &["ls"][..],
        &["ls", "--json"],
        &["inspect", "order:\u{202e}1"],
        &["inspect", "order:\u{202e}1", "--json"],
        &["inspect", "order:9"],
        &["inspect", "order:9", "--json"],
        &["inspect", evil],
        &["inspect", evil, "--json"],
        &["unlock", "--yes", "order:\u{202e}1"],
        &["run", "-n", "order:9", "true"],
    ] {
        let ended = call(&mut dlock(&server, words)).await;
        let told = ended.stdout + &ended.stderr;
        assert!(is_harmless(&told), "{words:?} {told:?}");
        found += &told;
    }
    assert!(
        found.contains(r"order:\u{202e}1") && found.contains(r"order:\u202e1"),
        "{found}"
    );
    assert!(found.contains("\u{8ba2}\u{5355}:1"), "{found}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn wide_characters_keep_the_columns_in_line() {
    let server = RedisServer::start().await;
    for key in ["\u{8ba2}\u{5355}", "abcd"] {
        set(&server, format!("dlock:{{{key}}}").as_bytes(), b"foreign").await;
    }
    let shown = call(&mut dlock(&server, &["ls"])).await.with(0).stdout;
    let lines: Vec<_> = shown.lines().collect();
    // Two characters of two cells each are as wide as these four.
    assert_eq!(
        lines[1].replace("abcd", ""),
        lines[2].replace("\u{8ba2}\u{5355}", "")
    );
}

#[tokio::test]
async fn every_holder_of_a_shared_lock_is_shown() {
    let server = RedisServer::start().await;
    let mut guards = Vec::new();
    let managers = [
        manager(&server, "billing").await,
        manager(&server, "mail").await,
    ];
    for manager in &managers {
        let lock = manager.lock("catalog").shared();
        guards.push(lock.acquire().await.unwrap());
    }
    let third = manager(&server, "cron").await;
    let waiter = third.lock("catalog").permits(2).wait(Wait::Forever);
    let waiter = tokio::spawn(waiter.acquire());
    let waits = async || {
        let keys = locks(&server).await;
        keys.contains(&"dlock:{catalog}:q".to_owned())
    };
    eventually(LIMIT, "there is a waiter", waits).await;

    let shown = call(&mut dlock(&server, &["ls"])).await.with(0);
    let lines: Vec<_> = shown.stdout.lines().map(columns).collect();
    assert_eq!(lines[0].last(), Some(&"HOLDERS"));
    assert_eq!(lines[1][lines[1].len() - 2..], ["1", "2"], "{lines:?}");

    let shown = call(&mut dlock(&server, &["inspect", "catalog"]))
        .await
        .with(0);
    for words in [
        "mode           shared",
        "holders        2",
        "holder         billing@",
        "holder         mail@",
        "cron@",
        "(one of 2 permits)",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    waiter.await.unwrap().unwrap().release().await.unwrap();
}
