//! Cases of the commands that are the same over each store but Redis.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

use std::{
    process::Command,
    time::{Duration, SystemTime},
};

use dlock::{LockError, LockManager, LostCause, Wait, store::OwnerId};
use dlock_admin::{Grants, Inspect};
use dlock_testkit::{Worker, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Ended, LIMIT, call, clean, ended, run_signals::send, serve::start, until_answered, without_pace,
};

/// The part of a store that a test has for itself.
pub(crate) trait Place {
    /// The name of the store, as texts have it.
    const STORE: &'static str;

    /// The begin of the version, as texts have it.
    const VERSION: &'static str = "3.";

    /// Whether the store can tell of processes.
    const KNOWS_PROCESSES: bool = false;

    /// The longest TTL, whose third is so long that a holder that knows earlier was notified.
    const LONGEST: Duration;

    fn url(&self) -> String;

    /// The namespace.
    fn name(&self) -> &'static str;

    /// A manager, which stands for a process.
    async fn manager(&self, application: &str) -> LockManager;

    /// The names of the claims on a key, in the order of the queue.
    async fn claims(&self, key: &str) -> Vec<String>;

    /// The owner in the name of a claim.
    fn owner(claim: &str) -> &str;

    /// Puts a claim that stays until it is deleted, however slow the machine is.
    async fn put(&self, key: &str, number: u64, mode: &str, claim: Claim);

    async fn delete(&self, key: &str, number: u64);

    /// Calls the program.
    async fn call(&self, arguments: &[&str]) -> Ended {
        let url = self.url();
        until_answered(async || call(&mut at(&url, self.name(), arguments)).await).await
    }
}

