//! What is answered where a lock lies at the key's own text, beside the data of others.

use dlock_runtime::store::{
    LockStore, ReleaseRequest, Released, Renewal, StoreErrorKind,
    redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Make, RedisServer};

use crate::{get, key, owner, queue, refusals_of, renewal, run, take, try_take};

async fn with_raw_keys(url: String) -> RedisStore {
    let config = RedisConfig::new(url).raw_keys(true);
    RedisStore::connect(config).await.unwrap()
}

pub(crate) async fn a_raw_key_needs_a_pattern_of_its_own(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let line = include_str!("../../src/store/redis/permissions.txt");
    run(&mut behind, line.trim_end()).await;
    let url = format!("redis://app:change-me@127.0.0.1:{}", server.port());
    let store = with_raw_keys(url).await;
    let (lock, me, waiter) = (key("order:42"), owner(), owner());
    let error = try_take(&store, &lock, me)
        .await
        .expect_err("the key is not the user's");
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("lock at `order:42`"), "{error}");
    assert_eq!(server.keys("*").await, Vec::<String>::new());

    run(&mut behind, "ACL SETUSER app ~order:*").await;
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    take(&store, &lock, waiter).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiter)).await,
        Ok(Released::WasHeld)
    );
}

pub(crate) async fn foreign_data_at_a_raw_key_is_never_touched(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let store = with_raw_keys(server.url()).await;
    let (lock, me) = (key("order:42"), owner());
    run(&mut behind, "HSET order:42 field value").await;
    for error in refusals_of(&store, &lock, me).await {
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        assert!(error.to_string().contains("lock at `order:42`"), "{error}");
    }
    run(&mut behind, "DEL order:42").await;

    // Somebody's data, or the lock of a client that has crashed without a TTL.
    run(&mut behind, "SET order:42 data").await;
    let busy = queue(&store, &lock, me).await;
    assert_eq!((&busy.label, busy.ttl), (&None, None));
    assert!(
        busy.to_string().contains("another client without a TTL"),
        "{busy}"
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasGone)
    );
    assert_eq!(get(&mut behind, "order:42").await.as_deref(), Some("data"));
    assert_eq!(server.keys("*").await, ["order:42"]);
}
