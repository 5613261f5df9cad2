//! `dlock unlock` over etcd: it ends only the lease that it has shown, and tells its holder.

use dlock::{LockKey, store::StoreOptions};
use dlock_admin::{Inspect as _, Unlocked};
use dlock_etcd::admin::EtcdInspector;
use tokio::time::timeout;

use super::Namespace;
use crate::{
    LIMIT,
    cases::{self, Claim, Place},
};

async fn inspector(namespace: &Namespace) -> EtcdInspector {
    let mut options = StoreOptions::default();
    namespace.name.clone_into(&mut options.namespace);
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    EtcdInspector::connect(&namespace.server.url(), &options)
        .await
        .unwrap()
}

#[tokio::test]
async fn the_next_waiter_holds_the_lock_and_the_old_holder_is_notified() {
    let namespace = Namespace::new("unlock").await;
    cases::the_next_waiter_holds_the_lock_and_the_old_holder_is_notified(namespace).await;
}

#[tokio::test]
async fn only_the_lease_that_was_seen_is_ended() {
    let namespace = Namespace::new("seen").await;
    let inspector = inspector(&namespace).await;
    let manager = namespace.manager("one").await;
    let key = LockKey::new("job").unwrap();
    let guard = manager.lock("job").acquire().await.unwrap();
    let seen = inspector.lock(&key).await.unwrap().unwrap();
    let name = namespace.claims("job").await.remove(0);
    let value = namespace.server.get(&name).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(
        inspector.unlock(&seen, None).await.unwrap(),
        Unlocked::Changed
    );
    let later = namespace.manager("two").await;
    let later = later.lock("job").acquire().await.unwrap();
    let owner = seen.holder.as_ref().and_then(|it| it.owner);
    for holder in [None, owner] {
        let outcome = inspector.unlock(&seen, holder).await.unwrap();
        assert_eq!(outcome, Unlocked::Changed, "{holder:?}");
    }
    later.ensure_held().unwrap();
    assert_eq!(namespace.claims("job").await.len(), 1);
    later.release().await.unwrap();
    // The same owner has another lease, with another fence.
    namespace.server.put(&name, &value).await;
    assert_eq!(
        inspector.unlock(&seen, owner).await.unwrap(),
        Unlocked::Changed
    );
    assert_eq!(namespace.claims("job").await, [name]);
    namespace.server.delete("seen/job/").await;
}

#[tokio::test]
async fn of_a_shared_lock_one_holder_or_all_are_ended() {
    let namespace = Namespace::new("catalogs").await;
    let [one, two, three] = [
        namespace.manager("one").await,
        namespace.manager("two").await,
        namespace.manager("three").await,
    ];
    let first = one.lock("catalog").shared().acquire().await.unwrap();
    let second = two.lock("catalog").shared().acquire().await.unwrap();
    let inspector = inspector(&namespace).await;
    let key = LockKey::new("catalog").unwrap();
    let seen = inspector.lock(&key).await.unwrap().unwrap();
    let refused = namespace.call(&["unlock", "-y", "catalog"]).await.with(2);
    assert!(
        refused.stderr.contains("`--holder HANDLE` or `--all`"),
        "{}",
        refused.stderr
    );
    let mut holders = seen.holders();
    let holder = holders.find(|it| it.label.as_ref().unwrap().starts_with("one@"));
    let handle = holder.unwrap().owner.unwrap().handle().to_string();
    let words = ["unlock", "-y", "catalog", "--holder", &handle];
    let ended = namespace.call(&words).await.with(0);
    assert!(
        ended.stdout.contains("others share it."),
        "{}",
        ended.stdout
    );
    timeout(LIMIT, first.lost()).await.expect("it is notified");
    second.ensure_held().unwrap();

    // A holder that has joined since is ended too, and an exclusive waiter is next.
    let joined = three.lock("catalog").shared().acquire().await.unwrap();
    namespace
        .put("catalog", 4, "exclusive", Claim::Waits("next@host/4"))
        .await;
    assert_eq!(
        inspector.unlock(&seen, None).await.unwrap(),
        Unlocked::Granted
    );
    timeout(LIMIT, joined.lost()).await.expect("it is notified");
    timeout(LIMIT, second.lost()).await.expect("it is notified");
    assert_eq!(
        namespace.claims("catalog").await,
        [namespace.claim("catalog", 4)]
    );
    namespace.delete("catalog", 4).await;
}

#[tokio::test]
async fn many_holders_and_the_key_of_another_program_are_ended() {
    let namespace = Namespace::new("many").await;
    let claim = |number| {
        let name = format!("many/catalog/{number:032x}.1");
        (name, "1 1000 shared 5000 - - h1 -".to_owned())
    };
    let claims: Vec<_> = (0..150).map(claim).collect();
    namespace.server.put_all(&claims).await;
    let ended = namespace
        .call(&["unlock", "-y", "--all", "catalog"])
        .await
        .with(0);
    assert!(ended.stdout.contains("it is free"), "{}", ended.stdout);
    assert_eq!(namespace.claims("catalog").await, [""; 0]);

    namespace.server.put("many/theirs/x", "mine").await;
    let manager = namespace.manager("one").await;
    let waiting = tokio::spawn(manager.lock("theirs").wait(LIMIT).acquire());
    let ended = namespace.call(&["unlock", "-y", "theirs"]).await.with(0);
    assert!(
        ended
            .stdout
            .contains("A third-party client holds this lock"),
        "{}",
        ended.stdout
    );
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