/// A claim of a process that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// It has accepted its grant, with this label.
    Holds(&'static str),
    /// It waits, or was granted the lock a moment ago.
    Waits(&'static str),
}

/// Returns the program with a URL and a namespace.
pub(crate) fn at(url: &str, namespace: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command
        .env("DLOCK_URL", url)
        .args(["--namespace", namespace])
        .args(arguments);
    command
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The number in a JSON document.
fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

pub(crate) async fn a_command_runs_and_a_second_one_is_told_by_whom<P: Place>(namespace: P) {
    let script = "echo $DLOCK_KEY; echo $DLOCK_FENCING_TOKEN";
    let ran = namespace
        .call(&["run", "job:1", "sh", "-c", script])
        .await
        .with(0);
    let (key, token) = ran.stdout.trim().split_once('\n').unwrap();
    assert_eq!(key, "job:1");
    assert!(token.parse::<i64>().unwrap() > 0);
    assert_eq!(namespace.claims("job:1").await, [""; 0]);

    let billing = namespace.manager("billing").await;
    let guard = billing.lock("job:1").acquire().await.unwrap();
    let busy = namespace
        .call(&["run", "-n", "job:1", "true"])
        .await
        .with(75);
    assert!(busy.stderr.contains("billing@"), "{}", busy.stderr);
    guard.release().await.unwrap();
    let refused = namespace.call(&["--raw-keys", "ls"]).await.with(2);
    let reason = format!("{} has no raw keys", P::STORE);
    assert!(refused.stderr.contains(&reason), "{}", refused.stderr);
}

pub(crate) async fn a_benchmark_measures_and_leaves_no_locks<P: Place>(namespace: P) {
    let words = ["bench", "--seconds", "0.2", "--tasks", "4", "--json"];
    let told = json(&namespace.call(&words).await.with(0).stdout);
    let measured = told["measurements"].as_array().unwrap();
    assert_eq!(measured.len(), 5, "{told:#}");
    for measured in measured {
        assert!(measured["count"].as_u64().unwrap() >= 1, "{measured}");
    }
    eventually(LIMIT, "nothing is held", async || {
        let listed = namespace.call(&["ls", "--json"]).await.with(0);
        json(&listed.stdout) == json!([])
    })
    .await;
}

/// Asserts what `top` tells of three processes, and returns what it has to tell in JSON.
fn processes<P: Place>(top: &str) -> Value {
    if P::KNOWS_PROCESSES {
        assert!(top.contains("3 processes"), "{top}");
        return json!(3);
    }
    assert!(!top.contains("process"), "the store cannot tell:\n{top}");
    json!(null)
}

pub(crate) async fn holders_and_waiters_are_shown_in_order<P: Place>(namespace: P) {
    let nothing = namespace.call(&["ls"]).await.with(0);
    assert!(nothing.stderr.contains("no locks"), "{}", nothing.stderr);
    let [billing, mail, cron] = [
        namespace.manager("billing").await,
        namespace.manager("mail").await,
        namespace.manager("cron").await,
    ];
    let began = SystemTime::now();
    let guard = billing.lock("order/1").acquire().await.unwrap();
    let mut waiting = Vec::new();
    // One after the other: each notes the time before its request, so two at once may have another order in the queue.
    for (places, manager) in [(2, &mail), (3, &cron)] {
        let request = manager.lock("order/1").wait(Wait::Forever);
        waiting.push(tokio::spawn(request.acquire()));
        let waits = async || namespace.claims("order/1").await.len() == places;
        eventually(LIMIT, "it waits", waits).await;
    }
    let free = namespace.call(&["inspect", "order/2"]).await.with(1);
    assert!(
        free.stdout.contains("holder         none"),
        "{}",
        free.stdout
    );

    // A waiter that this machine does not let go on loses its place for a while.
    let mut found = json!(null);
    eventually(LIMIT, "both wait", async || {
        let before = namespace.claims("order/1").await;
        let lock = namespace.call(&["inspect", "--json", "order/1"]).await;
        let lock = json(&lock.with(0).stdout);
        let waiters = lock["waiters"].as_array().unwrap();
        let shown = waiters.iter().map(|it| it["handle"].as_str().unwrap());
        let owners = before.iter().skip(1).map(|name| P::owner(name));
        let owners: Vec<OwnerId> = owners.map(|owner| owner.parse().unwrap()).collect();
        let handles: Vec<_> = owners.iter().map(|it| it.handle().to_string()).collect();
        let is_queue = before.len() == 3 && shown.eq(handles.iter().map(String::as_str));
        found = lock;
        is_queue
    })
    .await;
    let lock = found;
    let elapsed = u64::try_from(began.elapsed().unwrap().as_millis()).unwrap();
    let holder = &lock["holder"];
    assert!(
        holder["label"].as_str().unwrap().starts_with("billing@"),
        "{lock:#}"
    );
    assert_eq!(lock["mode"], "exclusive");
    assert_eq!(holder["token"], guard.fencing_token().to_string());
    assert_eq!(lock["last_token"], holder["token"]);
    assert!(
        (1..=60_000).contains(&number(&holder["ttl_ms"])),
        "{lock:#}"
    );
    assert!(number(&holder["held_ms"]) <= elapsed, "{lock:#}");
    let waiters = lock["waiters"].as_array().unwrap();
    let labels = waiters.iter().map(|it| it["label"].as_str().unwrap());
    let mut names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cron", "mail"]);
    assert_eq!(
        (&lock["waiter_count"], &lock["holder_count"]),
        (&2.into(), &1.into())
    );
    let waits: Vec<_> = waiters.iter().map(|it| number(&it["waiting_ms"])).collect();
    assert!(elapsed >= waits[0] && waits[0] >= waits[1], "{waits:?}");
    assert!(waiters.iter().all(|it| it["is_alive"] == true), "{lock:#}");

    let shown = namespace.call(&["ls"]).await.with(0).stdout;
    assert!(shown.contains("order/1  billing@"), "{shown}");
    let top = namespace.call(&["top", "--once"]).await.with(0).stdout;
    for part in ["1 lock   1 held", &format!("{} {}", P::STORE, P::VERSION)] {
        assert!(top.contains(part), "no `{part}`:\n{top}");
    }
    let processes = processes::<P>(&top);
    let top = json(&namespace.call(&["top", "--json"]).await.with(0).stdout);
    assert_eq!(
        (&top["processes"], &top["namespace"]),
        (&processes, &namespace.name().into())
    );
    assert_eq!(top["locks"][0]["key"], "order/1");

    // The next holder has a time and a label of its own, as soon as it has said that it holds the lock.
    guard.release().await.unwrap();
    let (next, first, _) = futures_util::future::select_all(waiting.iter_mut()).await;
    drop(waiting.remove(first));
    let next = next.unwrap().unwrap();
    eventually(LIMIT, "the next holder is shown", async || {
        let lock = namespace.call(&["inspect", "--json", "order/1"]).await;
        let holder = json(&lock.with(0).stdout)["holder"].clone();
        assert_eq!(holder["token"], next.fencing_token().to_string());
        holder["held_ms"].is_u64() && holder["label"].is_string()
    })
    .await;
    next.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    let listed = namespace.call(&["ls", "--json"]).await.with(0).stdout;
    assert_eq!(json(&listed), json!([]));
}

pub(crate) async fn those_who_share_or_have_permits_are_shown_together<P: Place>(namespace: P) {
    let (one, other) = (
        namespace.manager("one").await,
        namespace.manager("other").await,
    );
    let shared = [
        one.lock("catalog").shared().acquire().await.unwrap(),
        other.lock("catalog").shared().acquire().await.unwrap(),
    ];
    let _permits = [
        one.lock("encoder").permits(2).acquire().await.unwrap(),
        other.lock("encoder").permits(2).acquire().await.unwrap(),
    ];
    let waiter = Claim::Waits("third@host/3");
    namespace.put("encoder", 3, "permits=2", waiter).await;
    let listed = json(&namespace.call(&["ls", "--json"]).await.with(0).stdout);
    for (index, key) in [(0, "catalog"), (1, "encoder")] {
        let lock = &listed[index];
        assert_eq!(
            (&lock["key"], &lock["mode"], &lock["holder_count"]),
            (&key.into(), &"shared".into(), &2.into())
        );
        let holders = lock["holders"].as_array().unwrap();
        let labels = holders.iter().map(|it| it["label"].as_str().unwrap());
        let mut names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "other"]);
        assert_eq!(
            holders[0]["token"], holders[1]["token"],
            "they share an epoch"
        );
    }
    let token = shared[0].fencing_token().to_string();
    assert_eq!(listed[0]["holder"]["token"], token);
    assert_eq!(listed[1]["waiters"][0]["permits"], 2);
    let shown = namespace.call(&["inspect", "encoder"]).await.with(0).stdout;
    assert!(
        shown.contains("third@") && shown.contains("(one of 2 permits)"),
        "{shown}"
    );
    namespace.delete("encoder", 3).await;
}

