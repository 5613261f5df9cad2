//! `dlock ls` and `dlock inspect`, with locks of dlock and of third-party clients.

use std::time::Duration;

use dlock::{LockManager, Wait, distributed_lock, store::fence_by_the_clock, with_manager};
use dlock_testkit::{RedisServer, Worker, eventually};
use serde_json::Value;

use super::{Ended, LIMIT, call, dlock, ended, locks, top::in_terminal};

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
    let place = format!("`dlock` of 127.0.0.1:{}", server.port());
    let is_read = |told: &str, nothing: &str| {
        let begin = format!("dlock: {nothing} in namespace {place}, read at 20");
        assert!(told.starts_with(&begin), "{told}");
        assert!(told.ends_with("Z\n"), "{told}");
    };
    is_read(&shown.stderr, "no locks are held or waited for");
    for (words, nothing) in [
        (&["order:*"][..], "no locks match `order:*`"),
        (&["--holder", "x"], "no locks are held with `--holder x`"),
        (
            &["--waiter", "x"],
            "no locks are waited for with `--waiter x`",
        ),
        (
            &["order:*", "--waiter", "x"],
            "no locks match `order:*` with `--waiter x`",
        ),
    ] {
        let words: Vec<_> = [&["ls"], words].concat();
        let shown = call(&mut dlock(&server, &words)).await.with(0);
        assert_eq!(shown.stdout, "");
        is_read(&shown.stderr, nothing);
    }
    let shown = call(&mut dlock(&server, &["inspect", "job"])).await.with(1);
    let read = format!("in             namespace {place}, read at 20");
    assert!(shown.stdout.contains(&read), "{}", shown.stdout);
    let shown = call(&mut dlock(&server, &["--json", "ls"])).await.with(0);
    assert_eq!(
        (json(&shown), shown.stderr.as_str()),
        (Value::Array(Vec::new()), "")
    );
}

#[tokio::test]
async fn the_namespace_is_that_of_the_environment_unless_an_option_names_another() {
    let server = RedisServer::start().await;
    set(&server, b"orders:{order:1}", b"a foreign value").await;
    let in_orders = |words: &[&str]| {
        let mut command = dlock(&server, words);
        command.env("DLOCK_NAMESPACE", "orders");
        command
    };
    let shown = call(&mut in_orders(&["ls"])).await.with(0);
    assert!(shown.stdout.contains("order:1"), "{}", shown.stdout);
    let other = ["ls", "--namespace", "dlock"];
    let shown = call(&mut in_orders(&other)).await.with(0);
    assert!(
        shown.stderr.contains("in namespace `dlock` of"),
        "{}",
        shown.stderr
    );
    let mut empty = dlock(&server, &["ls"]);
    let refused = call(empty.env("DLOCK_NAMESPACE", "")).await.with(2);
    assert!(refused.stderr.contains("--namespace"), "{}", refused.stderr);
}

