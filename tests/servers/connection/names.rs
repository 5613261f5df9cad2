//! Names of connections on the server.

use dlock_testkit::RedisServer;

use crate::common::{PERMISSIONS, builder, connect, set_permissions, soon};
use crate::connection::clients;

fn name(client: &str) -> &str {
    let mut words = client.split(' ');
    words.find_map(|word| word.strip_prefix("name=")).unwrap()
}

#[tokio::test]
async fn a_connection_tells_application_host_and_process() {
    let server = RedisServer::start().await;
    let url = server.url();
    for (protocol, count) in [("resp3", 1), ("resp2", 2)] {
        let url = format!("{url}?protocol={protocol}");
        let builder = builder().application("billing service\n\u{fc}");
        let manager = soon(builder.connect(&url)).await.unwrap();
        let clients = clients(&server).await;
        assert_eq!(clients.len(), count, "{protocol}: {clients:?}");
        for client in &clients {
            let name = name(client);
            assert!(name.starts_with("dlock:billing_service__@"), "{name}");
            assert!(
                name.ends_with(&format!("/{}", std::process::id())),
                "{name}"
            );
        }
        drop(manager);
        dlock_testkit::eventually(crate::connection::LIMIT, "they are closed", async || {
            crate::connection::clients(&server).await.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_user_who_may_not_choose_a_name_works_without() {
    let server = RedisServer::start().await;
    set_permissions(&server, PERMISSIONS).await;
    for protocol in ["resp3", "resp2"] {
        let url = format!(
            "redis://app:change-me@127.0.0.1:{}?protocol={protocol}",
            server.port()
        );
        let manager = connect(&url).await;
        assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
        assert!(clients(&server).await.is_empty(), "it has no name");
    }
}

/// What `docs/book/src/how-to/servers.md` says of `CLIENT KILL TYPE`.
#[tokio::test]
async fn connections_that_hear_of_grants_are_of_another_type_than_those_of_renewals() {
    /// Long enough for a machine that stands still for a second.
    const TTL: std::time::Duration = std::time::Duration::from_secs(5);
    let server = RedisServer::start().await;
    let of_type = async |kind: &str| {
        let answer: String = redis::cmd("CLIENT")
            .arg(&["LIST", "TYPE", kind])
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        answer.matches("name=dlock:").count()
    };
    for (protocol, expected) in [("resp3", [1, 1]), ("resp2", [1, 2])] {
        let url = format!("{}?protocol={protocol}", server.url());
        let manager = connect(&url).await;
        let guard = soon(manager.lock("order:42").ttl(TTL).acquire())
            .await
            .unwrap();
        dlock_testkit::eventually(
            crate::connection::LIMIT,
            "renewals have their connection",
            async || [of_type("pubsub").await, of_type("normal").await] == expected,
        )
        .await;
        let killed: usize = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        assert!(killed >= expected[1], "{killed}");
        soon(guard.release()).await.unwrap();
        drop(manager);
        dlock_testkit::eventually(crate::connection::LIMIT, "they are closed", async || {
            clients(&server).await.is_empty()
        })
        .await;
    }
}
