//! Hostile values: keys and options chosen to reach another lock, or to cost more than they should.

use std::{
    cell::Cell,
    collections::HashSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use dlock::{
    InvalidKeyReason, KeyPart, LockError, LockKey, LockManager, PartWriter, distributed_lock,
};
use tokio::{sync::Barrier, task::JoinSet};

use crate::bad_input::assert_says;
use crate::common::{Env, Redis, RedisCluster, assert_idle, soon, stored};

/// What delimits, encodes, routes, ends lines, or looks like something else.
const VALUES: &[&str] = &[
    "a",
    "A",
    "b",
    "a:b",
    "a%3Ab",
    "a%3ab",
    "a%253Ab",
    "%",
    "%%",
    "%3A",
    "%3a",
    ":",
    "::",
    ":q",
    "}:q",
    "}:a",
    "}:rq",
    "{",
    "}",
    "{}",
    "{a}",
    "}{",
    "<",
    ">",
    "<id>",
    "<<id>>",
    " ",
    "a ",
    " a",
    "a b",
    "\0",
    "a\0",
    "a\0b",
    "\r\n",
    "\n",
    "a\r\nDEL *\r\n",
    "*1\r\n$8\r\nFLUSHALL\r\n",
    "*",
    "?",
    "[a]",
    "^a$",
    "\\",
    "\"",
    "'",
    "`",
    "$1",
    "../..",
    "/",
    "-",
    "_",
    ".",
    "~",
    "order",
    "dlock:{a}",
    "fence",
    "nil",
    "\u{202e}cba",
    "abc",
    "e\u{301}",
    "\u{e9}",
    "\u{c5}",
    "\u{212b}",
    "A\u{30a}",
    "\u{1f469}\u{200d}\u{1f680}",
    "\u{1f469}",
    "\u{200b}",
    "a\u{200b}",
    "\u{feff}a",
    "\u{85}",
    "\u{2028}",
    "\u{7f}",
    "\u{ff21}",
    "\u{430}",
    "\u{fffd}",
];

/// Each value in either place, and those that would meet if they ran together.
fn calls() -> Vec<(String, String)> {
    let mut calls = vec![
        ("a:b".to_owned(), "c".to_owned()),
        ("a".to_owned(), "b:c".to_owned()),
        ("a%3Ab".to_owned(), "c".to_owned()),
        ("a".to_owned(), "b%3Ac".to_owned()),
        ("{a}".to_owned(), "{b}".to_owned()),
    ];
    for value in VALUES {
        calls.push(((*value).to_owned(), "x".to_owned()));
        calls.push(("x".to_owned(), (*value).to_owned()));
    }
    calls
}

#[distributed_lock(key = "order:<id>:<name>", manager = locks, wait = never)]
async fn settle(
    locks: &LockManager,
    id: String,
    name: String,
    all_are_inside: &Barrier,
    all_may_leave: &Barrier,
) -> Result<(), LockError> {
    all_are_inside.wait().await;
    all_may_leave.wait().await;
    Ok(())
}

/// All of them are held at once, so none is another's; and each is refused to who asks for the same.
async fn never_meet_and_always_find_themselves<E: Env>(env: &E) -> Vec<LockKey> {
    let (mine, other) = (env.manager().await, env.manager().await);
    let calls = calls();
    let inside = Arc::new(Barrier::new(calls.len() + 1));
    let leave = Arc::new(Barrier::new(calls.len() + 1));
    let mut bodies = JoinSet::new();
    for (id, name) in calls.clone() {
        let (locks, inside, leave) = (mine.clone(), inside.clone(), leave.clone());
        bodies.spawn(async move {
            let shown = format!("{id:?} {name:?}");
            let outcome = settle(&locks, id, name, &inside, &leave).await;
            (shown, outcome)
        });
    }
    // One that met another would not wait for it, and end before the others are inside.
    let first_to_fail = async {
        match bodies.join_next().await {
            Some(ended) => panic!("one has ended: {:?}", ended.unwrap()),
            None => unreachable!("there are some"),
        }
    };
    tokio::select! {
        () = first_to_fail => {}
        _ = soon(inside.wait()) => {}
    }
    let mut keys = HashSet::new();
    for (id, name) in &calls {
        let key = LockKey::builder()
            .text("order:")
            .part(id)
            .text(":")
            .part(name);
        let key = key.build().unwrap();
        let tried = soon(other.lock(&key).try_acquire()).await.unwrap();
        assert!(
            tried.is_none(),
            "broken promise: two hold the key: {id:?} {name:?} is held"
        );
        keys.insert(key);
    }
    assert_eq!(keys.len(), calls.len());
    let mut expected: Vec<_> = keys.iter().map(|key| stored(key.as_str())).collect();
    let mut found = env.locks().await;
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "nothing else lies on the server");
    soon(leave.wait()).await;
    while let Some(ended) = bodies.join_next().await {
        let (call, outcome) = ended.unwrap();
        assert_eq!(outcome, Ok(()), "{call}");
    }
    env.assert_clean(calls.len(), &[&mine, &other]).await;
    keys.into_iter().collect()
}

