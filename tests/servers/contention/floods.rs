//! Floods of messages, and of callers that wait for a server to come back.

use std::time::Duration;

use dlock::{LockError, LockManager, Wait};
use dlock_testkit::{Proxy, RedisServer, eventually, within};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::common::{Env, LIMIT, OneKey, Redis, assert_idle, soon};

/// The ids of our connections.
async fn connections(server: &RedisServer) -> Vec<String> {
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    let ours = list.lines().filter(|line| line.contains(" name=dlock:"));
    let mut ids: Vec<_> = ours
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

// G5, G13
/// Each message is looked at when it is read, and nothing of it is kept; the waiter asks, one
/// question after the other, and believes what it is answered.
#[tokio::test]
async fn of_messages_cost_neither_the_connection_nor_the_place_in_the_queue() {
    const MESSAGES: usize = 40_000;
    const AT_ONCE: usize = 2_000;
    let env = Redis::start().await;
    let (holder, waiter) = (env.manager().await, env.manager().await);
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("order:42").wait(Wait::Forever).acquire());
    let key = OneKey::new(env.store().await, "order:42");
    key.until_waiting(1).await;
    let mut behind = env.server.connection().await;
    let owners: Vec<String> = redis::cmd("ZRANGE")
        .arg(&["dlock:{order:42}:q", "0", "0"])
        .query_async(&mut behind)
        .await
        .unwrap();
    let owner = &owners[0];
    let channel = format!("dlock:wake:{}", owner.split_once('.').unwrap().0);
    let before = (
        connections(&env.server).await,
        env.server.command_count("evalsha").await,
    );
    for _ in 0..MESSAGES / AT_ONCE {
        let mut flood = redis::pipe();
        for number in 0..AT_ONCE {
            // Some make it ask, others are for nobody, or are no hints at all.
            let message = match number % 4 {
                0 => format!("{owner} 0 order:42"),
                1 => format!("{owner} 1 order:42"),
                2 => format!("{owner} 7 order:7"),
                _ => "x".repeat(100),
            };
            flood.cmd("PUBLISH").arg(&channel).arg(message).ignore();
        }
        soon(flood.exec_async(&mut behind)).await.unwrap();
    }
    let asked = env.server.command_count("evalsha").await - before.1;
    println!("{asked} questions for {MESSAGES} messages");
    assert!(asked < MESSAGES as u64 / 20, "{asked} questions");
    // A connection for renewals may have been opened since.
    let after = connections(&env.server).await;
    let is_there = |id| after.contains(id);
    assert!(before.0.iter().all(is_there), "{:?} {after:?}", before.0);
    assert!(!waiting.is_finished());
    guard.ensure_held().unwrap();
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &waiter]).await;
}

// G17
/// They wait without asking the network, are told at once if they do not want to wait, and all have
/// their turn over one connection when the server is back.
#[tokio::test]
async fn of_callers_wait_for_a_server_that_is_away_and_do_not_storm_it() {
    const CALLERS: usize = 2_000;
    /// They take a while on a loaded machine.
    const LONG: Duration = Duration::from_mins(10);
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    // A machine under load answers late, which is no reason to connect again.
    let builder = LockManager::builder().response_timeout(LIMIT);
    let builder = builder.connect_timeout(LIMIT);
    let manager = soon(builder.connect(&proxy.url())).await.unwrap();
    proxy.refuse();
    proxy.cut();
    eventually(LIMIT, "who does not wait is told at once", async || {
        let outcome = soon(manager.lock("order:0").try_acquire()).await;
        matches!(outcome, Err(LockError::Unavailable { .. }))
    })
    .await;
    let (connected, asked) = (
        proxy.accepted_connections(),
        env.server.command_count("evalsha").await,
    );
    let callers = (0..CALLERS).map(|number| {
        let lock = manager.lock(format!("order:{number}")).wait(LONG);
        tokio::spawn(lock.run(async |_| ()))
    });
    let callers: Vec<_> = callers.collect();
    eventually(LIMIT, "all wait", async || manager.active_keys() == CALLERS).await;
    // So long that they have all asked several times, and wait for a second each.
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(manager.active_keys(), CALLERS);
    proxy.accept();
    let accepts = Instant::now();
    let outcomes = within(LONG, join_all(callers)).await;
    for outcome in outcomes.expect("all have their turn") {
        outcome.unwrap().unwrap();
    }
    // On a machine under load an attempt may take longer than it may, and another one begins a while later.
    let more = proxy.accepted_connections() - connected;
    let most = 3 + usize::try_from(accepts.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&more), "{more} connections");
    let requests = env.server.command_count("evalsha").await - asked;
    println!("{requests} requests for {CALLERS} sections after the outage");
    // Taken and given back. A few may have been under way when the network went, or are repeated on a machine under load; if all
    // asked once more, that would be a storm.
    let most = (2 * CALLERS + CALLERS / 100) as u64;
    assert!(requests <= most, "{requests}");
    assert_idle(&[&manager]).await;
    assert_eq!(env.locks().await, Vec::<String>::new());
}
