//! Requests depend on no subscription.

use dlock_runtime::store::{LockStore, ReleaseRequest, Released, Renewal};
use dlock_testkit::{Make, RedisServer, eventually};

use crate::{DEADLINE, connect, key, log::Log, owner, queue, renewal, run, take};

pub(crate) async fn a_server_that_refuses_the_connection_for_hints_serves_requests(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    // That one, and another one.
    run(&mut behind, "CONFIG SET maxclients 2").await;
    let (log, _guard) = Log::capture();
    let store = connect(&format!("{}?protocol=resp2", server.url())).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    for owner in [me, waiter] {
        assert_eq!(
            store.release(ReleaseRequest::new(&lock, owner)).await,
            Ok(Released::WasHeld)
        );
    }
    let missing = log.lines("WARN no wake-up messages: waiters poll");
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].contains("max number of clients"), "{missing:?}");
    let back = "INFO wake-up messages again";
    assert!(log.lines(back).is_empty());

    run(&mut behind, "CONFIG SET maxclients 100").await;
    eventually(DEADLINE, "it has subscribed", async || {
        !log.lines(back).is_empty()
    })
    .await;
    assert_eq!(log.lines("WARN no wake-up messages").len(), 1);
}
