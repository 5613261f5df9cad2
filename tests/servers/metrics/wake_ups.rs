//! Wake-up messages that scripts cannot publish: the client does, and hand-offs stay as quick.

use dlock::{
    Wait,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Proxy, RedisServer, eventually};

use crate::common::{ANSWER, LIMIT, OneKey, assert_idle, connect, soon};
use crate::metrics::recorded::Recorded;

const KEY: &str = "order:42";
const HAND_OFFS: u32 = 30;
const FROM_THE_STORE: &str = "dlock_handed_over_total{template=none,mode=exclusive,by=store}";
/// The only name by which the server knows `PUBLISH`.
const PUBLISH: &str = "PUBLISX";

/// Two managers take turns, and each waits for its own.
async fn take_turns(url: &str, server: &RedisServer) {
    let managers = [connect(url).await, connect(url).await];
    let config = RedisConfig::new(server.url()).response_timeout(ANSWER);
    let key = OneKey::new(RedisStore::connect(config).await.unwrap(), KEY);
    let mut guard = soon(managers[0].lock(KEY).acquire()).await.unwrap();
    for manager in managers.iter().rev().cycle().take(HAND_OFFS as usize) {
        let waiting = tokio::spawn(manager.lock(KEY).wait(Wait::Forever).acquire());
        key.until_waiting(1).await;
        soon(guard.release()).await.unwrap();
        guard = soon(waiting).await.unwrap().unwrap();
    }
    soon(guard.release()).await.unwrap();
    assert_idle(&managers.each_ref()).await;
}

/// A waiter that polls finds its grant by a question, and is not counted here. On a machine that stands
/// still for a second that may happen now and then.
fn came_by_messages(recorded: &Recorded) -> bool {
    recorded.count(FROM_THE_STORE) > f64::from(HAND_OFFS) / 2.0
}

#[tokio::test]
async fn hand_offs_come_by_message_although_no_script_can_publish() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start_with(&["--rename-command", "PUBLISH", PUBLISH]).await;
    let proxy = Proxy::start(server.port());
    proxy.rename("PUBLISH", PUBLISH);
    take_turns(&proxy.url(), &server).await;
    let sent = format!(
        "dlock_wake_ups_resent_total{{server={},outcome=sent}}",
        proxy.url()
    );
    // Counted behind the hand-off, when the server has answered.
    eventually(LIMIT, "all are sent again", async || {
        recorded.sum("dlock_wake_ups_resent_total") >= f64::from(HAND_OFFS)
    })
    .await;
    assert_eq!(recorded.count(&sent), f64::from(HAND_OFFS));
    assert_eq!(
        recorded.sum("dlock_wake_ups_resent_total"),
        f64::from(HAND_OFFS)
    );
    assert!(
        came_by_messages(&recorded),
        "{}",
        recorded.count(FROM_THE_STORE)
    );
}

#[tokio::test]
async fn nothing_is_sent_again_where_scripts_can_publish() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start().await;
    take_turns(&server.url(), &server).await;
    assert_eq!(recorded.sum("dlock_wake_ups_resent_total"), 0.0);
    assert!(
        came_by_messages(&recorded),
        "{}",
        recorded.count(FROM_THE_STORE)
    );
}

#[tokio::test]
async fn what_nobody_may_publish_is_counted() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start().await;
    let url = server.url();
    let managers = [connect(&url).await, connect(&url).await];
    let config = RedisConfig::new(url).response_timeout(ANSWER);
    let key = OneKey::new(RedisStore::connect(config).await.unwrap(), KEY);
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", "-publish"])
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    let guard = soon(managers[0].lock(KEY).acquire()).await.unwrap();
    let waiting = tokio::spawn(managers[1].lock(KEY).wait(Wait::Forever).acquire());
    key.until_waiting(1).await;
    soon(guard.release()).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    let failed = format!("server={},outcome=failed", server.url());
    assert_eq!(
        recorded.all("dlock_wake_ups_resent_total"),
        crate::metrics::recorded::once(&failed)
    );
    assert_idle(&managers.each_ref()).await;
}
