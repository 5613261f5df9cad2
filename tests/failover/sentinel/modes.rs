//! Readers, writers and holders of permits while a master dies, and where too few replicas confirm.

use std::time::Duration;

use dlock::{LockError, LockGuard, LockManager, LockRequest, LostCause, OnLost, Wait};
use dlock_testkit::{RedisServer, Sentinels, eventually, within};

use crate::common::{ANSWER, is_lost, soon};
use crate::sentinel::{LONG, manager, replicas, small_and_patient};

const SHARED: &str = "dlock:{catalog:7}";
const COUNTED: &str = "dlock:{export:7}";

/// Longer than a fail-over takes, and short enough to be renewed soon after it.
const TTL: Duration = Duration::from_secs(20);

fn reader(manager: &LockManager) -> LockRequest {
    manager.lock("catalog:7").shared().ttl(TTL)
}

fn permit(manager: &LockManager) -> LockRequest {
    manager.lock("export:7").permits(2).ttl(TTL)
}

/// When each lease of a shared lock ends by the server's clock, by its owner.
async fn ends(server: &RedisServer, lock: &str) -> Vec<(String, u64)> {
    let fields: Vec<(String, String)> = server.read(redis::cmd("HGETALL").arg(lock)).await;
    let holders = fields.into_iter().filter(|(owner, _)| owner != "!");
    let ends = holders.map(|(owner, lease)| {
        let (end, _) = lease.split_once(' ').expect("an end and a label");
        (owner, end.parse().unwrap())
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort();
    ends
}

#[tokio::test]
async fn leases_that_were_replicated_go_on_together_at_the_new_master() {
    let all = Sentinels::start().await;
    let managers = [manager(&all).await, manager(&all).await];
    let other = manager(&all).await;
    let first = all.master().await;
    let (mut readers, mut permits): (Vec<LockGuard>, Vec<LockGuard>) = Default::default();
    for manager in &managers {
        readers.push(soon(reader(manager).acquire()).await.unwrap());
        permits.push(soon(permit(manager).acquire()).await.unwrap());
    }
    let waiting = tokio::spawn(other.lock("catalog:7").acquire());
    eventually(LONG, "the writer waits", async || {
        first.keys("dlock:{catalog:7}:q").await.len() == 1
    })
    .await;
    all.until_replicated(first, 2).await;

    first.kill();
    let second = all.master_after(first).await;
    for lock in [SHARED, COUNTED] {
        let before = ends(second, lock).await;
        assert_eq!(before.len(), 2, "{before:?}");
        eventually(LONG, "each lease is renewed", async || {
            let now = ends(second, lock).await;
            let pairs = before.iter().zip(&now);
            now.len() == 2 && pairs.clone().all(|(before, now)| before.1 < now.1)
        })
        .await;
    }
    for guard in readers.iter().chain(&permits) {
        guard.ensure_held().unwrap();
    }
    let token = readers[0].fencing_token();
    assert_eq!(
        token,
        readers[1].fencing_token(),
        "broken promise: two tokens together"
    );
    assert!(
        !waiting.is_finished(),
        "broken promise: a writer is beside readers"
    );
    // As many as before: the writer keeps out new readers, and there is no third permit.
    let third = permit(&other).try_acquire();
    assert!(soon(third).await.unwrap().is_none());
    let late = other.lock("catalog:7").shared().try_acquire();
    assert!(soon(late).await.unwrap().is_none());

    for guard in readers.into_iter().chain(permits) {
        soon(guard.release()).await.unwrap();
    }
    let writer = soon(waiting).await.unwrap().unwrap();
    assert!(
        writer.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    let token = writer.fencing_token();
    soon(writer.release()).await.unwrap();
    let last = soon(reader(&managers[0]).acquire()).await.unwrap();
    assert!(
        last.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(last.release()).await.unwrap();
}

/// The replica has never heard of the readers. Those that come next have a greater token, and so has a writer.
#[tokio::test]
async fn an_epoch_that_the_replica_missed_is_over_and_the_next_has_a_greater_token() {
    let all = small_and_patient().await;
    let (reads, next) = (manager(&all).await, manager(&all).await);
    let [first, replica] = all.servers() else {
        panic!("there are two");
    };
    let before = soon(reader(&reads).acquire()).await.unwrap();
    soon(before.release()).await.unwrap();
    all.until_replicated(first, 1).await;
    all.cut_off(replica).await;
    let lost = reader(&reads).ttl(Duration::from_secs(24));
    let lost = soon(lost.on_lost(OnLost::Stop).acquire()).await.unwrap();
    first.kill();
    let second = all.master_after(first).await;
    assert_eq!(second.port(), replica.port());
    let guard = soon(reader(&next).acquire()).await.unwrap();
    assert!(
        guard.fencing_token() > lost.fencing_token(),
        "broken promise: the token did not grow"
    );
    let told = lost.run_while_held(std::future::pending::<()>());
    let told = within(LONG, Box::pin(told)).await.expect("it hangs");
    assert!(
        is_lost(&told, |cause| matches!(cause, LostCause::Revoked)),
        "{told:?}"
    );
    guard.ensure_held().unwrap();
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    let writer = soon(next.lock("catalog:7").acquire()).await.unwrap();
    assert!(
        writer.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(writer.release()).await.unwrap();
}

/// The replica still has a reader that has left, and never received the writer after it.
#[tokio::test]
async fn who_joins_a_reader_that_a_replica_brings_back_has_its_token_until_the_key_is_free() {
    let all = small_and_patient().await;
    let (left, lost, next) = (
        manager(&all).await,
        manager(&all).await,
        manager(&all).await,
    );
    let [first, replica] = all.servers() else {
        panic!("there are two");
    };
    let long = Duration::from_secs(300);
    let reading = reader(&left).ttl(long).acquire();
    let reading = soon(reading).await.unwrap();
    let brought_back = reading.fencing_token();
    all.until_replicated(first, 1).await;
    all.cut_off(replica).await;
    soon(reading.release()).await.unwrap();
    let writer = soon(lost.lock("catalog:7").acquire()).await.unwrap();
    let forgotten = writer.fencing_token();
    soon(writer.release()).await.unwrap();
    assert!(forgotten > brought_back);
    first.kill();
    let second = all.master_after(first).await;
    assert_eq!(second.port(), replica.port());

    let joined = soon(reader(&next).acquire()).await.unwrap();
    assert_eq!(joined.fencing_token(), brought_back);
    assert_eq!(ends(second, SHARED).await.len(), 2);
    soon(joined.release()).await.unwrap();
    let writer = next.lock("catalog:7").try_acquire();
    assert!(
        soon(writer).await.unwrap().is_none(),
        "broken promise: a writer is beside a reader"
    );
    // As if its lease had ended.
    second.read::<()>(redis::cmd("DEL").arg(SHARED)).await;
    let reading = soon(reader(&next).acquire()).await.unwrap();
    assert!(
        reading.fencing_token() > forgotten,
        "broken promise: the token did not grow"
    );
    soon(reading.release()).await.unwrap();
}

/// Who is inside by a lease that was confirmed is not disturbed.
#[tokio::test]
async fn with_too_few_replicas_nobody_joins_and_those_inside_stay() {
    let all = Sentinels::start_small().await;
    let [one, two] = [
        replicas::confirmed(&all, 1).await,
        replicas::confirmed(&all, 2).await,
    ];
    let master = &all.servers()[0];
    let inside = [reader(&one), permit(&one)].map(|lock| soon(lock.acquire()));
    let inside = futures_util::future::join_all(inside).await;
    let inside: Vec<_> = inside.into_iter().map(Result::unwrap).collect();
    for lock in [reader(&two), permit(&two)] {
        let tried = soon(lock.clone().try_acquire()).await;
        replicas::too_few(&tried.expect_err("one of two has confirmed"));
        let waited = soon(lock.wait(ANSWER).acquire()).await;
        replicas::too_few(&waited.expect_err("one of two has confirmed"));
    }
    eventually(LONG, "those inside are left alone", async || {
        let shared = ends(master, SHARED).await.len();
        two.active_keys() == 0 && shared == 1 && ends(master, COUNTED).await.len() == 1
    })
    .await;
    for guard in inside {
        guard.ensure_held().unwrap();
        soon(guard.release()).await.unwrap();
    }
    assert_eq!(master.keys("dlock:{*").await, Vec::<String>::new());
}

/// The hint of a grant that joins others is not believed either.
#[tokio::test]
async fn readers_that_a_writer_lets_in_are_confirmed_too() {
    let all = Sentinels::start_small().await;
    let confirmed = async || replicas::confirmed(&all, 1).await;
    let managers = [confirmed().await, confirmed().await, confirmed().await];
    let [master, replica] = all.servers() else {
        panic!("there are two");
    };
    let writer = soon(managers[0].lock("catalog:7").acquire()).await.unwrap();
    let readers = [1, 2].map(|number: usize| {
        let lock = reader(&managers[number]).wait(Wait::Forever);
        tokio::spawn(lock.acquire())
    });
    eventually(LONG, "both wait", async || {
        let mut count = redis::cmd("ZCARD");
        master.read::<u64>(count.arg("dlock:{catalog:7}:q")).await == 2
    })
    .await;
    replica.pause();
    let waits = master.command_count("wait").await;
    let token = writer.fencing_token();
    soon(writer.release()).await.unwrap();
    eventually(LONG, "both ask whether replicas know", async || {
        master.command_count("wait").await >= waits + 3
    })
    .await;
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    replica.resume();
    for reader in readers {
        let guard = soon(reader).await.unwrap().unwrap();
        assert!(
            guard.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(guard.release()).await.unwrap();
    }
    let refused: Result<(), LockError> =
        soon(managers[0].lock("catalog:7").run(async |_| ())).await;
    refused.unwrap();
}
