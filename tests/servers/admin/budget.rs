//! The budget of an inspection: at most 5 % of a server's time, by its own measure. An inspector that was not told to begin has
//! saved no time before it was created.

use std::time::Duration;

use dlock::{LockKey, admin::Inspect};
use dlock_testkit::{RedisServer, eventually};

use crate::admin::{inspector, manager};
use crate::common::{LIMIT, soon};

/// Keys of others, each walk through which is 40 steps.
const KEYS: u32 = 40_000;

async fn server_with_keys_of_others(count: u32) -> RedisServer {
    let server = RedisServer::start().await;
    let fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'other:' .. i, 'x') end";
    redis::cmd("EVAL")
        .arg(fill)
        .arg(0)
        .arg(count)
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    server
}

/// What the server tells of itself: its clock, how often it has scanned, and how long it was busy with the
/// commands of all clients.
///
/// The time of a command goes on while another process has the processor, which no inspection knows. The time of the thread
/// does not, but contains more than commands. The lesser of the two is asserted.
struct Told {
    clock: Duration,
    scans: u64,
    busy: Duration,
    ran: Duration,
}

async fn told(server: &RedisServer) -> Told {
    let mut connection = server.connection().await;
    let time = redis::cmd("TIME");
    let (seconds, micros): (u64, u64) = time.query_async(&mut connection).await.unwrap();
    let mut info = redis::cmd("INFO");
    let info = info.arg("cpu").arg("commandstats");
    let info: String = info.query_async(&mut connection).await.unwrap();
    let (mut scans, mut busy) = (0, 0);
    for line in info.lines().filter(|it| it.starts_with("cmdstat_")) {
        let (name, fields) = line.split_once(':').unwrap();
        let field = |wanted: &str| {
            let mut pairs = fields.split(',').filter_map(|it| it.split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == wanted).unwrap();
            value.parse::<u64>().unwrap()
        };
        if name == "cmdstat_scan" {
            scans = field("calls");
        }
        // What tells of it is none of it.
        if !matches!(name, "cmdstat_info" | "cmdstat_hello") {
            busy += field("usec");
        }
    }
    let ran = ["user", "sys"].map(|kind| {
        let name = format!("used_cpu_{kind}_main_thread:");
        let ran = info.lines().find_map(|it| it.strip_prefix(&name));
        Duration::from_secs_f64(ran.unwrap().parse().unwrap())
    });
    Told {
        clock: Duration::from_secs(seconds) + Duration::from_micros(micros),
        scans,
        busy: Duration::from_micros(busy),
        ran: ran.iter().sum(),
    }
}

/// How long the server was busy in between, and how much time has passed.
fn between(before: &Told, after: &Told) -> (Duration, Duration) {
    let since = |of: fn(&Told) -> Duration| of(after).checked_sub(of(before)).unwrap();
    (
        since(|it| it.busy).min(since(|it| it.ran)),
        since(|it| it.clock),
    )
}

fn assert_within_budget(before: &Told, after: &Told) {
    let (busy, passed) = between(before, after);
    assert!(busy * 20 <= passed, "busy for {busy:?} of {passed:?}");
}

#[tokio::test]
async fn a_look_through_keys_of_others_keeps_to_it() {
    let server = server_with_keys_of_others(KEYS).await;
    let manager = manager(&server.url()).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    eventually(LIMIT, "it says what it is", async || {
        server.processes().await.len() == 1
    })
    .await;
    let before = told(&server).await;
    let inspector = inspector(&server.url()).await;
    let locks = inspector.locks(None).await.unwrap();
    let after = told(&server).await;
    assert_eq!(locks.len(), 1, "{locks:?}");
    assert!(after.scans - before.scans >= u64::from(KEYS / 1000));
    assert_within_budget(&before, &after);

    // Locks and processes are found in one walk.
    let seen = inspector.overview().await.unwrap();
    let both = told(&server).await;
    assert_eq!((&seen.locks[0].key, seen.locks.len()), (&locks[0].key, 1));
    assert_eq!(seen.processes, inspector.processes().await.unwrap());
    assert_eq!(seen.processes.len(), 1, "{seen:?}");
    assert_eq!(both.scans - after.scans, after.scans - before.scans);
    assert_within_budget(&before, &both);
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn a_look_at_some_locks_is_no_walk() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let guards = ["a", "b"].map(|key| manager.lock(key).acquire());
    let guards = futures_util::future::join_all(guards).await;
    let before = told(&server).await;
    let keys = ["b", "free", "b"].map(|key| LockKey::new(key).unwrap());
    let seen = inspector.locks_of(&keys).await.unwrap();
    assert_eq!(told(&server).await.scans, before.scans);
    let all = inspector.locks(None).await.unwrap();
    assert_eq!((&all[0].key[..], &all[1].key[..], all.len()), ("a", "b", 2));
    assert_eq!(
        (&seen[0].key, &seen[0].holder.as_ref().unwrap().owner),
        (&all[1].key, &all[1].holder.as_ref().unwrap().owner)
    );
    assert_eq!(seen.len(), 1);
    for guard in guards {
        guard.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn looks_one_after_the_other_keep_to_it() {
    // Each look is a single step.
    let server = server_with_keys_of_others(900).await;
    let before = told(&server).await;
    let inspector = inspector(&server.url()).await;
    for _ in 0..100 {
        inspector.locks(None).await.unwrap();
    }
    assert_within_budget(&before, &told(&server).await);
}

#[tokio::test]
async fn a_program_that_has_just_begun_keeps_to_it_later() {
    let server = server_with_keys_of_others(KEYS).await;
    let before = told(&server).await;
    let inspector = inspector(&server.url()).await;
    Inspect::begin(&inspector);
    let at_once = Duration::from_millis(500);
    loop {
        inspector.locks(None).await.unwrap();
        let after = told(&server).await;
        let (busy, passed) = between(&before, &after);
        let more = busy.saturating_sub(at_once);
        assert!(more * 20 <= passed, "busy for {busy:?} of {passed:?}");
        if more * 6 >= at_once {
            return;
        }
    }
}

#[tokio::test]
async fn without_a_pace_the_same_is_found() {
    let server = server_with_keys_of_others(KEYS).await;
    let manager = manager(&server.url()).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let inspector = inspector(&server.url()).await.at_full_speed();
    assert_eq!(inspector.progress(), None);
    let look = inspector.locks(None);
    tokio::pin!(look);
    let mut parts = Vec::new();
    let locks = loop {
        tokio::select! {
            biased;
            locks = &mut look => break locks.unwrap(),
            () = tokio::task::yield_now() => parts.extend(inspector.progress()),
        }
    };
    assert_eq!(locks[0].key, "order:42");
    // It was seen on its way, and never to go back.
    assert!(parts.is_sorted(), "{parts:?}");
    assert!(parts.iter().any(|it| (0.1..0.9).contains(it)), "{parts:?}");
    assert_eq!(inspector.progress(), None);
    soon(guard.release()).await.unwrap();
}
