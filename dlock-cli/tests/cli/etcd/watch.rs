//! `dlock watch` over etcd.

use dlock::store::StoreOptions;
use dlock_etcd::admin::EtcdInspector;
use dlock_testkit::Worker;
use rustix::process::Signal;

use super::{Namespace, builder, call_as, with_users};
use crate::{
    LIMIT,
    cases::{self, at},
    ended,
    run_signals::send,
};

#[tokio::test]
async fn changes_of_locks_are_printed() {
    cases::changes_of_locks_are_printed(Namespace::new("watched").await).await;
}

#[tokio::test]
async fn grants_to_waiters_are_told_and_nothing_else() {
    let namespace = Namespace::new("grants").await;
    let mut options = StoreOptions::default();
    namespace.name.clone_into(&mut options.namespace);
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    let inspector = EtcdInspector::connect(&namespace.server.url(), &options).await;
    cases::grants_to_waiters_are_told_and_nothing_else(namespace, &inspector.unwrap()).await;
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
