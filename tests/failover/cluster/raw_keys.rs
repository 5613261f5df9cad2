//! Locks at the keys' own texts, which have no braces, are spread over the nodes as others are.

use std::time::Duration;

use dlock::LockManager;
use dlock_testkit::Cluster;
use redis::{ExistenceCheck, SetOptions};
use tokio::time::sleep;

use crate::common::{assert_idle, soon};

/// A machine that stands still for a second keeps its leases.
const BRIEF: Duration = Duration::from_secs(4);

/// What another library does for a lock; whether it got it.
async fn set_by_hand(cluster: &Cluster, key: &str) -> bool {
    let node = cluster.master_of(key).await;
    let options = SetOptions::default().conditional_set(ExistenceCheck::NX);
    let set: Option<String> = redis::cmd("SET")
        .arg(key)
        .arg("a token of its own")
        .arg(options)
        .query_async(&mut cluster.node(node).connection().await)
        .await
        .unwrap();
    set.is_some()
}

#[tokio::test]
async fn raw_keys_lie_where_other_clients_look_and_follow_their_slots() {
    let cluster = Cluster::start(3, 0).await;
    let builder = LockManager::builder().raw_keys(true);
    let manager = builder.connect(&cluster.url()).await.unwrap();
    let mut homes = Vec::new();
    for number in 0..12 {
        let key = format!("order:{number}");
        let guard = soon(manager.lock(&*key).ttl(BRIEF).acquire())
            .await
            .unwrap();
        assert!(
            !set_by_hand(&cluster, &key).await,
            "broken promise: two hold the key"
        );
        homes.push(cluster.master_of(&key).await);
        if number == 0 {
            let slot = cluster.slot_of(&key).await;
            let to = (homes[0] + 1) % 3;
            cluster.migrate(slot, to).await;
            sleep(BRIEF * 4 / 3).await;
            guard.ensure_held().unwrap();
            assert!(!set_by_hand(&cluster, &key).await, "it has moved along");
        }
        soon(guard.release()).await.unwrap();
        assert!(set_by_hand(&cluster, &key).await, "it is free");
        let refused = soon(manager.lock(&*key).try_acquire()).await.unwrap();
        assert!(
            refused.is_none(),
            "broken promise: two hold the key: it is another client's"
        );
    }
    homes.sort_unstable();
    homes.dedup();
    assert_eq!(homes, [0, 1, 2], "of so many, some lie on every node");
    assert_idle(&[&manager]).await;
}