pub(crate) async fn the_next_waiter_holds_the_lock_and_the_old_holder_is_notified<P: Place>(
    namespace: P,
) {
    let (one, other) = (
        namespace.manager("one").await,
        namespace.manager("other").await,
    );
    // Without a message, it would find out at its first renewal, after a third of the TTL.
    let request = one.lock("job").ttl(P::LONGEST);
    let guard = request.acquire().await.unwrap();
    let waiter = Claim::Waits("next@host/2");
    namespace.put("job", 2, "exclusive", waiter).await;
    let claims = namespace.claims("job").await;
    let said = namespace
        .call(&["--json", "unlock", "-y", "job"])
        .await
        .with(0);
    let said = json(&said.stdout);
    assert_eq!(said["outcome"], "granted");
    assert!(
        said["holder"]["label"]
            .as_str()
            .unwrap()
            .starts_with("one@")
    );
    let lost = timeout(LIMIT, guard.lost()).await.expect("it is notified");
    let cause = LostCause::Revoked;
    assert!(
        matches!(&lost, LockError::Lost { cause: it, .. } if *it == cause),
        "{lost:?}"
    );
    assert_eq!(namespace.claims("job").await, claims[1..]);
    namespace.delete("job", 2).await;
    let next = other.lock("job").wait(LIMIT).acquire().await.unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    let ended = namespace.call(&["unlock", "--yes", "job"]).await.with(0);
    assert!(
        ended.stdout.contains("Released `job`: it is free."),
        "{}",
        ended.stdout
    );
    timeout(LIMIT, next.lost()).await.expect("it is notified");
    let ended = namespace.call(&["unlock", "--yes", "job"]).await.with(1);
    let free = "`job` is free in namespace `";
    assert!(ended.stdout.starts_with(free), "{}", ended.stdout);
}

pub(crate) async fn changes_of_locks_are_printed<P: Place>(namespace: P) {
    let holder = Claim::Holds("billing@host/1");
    namespace.put("before", 1, "exclusive", holder).await;
    let url = namespace.url();
    let watch = Worker::spawn(&mut at(&url, namespace.name(), &["watch", "-i", "20ms"]));
    watch.line("held      before  billing@", LIMIT).await;
    let manager = namespace.manager("cron").await;
    let guard = manager.lock("order:1").acquire().await.unwrap();
    watch.line("acquired  order:1  cron@", LIMIT).await;
    let waiter = Claim::Waits("mail@host/2");
    namespace.put("order:1", 2, "exclusive", waiter).await;
    watch.line("waits     order:1  mail@", LIMIT).await;
    guard.release().await.unwrap();
    watch.line("granted   order:1  ", LIMIT).await;
    namespace.delete("order:1", 2).await;
    watch.line("released  order:1  ", LIMIT).await;
    send(&watch, Signal::INT);
    assert_eq!(without_pace(&ended(&watch).await.with(0).stderr), "");
    namespace.delete("before", 1).await;
}

