//! A subscription counts only when the server has confirmed it.

use dlock_testkit::{Proxy, RedisServer, eventually};

use crate::common::{connect, soon};
use crate::connection::{LIMIT, assert_works};

// G3
/// The connection is replaced until it is confirmed, and hints come again.
#[tokio::test]
async fn one_that_was_not_confirmed_is_asked_for_again() {
    for protocol in ["resp3", "resp2"] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let url = |url: &str| format!("{url}?protocol={protocol}");
        let near = connect(&url(&server.url())).await;
        let far = connect(&url(&proxy.url())).await;
        for carried_out in [false, true, false] {
            if carried_out {
                proxy.cut_before_reply_to("SUBSCRIBE");
            } else {
                proxy.cut_before_request("SUBSCRIBE");
            }
            proxy.cut();
            eventually(LIMIT, "it has tried to subscribe", async || {
                !proxy.is_trap_set()
            })
            .await;
        }
        eventually(LIMIT, "it is there again", async || {
            proxy.open_connections() > 0
        })
        .await;
        let lock = far.lock("order:42").wait(LIMIT);
        assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
        assert_works(&server, &near, &far).await;
    }
}
