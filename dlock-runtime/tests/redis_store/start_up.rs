//! What `connect` answers when locks would not work, or when nobody answers.

use std::time::Duration;

use dlock_runtime::{
    ConnectError,
    store::{
        StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Make, Proxy, RedisServer};
use tokio::time::timeout;

use crate::{DEADLINE, run};

async fn fails(url: String, connect_timeout: Duration) -> (StoreErrorKind, String) {
    let config = RedisConfig::new(url).connect_timeout(connect_timeout);
    let error = timeout(DEADLINE, RedisStore::connect(config))
        .await
        .expect("it ends in time")
        .expect_err("locks would not work");
    match error {
        ConnectError::Unavailable { reason, .. } => {
            // What its kind advises is about something else.
            if reason.kind() == StoreErrorKind::Unsupported {
                assert!(!reason.to_string().contains("6.2"), "{reason}");
            }
            (reason.kind(), reason.message().to_owned())
        }
        other => panic!("{other}"),
    }
}

pub(crate) async fn a_user_who_may_not_subscribe_is_refused(make: Make) {
    let server = RedisServer::start_make(make).await;
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    for lacks in [
        "+@all resetchannels",
        "+@all resetchannels &dlock:other:*",
        "+@all -subscribe resetchannels &dlock:*",
    ] {
        let rules = format!("ACL SETUSER me reset on >s3cret ~dlock:* {lacks}");
        run(&mut server.connection().await, &rules).await;
        let (kind, text) = fails(url.clone(), 2 * DEADLINE).await;
        assert_eq!(kind, StoreErrorKind::Denied, "{lacks}");
        assert!(
            text.contains("(`SUBSCRIBE` to `dlock:wake:*`)"),
            "{lacks}: {text}"
        );
    }
}

pub(crate) async fn a_server_that_runs_no_scripts_is_refused(make: Make) {
    for command in ["EVALSHA", "EVAL"] {
        let arguments = ["--rename-command", command, "SOMETHING_ELSE"];
        let server = RedisServer::start_make_with(make, &arguments).await;
        let (kind, text) = fails(server.url(), 2 * DEADLINE).await;
        assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
        assert!(
            text.contains(&format!("unknown command '{command}'")),
            "{text}"
        );
        assert!(text.contains("rename-command"), "{text}");
    }
    let server = RedisServer::start_make(make).await;
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    for (right, command) in [("-evalsha", "EVALSHA"), ("-eval", "EVAL")] {
        let rules = format!("ACL SETUSER me reset on >s3cret ~* &* +@all {right}");
        run(&mut server.connection().await, &rules).await;
        let (kind, text) = fails(url.clone(), 2 * DEADLINE).await;
        assert_eq!(kind, StoreErrorKind::Denied, "{text}");
        let named = format!("(`{command}`, rule `+{}`)", command.to_lowercase());
        assert!(text.contains(&named), "{text}");
    }
}

pub(crate) async fn a_database_that_is_not_there_is_named(make: Make) {
    let server = RedisServer::start_make(make).await;
    for number in ["99", "2147483647", "9999999999"] {
        let (kind, text) = fails(format!("{}/{number}", server.url()), 2 * DEADLINE).await;
        assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
        let named = format!("the server has no database {number} (");
        assert!(text.starts_with(&named), "{text}");
    }
}

pub(crate) async fn who_gives_up_says_after_how_long(make: Make) {
    const LIMIT: Duration = Duration::from_millis(3300);
    let [server, gone] = [
        RedisServer::start_make(make).await,
        RedisServer::start_make(make).await,
    ];
    let refused = async {
        let proxy = Proxy::start(server.port());
        proxy.refuse();
        let (kind, text) = fails(proxy.url(), LIMIT).await;
        assert_eq!(kind, StoreErrorKind::Unreachable);
        let expected = format!("cannot connect to {} within 3.3s: ", proxy.url());
        assert!(text.starts_with(&expected), "{text}");
    };
    // Not a failure of the connection.
    let read_only = async {
        run(&mut server.connection().await, "REPLICAOF 127.0.0.1 1").await;
        let (kind, text) = fails(server.url(), LIMIT).await;
        assert_eq!(kind, StoreErrorKind::ReadOnly);
        let expected = format!(
            "cannot connect to {} within 3.3s: the server is a",
            server.url()
        );
        assert!(text.starts_with(&expected), "{text}");
    };
    let killed = async {
        gone.kill();
        let (kind, text) = fails(gone.url(), LIMIT).await;
        assert_eq!(kind, StoreErrorKind::Unreachable);
        let expected = format!(
            "cannot connect to {} within 3.3s: connection refused",
            gone.url()
        );
        assert_eq!(text, expected);
    };
    tokio::join!(refused, read_only, killed);
}