#[tokio::test]
async fn never_reach_another_lock() {
    never_meet_and_always_find_themselves(&Redis::start().await).await;
}

/// Braces would choose the slot, and a lock without its fence could not be taken there.
#[tokio::test]
async fn never_part_a_lock_from_its_fence_in_a_cluster() {
    let env = RedisCluster::start().await;
    let keys = never_meet_and_always_find_themselves(&env).await;
    let mut fences = HashSet::new();
    for fence in env.cluster.keys("dlock:fence:*").await {
        fences.insert(env.cluster.slot_of(&fence).await);
    }
    let mut slots = HashSet::new();
    for key in keys {
        let slot = env.cluster.slot_of(&stored(key.as_str())).await;
        assert!(fences.contains(&slot), "{key}");
        slots.insert(slot);
    }
    assert_eq!(slots, fences);
    // Whoever can choose the slot can send all load to one node.
    assert!(slots.len() > VALUES.len(), "{}", slots.len());
}

#[distributed_lock(key = "order:<id>:<name>", manager = locks)]
async fn pay(
    locks: &LockManager,
    id: &str,
    name: &dyn KeyPart,
    started: &AtomicBool,
) -> Result<(), LockError> {
    started.store(true, Ordering::Relaxed);
    Ok(())
}

/// `KeyPart` is not `Send`, and need not be.
async fn refused(manager: &LockManager, id: &str, name: &dyn KeyPart) -> LockError {
    let started = AtomicBool::new(false);
    let error = soon(pay(manager, id, name, &started)).await.unwrap_err();
    assert!(!started.load(Ordering::Relaxed), "a body ran");
    assert_eq!(manager.active_keys(), 0);
    error
}

#[track_caller]
fn assert_too_long(error: &LockError) {
    let LockError::InvalidKey { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(*reason, InvalidKeyReason::TooLong);
    assert_says(error, &["longer than 512 bytes"]);
    let shown = format!("{error} {error:?}");
    assert!(shown.len() < 1000 && !shown.contains(char::is_control));
}

#[tokio::test]
async fn of_ten_megabytes_are_refused_in_a_few_words() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    for value in ["x", "\u{e9}", "%", "\0", "a:b", "\r\n", "\u{1f469}"] {
        let value = value.repeat(10_000_000 / value.len());
        assert_too_long(&refused(&manager, &value, &7).await);
        assert_too_long(&refused(&manager, "7", &value).await);
        let text = LockKey::new(&value).unwrap_err();
        assert!(text.to_string().len() < 1000, "{}", text.to_string().len());
    }
    assert_eq!(env.server.keys("*").await, Vec::<String>::new());
    assert_eq!(env.server.success_count("evalsha").await, 0);
}

/// Writes kilobytes until it is told to stop, or goes on all the same.
struct Flood {
    heeds: bool,
    written: Cell<usize>,
    taken: Cell<usize>,
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..10_000 {
            self.written.set(self.written.get() + 1);
            let taken = f.write_str(&"y".repeat(100));
            if taken.is_ok() {
                self.taken.set(self.taken.get() + 1);
            } else if self.heeds {
                return taken;
            }
        }
        Ok(())
    }
}

impl KeyPart for Flood {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_display(self);
    }
}

#[tokio::test]
async fn that_never_end_are_stopped_when_the_key_is_full() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    for heeds in [true, false] {
        let flood = Flood {
            heeds,
            written: Cell::new(0),
            taken: Cell::new(0),
        };
        assert_too_long(&refused(&manager, "7", &flood).await);
        assert!(
            flood.taken.get() <= LockKey::MAX_LEN / 100,
            "{}",
            flood.taken.get()
        );
        assert!(!heeds || flood.written.get() == flood.taken.get() + 1);
    }
    assert_eq!(env.server.keys("*").await, Vec::<String>::new());
}

/// One that fails, or writes nothing, is no key of its own.
struct Liar(Result<(), fmt::Error>);

impl fmt::Display for Liar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
    }
}

impl KeyPart for Liar {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_display(self);
    }
}

struct Bomb;

impl KeyPart for Bomb {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str("half of it");
        panic!("as this test wants");
    }
}

#[tokio::test]
async fn that_fail_or_panic_leave_nothing_behind() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    for liar in [Liar(Ok(())), Liar(Err(fmt::Error))] {
        let error = refused(&manager, "7", &liar).await;
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    }
    let calling = {
        let manager = manager.clone();
        tokio::task::LocalSet::new()
            .run_until(async move {
                let call = async move {
                    let started = AtomicBool::new(false);
                    pay(&manager, "7", &Bomb, &started).await
                };
                tokio::task::spawn_local(call).await
            })
            .await
    };
    assert!(calling.unwrap_err().is_panic(), "it is the caller's");
    assert_idle(&[&manager]).await;
    assert_eq!(env.server.keys("*").await, Vec::<String>::new());
    soon(manager.lock("order:7").run(async |_| ()))
        .await
        .unwrap();
}