/// The key and the number of the next grant.
async fn next(grants: &mut Grants) -> (String, u64) {
    let grant = timeout(LIMIT, grants.next()).await.expect("a grant comes");
    let grant = grant.expect("the connection lasts");
    let owner = grant.owner.to_string();
    let number = u64::from_str_radix(owner.split_once('.').unwrap().0, 16);
    assert!(grant.fence > 1000, "it is the base and a revision");
    (grant.key, number.unwrap())
}

#[cfg_attr(
    not(any(feature = "etcd", feature = "zookeeper")),
    allow(dead_code, reason = "PostgreSQL sends a grant to its waiter alone")
)]
pub(crate) async fn grants_to_waiters_are_told_and_nothing_else<P: Place>(
    namespace: P,
    inspector: &dyn Inspect,
) {
    const HOLDS: Claim = Claim::Holds("billing@host/1");
    const WAITS: Claim = Claim::Waits("mail@host/2");

    // One waits before the watch begins, and two after.
    namespace.put("a/b", 1, "exclusive", HOLDS).await;
    namespace.put("a/b", 2, "exclusive", WAITS).await;
    let mut grants = inspector.grants().await.unwrap();
    for number in [3, 4] {
        namespace.put("a/b", number, "shared", WAITS).await;
    }
    // A lock that was free, a release without waiters, and a waiter that leaves are no grants.
    namespace.put("free", 5, "exclusive", HOLDS).await;
    namespace.put("free", 6, "exclusive", WAITS).await;
    namespace.delete("free", 6).await;
    namespace.delete("free", 5).await;
    namespace.delete("a/b", 1).await;
    assert_eq!(next(&mut grants).await, ("a/b".to_owned(), 2));
    namespace.delete("a/b", 2).await;
    // Both join at once.
    for number in [3, 4] {
        assert_eq!(next(&mut grants).await, ("a/b".to_owned(), number));
    }
    // One that stays while another leaves was not granted the lock again.
    namespace.delete("a/b", 3).await;
    namespace.delete("a/b", 4).await;
    namespace.put("last", 7, "exclusive", HOLDS).await;
    namespace.put("last", 8, "exclusive", WAITS).await;
    namespace.delete("last", 7).await;
    assert_eq!(next(&mut grants).await, ("last".to_owned(), 8));
    namespace.delete("last", 8).await;
}

pub(crate) async fn a_browser_shows_holders_and_waiters<P: Place>(namespace: P) {
    let billing = namespace.manager("billing").await;
    let guard = billing.lock("order/1").acquire().await.unwrap();
    let waiter = Claim::Waits("mail@host/2");
    namespace.put("order/1", 2, "shared", waiter).await;
    let words = ["serve", "--listen", "127.0.0.1:0", "--interval", "100ms"];
    let site = start(&mut at(&namespace.url(), namespace.name(), &words)).await;
    let mut events = site.events("api/picture/events").await;
    let is_complete = |told: &Value| {
        let lock = &told["locks"][0];
        lock["waiters"] == 1
            && lock["holder"]
                .as_str()
                .is_some_and(|it| it.starts_with("billing@"))
    };
    let told = events.until("holder and waiter", is_complete).await;
    assert_eq!(told["server"]["product"], P::STORE);
    assert_eq!(told["server"]["namespace"], namespace.name());
    let lock = site.json("api/lock?key=order%2F1").await;
    let token = guard.fencing_token().to_string();
    assert_eq!(lock["lock"]["holders"][0]["token"], token);
    assert_eq!(lock["lock"]["waiters"][0]["mode"], "shared");
    namespace.delete("order/1", 2).await;
    guard.release().await.unwrap();
    let is_free = |told: &Value| told["picture"]["state"] == "live" && told["totals"]["locks"] == 0;
    events.until("the free lock", is_free).await;
}
