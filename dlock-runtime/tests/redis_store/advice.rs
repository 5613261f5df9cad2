//! What the log says of a server that works and is set up so that locks may be lost.

use dlock_runtime::store::redis::{RedisConfig, RedisStore};
use dlock_testkit::{Make, RedisServer, eventually};

use crate::{DEADLINE, key, log::Log, owner, run, take, try_take};

const WORDS: &str = "the server may evict locks: set its `maxmemory-policy` to `noeviction`";

// D9
pub(crate) async fn a_server_that_may_evict_locks_is_warned_of_once(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let (log, _capturing) = Log::capture();
    let connect = || async {
        let config = RedisConfig::new(server.url());
        RedisStore::connect(config).await.unwrap()
    };
    let warned = || log.lines(&format!("WARN {WORDS}"));

    run(&mut behind, "CONFIG SET maxmemory-policy volatile-ttl").await;
    drop(connect().await);
    assert_eq!(warned(), [""; 0], "it has no limit");
    run(&mut behind, "CONFIG SET maxmemory 100mb").await;
    let store = connect().await;
    let expected = format!(
        "WARN {WORDS} server={} policy=\"volatile-ttl\"",
        server.url()
    );
    assert_eq!(warned().len(), 1, "{}", log.lines("").concat());
    assert!(warned()[0].starts_with(&expected), "{}", warned()[0]);

    // The same over another connection is no news; that it keeps what it has is none either.
    for (policy, warnings) in [("volatile-ttl", 1), ("noeviction", 1), ("allkeys-lru", 2)] {
        run(
            &mut behind,
            &format!("CONFIG SET maxmemory-policy {policy}"),
        )
        .await;
        let connected = log.lines("INFO connected").len();
        // It is subscribed, as far as the server is concerned.
        run(&mut behind, "CLIENT KILL TYPE pubsub").await;
        eventually(DEADLINE, "it is connected again", async || {
            log.lines("INFO connected").len() > connected
        })
        .await;
        assert_eq!(warned().len(), warnings, "{policy}");
    }
    take(&store, &key("k"), owner()).await;
}

/// Its user need not be allowed to ask.
pub(crate) async fn a_server_that_does_not_say_how_it_makes_room_is_taken(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let (log, _capturing) = Log::capture();
    run(&mut behind, "CONFIG SET maxmemory 100mb").await;
    run(&mut behind, "CONFIG SET maxmemory-policy volatile-ttl").await;
    let rules = "ACL SETUSER me on >s3cret +@all -info ~dlock:* resetchannels &dlock:*";
    run(&mut behind, rules).await;
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(RedisConfig::new(url)).await.unwrap();
    try_take(&store, &key("k"), owner()).await.unwrap();
    assert_eq!(log.lines("WARN"), [""; 0]);
}
