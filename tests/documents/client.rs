//! The client of `docs/book/src/reference/protocol.md` shares locks with ours, over a real server.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{FencingToken, LockError, LockManager, Wait};
use dlock_testkit::{eventually, machine_time, python};
use redis::FromRedisValue;
use tokio::task::JoinSet;

use crate::{
    common::{Env, HasServer, LIMIT, Program, Redis, is_busy, soon},
    document, root,
};

const KEY: &str = "order:42";

/// The client, out of its page.
fn source() -> String {
    let blocks = document::at("docs/book/src/reference/protocol.md").blocks_in("python");
    assert!(blocks.len() > 4, "the client is not where it was");
    blocks.into_iter().map(|block| block.text).collect()
}

/// The client in a process of its own.
async fn start(env: &Redis) -> Program {
    let program = source() + include_str!("client.py");
    let mut command = python();
    command.args(["-c", &program, &env.server().url()]);
    command.arg(root().join("dlock-runtime/src/store/redis/protocol"));
    Program::start(&mut command).await
}

fn number(token: &str) -> i64 {
    let no_token = |_| panic!("`{token}` is no token");
    token.parse().unwrap_or_else(no_token)
}

async fn ask_server<T: FromRedisValue>(env: &Redis, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let mut connection = env.server().connection().await;
    command.query_async(&mut connection).await.unwrap()
}

/// So many owners stand in the queue.
async fn until_waiting(env: &Redis, count: usize) {
    eventually(LIMIT, "they wait", async || {
        let queue = format!("dlock:{{{KEY}}}:q");
        ask_server::<usize>(env, &["ZCARD", &queue]).await == count
    })
    .await;
}

#[tokio::test]
async fn its_keys_are_ours() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    for key in ["foo", KEY, "datei:ä", "a:b%2Fc"] {
        env.server().flush().await;
        let guard = soon(manager.lock(key).acquire()).await.unwrap();
        let mut keys = env.server().keys("*").await;
        keys.sort();
        let theirs: Vec<String> =
            serde_json::from_str(&client.ask(&format!("keys {key}")).await).unwrap();
        let [lock, queue, living, fence] = &theirs[..] else {
            panic!("{theirs:?}");
        };
        let mut expected = [lock.clone(), fence.clone()];
        expected.sort();
        assert_eq!(keys, expected, "{key}");
        assert_eq!(queue, &format!("dlock:{{{key}}}:q"));
        assert_eq!(living, &format!("dlock:{{{key}}}:a"));
        soon(guard.release()).await.unwrap();
    }
    let keys = client.ask("keys foo").await;
    assert!(keys.contains("dlock:fence:{43681}"), "{keys}");
}