#[tokio::test]
async fn what_a_process_waits_for_and_holds_is_listed() {
    let server = RedisServer::start().await;
    let scene = scene(&server).await;
    let cron = manager(&server, "cron").await;
    let guard = cron.lock("report").acquire().await.unwrap();
    let listed = async |words: &[&str]| {
        let words: Vec<_> = [&["ls", "--json"], words].concat();
        json(&call(&mut dlock(&server, &words)).await.with(0))
    };
    let keys = async |words: &[&str]| {
        let listed = listed(words).await;
        let keys = listed.as_array().unwrap().iter();
        keys.map(|it| it["key"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = listed(&["order:1"]).await;
    let label = all[0]["waiters"][0]["label"].as_str().unwrap();
    let handle = all[0]["waiters"][0]["handle"].as_str().unwrap();
    for (words, found) in [
        (&["--waiter", label][..], &["order:1"][..]),
        (&["--waiter", handle], &["order:1"]),
        (&["--waiter", "MAIL@"], &["order:1"]),
        (&["--waiter", "billing@"], &[]),
        (&["--waiter", "mail@", "report*"], &[]),
        (&["--holder", "billing@"], &["order:1"]),
        (&["--holder", "cron@"], &["report"]),
        (&["--holder", "@"], &["order:1", "report"]),
        (&["--holder", "billing@", "--waiter", "mail@"], &["order:1"]),
        (&["--holder", "cron@", "--waiter", "mail@"], &[]),
    ] {
        assert_eq!(keys(words).await, found, "{words:?}");
    }
    guard.release().await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn locks_that_are_held_for_long_or_have_many_waiters_are_listed() {
    let server = RedisServer::start().await;
    let owner = "0123456789abcdef0123456789abcdef";
    let mut connection = server.connection().await;
    let mut pipe = redis::pipe();
    for (number, (key, minutes, waiters)) in [("a", 90, 0), ("b", 10, 2), ("c", 1, 3)]
        .into_iter()
        .enumerate()
    {
        // The fence of a lease is the time when it was acquired.
        let fence = fence_by_the_clock() - minutes * 60 * 100_000;
        let lock = format!("dlock:{{{key}}}");
        pipe.cmd("SET")
            .arg(&lock)
            .arg(format!("{owner}.{number} {fence} billing@host/1"))
            .ignore();
        for waiter in 0..waiters {
            let waiter = format!("{owner}.9{number}{waiter}");
            pipe.cmd("ZADD")
                .arg(format!("{lock}:q"))
                .arg(1)
                .arg(waiter)
                .ignore();
        }
    }
    pipe.exec_async(&mut connection)
        .await
        .expect("the server writes");
    // For how long a third-party client holds its lock is not known.
    set(&server, b"dlock:{d}", b"foreign").await;
    for (words, found) in [
        (&["--held-longer", "0s"][..], &["a", "b", "c"][..]),
        (&["--held-longer", "5m"], &["a", "b"]),
        (&["--held-longer", "1h 15m"], &["a"]),
        (&["--held-longer", "2h"], &[]),
        (&["--waiters-at-least", "0"], &["a", "b", "c", "d"]),
        (&["--waiters-at-least", "2"], &["b", "c"]),
        (&["--waiters-at-least", "3"], &["c"]),
        (&["--held-longer", "5m", "--waiters-at-least", "1"], &["b"]),
        (&["--held-longer", "5m", "--holder", "mail"], &[]),
    ] {
        let words = [&["ls", "--json"], words].concat();
        let listed = json(&call(&mut dlock(&server, &words)).await.with(0));
        let listed = listed.as_array().unwrap().iter();
        let keys: Vec<_> = listed.map(|it| it["key"].as_str().unwrap()).collect();
        assert_eq!(keys, found, "{words:?}");
    }
    let words = ["ls", "--held-longer", "2h", "--waiters-at-least", "4"];
    let nothing = call(&mut dlock(&server, &words)).await.with(0);
    let told =
        "no locks are held with `--held-longer 2h` and `--waiters-at-least 4` in namespace `dlock`";
    assert!(nothing.stderr.contains(told), "{}", nothing.stderr);
    for (words, told) in [
        (["ls", "--held-longer", "5"], "time unit needed"),
        (["ls", "--held-longer", "soon"], "expected number"),
        (["ls", "--waiters-at-least", "many"], "invalid digit"),
    ] {
        let refused = call(&mut dlock(&server, &words)).await.with(2);
        assert!(
            refused.stderr.contains(told) && refused.stderr.contains(words[1]),
            "{}",
            refused.stderr
        );
    }
}

#[tokio::test]
async fn a_terminal_has_a_line_for_each_lock_and_a_pipe_whole_texts() {
    let server = RedisServer::start().await;
    let long = format!("tenant:{}:end", "x".repeat(400));
    for key in [&long, "order:1"] {
        set(&server, format!("dlock:{{{key}}}").as_bytes(), b"foreign").await;
    }
    let whole = call(&mut dlock(&server, &["ls"])).await.with(0).stdout;
    assert!(whole.contains(&long), "{whole}");
    let row =
        "see:tenant:xxxxxx…xxxxxxxxx:end  (third-party client)  -         -     none        0";
    let words = [env!("CARGO_BIN_EXE_dlock"), "ls"];
    let shown = in_terminal(&server.url(), "80x24", &[row], &words);
    ended(&shown).await.with(0);
}

/// Writes so many locks, the first half with a waiter, which has a key of its own.
pub(super) async fn write_many(server: &RedisServer, count: usize) {
    /// A server that is busy answers so many in time.
    const AT_ONCE: usize = 1000;

    let owner = "0123456789abcdef0123456789abcdef";
    let mut connection = server.connection().await;
    for begin in (0..count).step_by(AT_ONCE) {
        let mut pipe = redis::pipe();
        for number in begin..count.min(begin + AT_ONCE) {
            let key = format!("dlock:{{n:{number:05}}}");
            let holder = format!("{owner}.{number} 5 billing@host/1");
            pipe.cmd("SET").arg(&key).arg(holder).ignore();
            if number < count / 2 {
                let waiter = format!("{owner}.9{number}");
                let queue = format!("{key}:q");
                pipe.cmd("ZADD").arg(queue).arg(1).arg(waiter).ignore();
            }
        }
        let written = pipe.exec_async(&mut connection).await;
        written.expect("the server writes");
    }
}

#[tokio::test]
async fn a_list_of_several_pages_has_each_lock_once() {
    const COUNT: usize = 1_700;
    let server = RedisServer::start().await;
    write_many(&server, COUNT).await;
    let all: Vec<_> = (0..COUNT).map(|it| format!("n:{it:05}")).collect();
    for words in [&["ls", "--fast", "--json"][..], &["top", "--json"]] {
        let told = json(&call(&mut dlock(&server, words)).await.with(0));
        let locks = told.get("locks").unwrap_or(&told).as_array().unwrap();
        let keys = locks.iter().map(|it| it["key"].as_str().unwrap());
        let mut keys: Vec<_> = keys.collect();
        let is_sorted = keys.is_sorted();
        assert!(!is_sorted, "there are several pages");
        keys.sort_unstable();
        assert_eq!(keys, all, "{words:?}");
    }

    let shown = call(&mut dlock(&server, &["ls", "--fast"])).await.with(0);
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), COUNT + 1, "one header");
    assert!(lines[0].starts_with("KEY "), "{}", lines[0]);
    let holder = lines[0].find("HOLDER");
    for line in &lines[1..] {
        assert_eq!(line.find("billing@host/1"), holder, "{line}");
    }
}

#[tokio::test]
async fn a_long_list_begins_at_once() {
    let server = RedisServer::start().await;
    // With pauses, the whole takes the better part of a minute.
    write_many(&server, 30_000).await;
    let list = Worker::spawn(&mut dlock(&server, &["ls"]));
    list.line("n:", LIMIT).await;
    let lines = list.stdout().lines().count();
    assert!(lines < 20_000, "{lines} lines at once");
    assert!(list.ended().is_none(), "it goes on");
    list.kill();
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
    let stored: String = redis::cmd("GET")
        .arg("dlock:{order:1}")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert_eq!(
        stored.split(' ').nth(1),
        Some(&*(token >> 12).to_string()),
        "it is of the stored fence"
    );
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
