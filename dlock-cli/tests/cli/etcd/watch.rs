//! `dlock watch` over etcd.

use dlock::{
    admin::{HandOffs, Inspect},
    store::StoreOptions,
};
use dlock_etcd::admin::EtcdInspector;
use dlock_testkit::Worker;
use rustix::process::Signal;
use tokio::time::timeout;

use super::{Namespace, at, builder, call_as, with_users};
use crate::{LIMIT, ended, run_signals::send};

const HOLDS: &str = "exclusive - billing@host/1 - h1 -";
const WAITS: &str = "exclusive - - - w1 mail@host/2";
const SHARES: &str = "shared - - - w1 mail@host/2";

#[tokio::test]
async fn changes_of_locks_are_printed() {
    let namespace = Namespace::new("watched").await;
    namespace.put("before", 1, HOLDS).await;
    let url = namespace.server.url();
    let watch = Worker::spawn(&mut at(&url, namespace.name, &["watch", "-i", "20ms"]));
    watch.line("held      before  billing@", LIMIT).await;
    let manager = namespace.manager("cron").await;
    let guard = manager.lock("order:1").acquire().await.unwrap();
    watch.line("acquired  order:1  cron@", LIMIT).await;
    namespace.put("order:1", 2, WAITS).await;
    watch.line("waits     order:1  mail@", LIMIT).await;
    guard.release().await.unwrap();
    watch.line("granted   order:1  ", LIMIT).await;
    namespace.delete("order:1", 2).await;
    watch.line("released  order:1  ", LIMIT).await;
    send(&watch, Signal::INT);
    ended(&watch).await.with(0);
    namespace.delete("before", 1).await;
}

/// The key and the number of the next grant.
async fn next(grants: &mut HandOffs) -> (String, u64) {
    let grant = timeout(LIMIT, grants.next()).await.expect("a grant comes");
    let grant = grant.expect("the connection lasts");
    let owner = grant.owner.to_string();
    let number = u64::from_str_radix(owner.split_once('.').unwrap().0, 16);
    assert!(grant.fence > 1000, "it is the base and a revision");
    (grant.key, number.unwrap())
}

#[tokio::test]
async fn grants_to_waiters_are_told_and_nothing_else() {
    let namespace = Namespace::new("grants").await;
    let mut options = StoreOptions::default();
    namespace.name.clone_into(&mut options.namespace);
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    // One waits before the watch begins, and two after.
    namespace.put("a%2Fb", 1, HOLDS).await;
    namespace.put("a%2Fb", 2, WAITS).await;
    let inspector = EtcdInspector::connect(&namespace.server.url(), &options)
        .await
        .unwrap();
    let mut grants = inspector.hand_offs().await.unwrap();
    for number in [3, 4] {
        namespace.put("a%2Fb", number, SHARES).await;
    }
    // A lock that was free, a release without waiters, and a waiter that leaves are no grants.
    namespace.put("free", 5, HOLDS).await;
    namespace.put("free", 6, WAITS).await;
    namespace.delete("free", 6).await;
    namespace.delete("free", 5).await;
    namespace.delete("a%2Fb", 1).await;
    assert_eq!(next(&mut grants).await, ("a/b".to_owned(), 2));
    namespace.delete("a%2Fb", 2).await;
    // Both join at once.
    for number in [3, 4] {
        assert_eq!(next(&mut grants).await, ("a/b".to_owned(), number));
    }
    // One that stays while another leaves was not granted the lock again.
    namespace.delete("a%2Fb", 3).await;
    namespace.delete("a%2Fb", 4).await;
    namespace.put("last", 7, HOLDS).await;
    namespace.put("last", 8, WAITS).await;
    namespace.delete("last", 7).await;
    assert_eq!(next(&mut grants).await, ("last".to_owned(), 8));
    namespace.delete("last", 8).await;
}

#[tokio::test]
async fn a_user_who_may_read_can_watch_and_another_cannot() {
    let server = with_users().await;
    let url = server.url();
    let mut command = at(&url, "dlock", &["watch", "-i", "20ms"]);
    command
        .env("DLOCK_USER", "looker")
        .env("DLOCK_PASSWORD", "p@ss");
    let watch = Worker::spawn(&mut command);
    let shop = format!("etcd://shop:p%40ss@127.0.0.1:{}", server.port());
    let shop = builder("shop").connect(&shop).await.unwrap();
    let guard = shop.lock("job").acquire().await.unwrap();
    watch.line("job  shop@", LIMIT).await;
    guard.release().await.unwrap();
    watch.line("released  job  shop@", LIMIT).await;
    send(&watch, Signal::INT);
    ended(&watch).await.with(0);
    let refused = call_as(&server, "guest", &["watch"]).await.with(69);
    assert!(
        refused.stderr.contains("permission denied"),
        "{}",
        refused.stderr
    );
}