#[tokio::test]
async fn what_it_holds_is_busy_here_and_tokens_grow() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    let first = soon(manager.lock(KEY).acquire()).await.unwrap();
    let ours = first.fencing_token().to_i64();
    assert_eq!(client.ask(&format!("acquire {KEY} 30 0")).await, "Busy");
    soon(first.release()).await.unwrap();

    let theirs = number(&client.ask(&format!("acquire {KEY} 30 0")).await);
    assert!(theirs > ours, "{theirs} {ours}");
    let lock = manager.lock(KEY).wait(Wait::Never);
    let error = soon(lock.acquire()).await.unwrap_err();
    let LockError::Busy { holder, .. } = &error else {
        panic!("{error}");
    };
    let label = holder.label.as_deref().unwrap_or_default();
    assert!(label.starts_with("ledger@"), "{label}");
    assert!(
        label.ends_with(&format!("/{}", client.process.id())),
        "{label}"
    );
    let fence = FencingToken::from_fence(holder.fence).unwrap();
    assert_eq!(fence.to_i64(), theirs);

    assert_eq!(client.ask("release").await, "True");
    let last = soon(manager.lock(KEY).acquire()).await.unwrap();
    assert!(
        last.fencing_token().to_i64() > theirs,
        "broken promise: the token did not grow"
    );
    soon(last.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// The token with which the client has got the lock from one of ours, for whom it waited, and what
/// lay in the server then.
async fn handed_on(env: &Redis, manager: &LockManager, client: &mut Program) -> (i64, String) {
    let guard = soon(manager.lock(KEY).acquire()).await.unwrap();
    let before = guard.fencing_token().to_i64();
    client.tell(&format!("acquire {KEY} 30 15")).await;
    until_waiting(env, 1).await;
    soon(guard.release()).await.unwrap();
    let token = number(&client.outcome().await);
    assert!(
        token > before,
        "broken promise: the token did not grow: {token} {before}"
    );
    (token, ask_server(env, &["GET", "dlock:{order:42}"]).await)
}

#[tokio::test]
async fn it_begins_by_a_hint_and_hands_on() {
    const ROUNDS: usize = 20;
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    let mut rounds = 0;
    let token = loop {
        let (token, value) = handed_on(&env, &manager, &mut client).await;
        // Who has asked has written its label.
        if value.ends_with(" -") {
            break token;
        }
        rounds += 1;
        assert!(rounds < ROUNDS, "it always asks: {value}");
        assert_eq!(client.ask("release").await, "True");
    };

    // The first renewal makes it a lease like any other.
    assert_eq!(client.ask("hold 1.5").await, "held");
    let value: String = ask_server(&env, &["GET", "dlock:{order:42}"]).await;
    assert!(value.contains(" ledger@"), "{value}");
    let left: i64 = ask_server(&env, &["PTTL", "dlock:{order:42}"]).await;
    assert!(left > 3000, "{left}");

    let waiting = tokio::spawn(manager.lock(KEY).wait(LIMIT).acquire());
    until_waiting(&env, 1).await;
    assert_eq!(client.ask("release").await, "True");
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(
        guard.fencing_token().to_i64() > token,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn it_shares_a_lock_with_ours() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    let reader = soon(manager.lock(KEY).shared().acquire()).await.unwrap();
    let epoch = reader.fencing_token().to_i64();
    let theirs = number(&client.ask(&format!("acquire {KEY} 30 0 +")).await);
    assert_eq!(theirs, epoch, "all who hold together have the same");
    soon(reader.release()).await.unwrap();
    assert!(
        is_busy(&manager, KEY).await,
        "broken promise: two hold the key"
    );
    assert_eq!(client.ask("release").await, "True");

    // A grant to two waiters at once.
    let writer = soon(manager.lock(KEY).acquire()).await.unwrap();
    client.tell(&format!("acquire {KEY} 30 15 +")).await;
    until_waiting(&env, 1).await;
    let waiting = tokio::spawn(manager.lock(KEY).shared().wait(LIMIT).acquire());
    until_waiting(&env, 2).await;
    let written = writer.fencing_token().to_i64();
    soon(writer.release()).await.unwrap();
    let reader = soon(waiting).await.unwrap().unwrap();
    let theirs = number(&client.outcome().await);
    assert_eq!(theirs, reader.fencing_token().to_i64());
    assert!(theirs > written, "{theirs} {written}");
    // Longer than the lease of a grant.
    assert_eq!(client.ask("hold 3.5").await, "held");
    reader.ensure_held().unwrap();
    assert_eq!(client.ask("release").await, "True");
    for (mode, outcome) in [("", "Busy"), ("+1", "Busy")] {
        let order = format!("acquire {KEY} 30 0 {mode}");
        assert_eq!(client.ask(&order).await, outcome, "{mode}");
    }
    let permit = client.ask(&format!("acquire {KEY} 30 0 +2")).await;
    assert_eq!(number(&permit), theirs);
    let third = manager.lock(KEY).permits(2);
    assert!(
        soon(third.try_acquire()).await.unwrap().is_none(),
        "broken promise: three have one of two permits"
    );
    assert_eq!(client.ask("release").await, "True");
    soon(reader.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn an_old_hint_only_makes_it_ask() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    let guard = soon(manager.lock(KEY).acquire()).await.unwrap();
    let fence = guard.fencing_token().fence();
    client.tell(&format!("acquire {KEY} 30 15")).await;
    until_waiting(&env, 1).await;
    let queue: Vec<String> = ask_server(&env, &["ZRANGE", "dlock:{order:42}:q", "0", "-1"]).await;
    let owner = &queue[0];
    let channel = format!("dlock:wake:{}", owner.split_once('.').unwrap().0);
    // The last fence that it knows of is this one already.
    for message in [
        "nonsense".to_owned(),
        format!("{owner} 1"),
        format!("{owner} {} order:43", fence + 1),
        format!("{owner} {fence} {KEY}"),
    ] {
        let heard: usize = ask_server(&env, &["PUBLISH", &channel, &message]).await;
        assert_eq!(heard, 1, "{message}");
    }
    let questions = env.server().command_count("evalsha").await;
    eventually(LIMIT, "it asks again", async || {
        env.server().command_count("evalsha").await > questions
    })
    .await;
    soon(guard.release()).await.unwrap();
    let token = number(&client.outcome().await);
    assert!(
        token > FencingToken::from_fence(fence).unwrap().to_i64(),
        "broken promise: the token did not grow"
    );
    assert_eq!(client.ask("release").await, "True");
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn it_renews_and_notices_a_loss() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    // Longer than the lease, which a machine that stands still for a second does not cost.
    assert!(number(&client.ask(&format!("acquire {KEY} 4 0")).await) > 0);
    assert_eq!(client.ask("hold 6").await, "held");
    assert!(
        is_busy(&manager, KEY).await,
        "broken promise: two hold the key"
    );

    env.delete(KEY).await;
    assert_eq!(client.ask("hold 10").await, "Lost");
    assert_eq!(client.ask("release").await, "False");

    // No answer is no loss, until the deadline.
    assert!(number(&client.ask(&format!("acquire {KEY} 1 0")).await) > 0);
    env.server().pause();
    assert_eq!(client.ask("hold 15").await, "Lost");
    env.server().resume();
    client.ask("release").await;
    env.assert_clean(1, &[&manager]).await;
}

#[cfg(feature = "admin")]
#[tokio::test]
async fn operators_see_it_and_take_its_lock_away() {
    use crate::common::ANSWER;
    use dlock::{
        admin::{Inspect as _, Inspector, Unlocked},
        store::redis::RedisConfig,
    };

    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    assert!(number(&client.ask(&format!("acquire {KEY} 9 0")).await) > 0);
    let config = RedisConfig::new(env.server().url()).response_timeout(ANSWER);
    let inspector = soon(Inspector::connect(config)).await.unwrap();
    let locks = soon(inspector.locks(None)).await.unwrap();
    let holder = locks[0].holder.as_ref().expect("the client holds it");
    let process = holder.process.as_ref().expect("it has said what it is");
    assert_eq!(process.application.as_deref(), Some("ledger"));
    assert_eq!(process.pid, client.process.id());
    assert_eq!(holder.label.as_deref(), Some(process.label.as_str()));

    let outcome = soon(inspector.unlock(&locks[0], None)).await;
    assert_eq!(outcome, Ok(Unlocked::Freed));
    assert_eq!(client.ask("hold 15").await, "Lost");
    assert_eq!(client.ask("release").await, "False");
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn who_gives_up_leaves_the_queue() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut client = start(&env).await;
    let guard = soon(manager.lock(KEY).acquire()).await.unwrap();
    assert_eq!(client.ask(&format!("acquire {KEY} 30 0.3")).await, "Busy");
    until_waiting(&env, 0).await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// When a section began and ended, by the clock of the machine, and its token.
type Section = (u64, u64, i64);

fn nanoseconds() -> u64 {
    u64::try_from(machine_time().as_nanos()).unwrap()
}

async fn take_part(
    manager: LockManager,
    sections: Arc<Mutex<Vec<Section>>>,
    over: Arc<AtomicBool>,
) {
    while !over.load(Ordering::Relaxed) {
        let lock = manager.lock(KEY).wait(Wait::Forever);
        let guard = lock.acquire().await.unwrap();
        let enter = nanoseconds();
        tokio::time::sleep(Duration::from_micros(500)).await;
        let token = guard.fencing_token().to_i64();
        sections.lock().unwrap().push((enter, nanoseconds(), token));
        guard.release().await.expect("it is not taken away");
    }
}

#[tokio::test]
async fn a_crowd_of_both_takes_turns() {
    const SECTIONS: usize = 60;
    let env = Redis::start().await;
    let (mut clients, mut managers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        clients.push(start(&env).await);
        managers.push(env.manager().await);
    }
    let sections = Arc::new(Mutex::new(Vec::new()));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for manager in managers.iter().chain(&managers) {
        tasks.spawn(take_part(manager.clone(), sections.clone(), over.clone()));
    }
    for client in &mut clients {
        client.tell(&format!("sections {KEY} {SECTIONS}")).await;
    }
    let mut theirs: Vec<Section> = Vec::new();
    for client in &mut clients {
        let notes: Vec<Section> = serde_json::from_str(&client.outcome().await).unwrap();
        theirs.extend(notes);
    }
    over.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }

    assert_eq!(theirs.len(), clients.len() * SECTIONS);
    let ours = sections.lock().unwrap().clone();
    let mut all: Vec<_> = theirs.iter().chain(&ours).copied().collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(
            pair[0].1 <= pair[1].0,
            "broken promise: two at once: {pair:?}"
        );
        assert!(
            pair[0].2 < pair[1].2,
            "broken promise: the token did not grow: {pair:?}"
        );
    }
    // Both of ours wait when one of theirs leaves, and come first.
    let is_theirs =
        |section: &&[Section]| theirs.contains(&section[0]) != theirs.contains(&section[1]);
    let changes = all.windows(2).filter(is_theirs).count();
    assert!(changes > SECTIONS, "{changes}");
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}
