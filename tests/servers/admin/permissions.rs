//! Permissions that inspection needs, and the report of those that are missing.

use dlock::{
    StoreErrorKind,
    admin::{Denied, Inspect as _, Unlocked},
};
use dlock_testkit::RedisServer;

use crate::admin::{inspector, look, manager, with_waiters};
use crate::common::{LIMIT, PERMISSIONS, set_permissions, shown, soon};

/// The rule that the documentation shows: user `operator`, password `change-me`.
const OPERATOR: &str = include_str!("../../../dlock-admin/src/redis/permissions.txt");

fn url(server: &RedisServer, user: &str) -> String {
    format!("redis://{user}:change-me@127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn the_rule_for_operators_is_enough_and_takes_no_locks() {
    let server = RedisServer::start().await;
    set_permissions(&server, OPERATOR).await;
    let holder = manager(&server.url()).await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let other = manager(&server.url()).await;
    let waiter = tokio::spawn(other.lock("order:42").wait(LIMIT).acquire());
    let inspector = inspector(&url(&server, "operator")).await;
    with_waiters(&inspector, "order:42", 1).await;
    assert_eq!(soon(inspector.locks(None)).await.unwrap().len(), 1);
    soon(inspector.processes()).await.unwrap();
    soon(inspector.grants()).await.unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    soon(guard.lost()).await;
    let next = soon(waiter).await.unwrap().unwrap();
    soon(next.release()).await.unwrap();
    let report = soon(inspector.servers()).await.remove(0);
    assert_eq!(report.failure, None);
    assert!(!report.info.is_empty() && report.clock.is_some());
    let rules: Vec<_> = report.denied.iter().map(|it| &*it.rule).collect();
    assert_eq!(rules, ["+zadd", "+subscribe"]);
}

#[tokio::test]
async fn whoever_may_lock_may_look_and_learns_what_else_is_missing() {
    let server = RedisServer::start().await;
    set_permissions(&server, PERMISSIONS).await;
    let holder = manager(&server.url()).await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let inspector = inspector(&url(&server, "app")).await;
    let seen = look(&inspector, "order:42").await.unwrap();
    for error in [
        soon(inspector.locks(None)).await.unwrap_err(),
        soon(inspector.processes()).await.unwrap_err(),
        soon(inspector.grants()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
        assert!(!shown(&error).contains("change-me"), "{error}");
    }
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(guard.lost()).await;
    let denied = soon(inspector.servers()).await.remove(0).denied;
    let rules: Vec<_> = denied.iter().map(|it| &*it.rule).collect();
    assert_eq!(rules, ["+info", "+scan", "+psubscribe"]);
    assert!(denied.iter().all(|it| !it.is_required));
}

#[tokio::test]
async fn each_right_of_the_documented_rule_is_missed() {
    let server = RedisServer::start().await;
    let commands = PERMISSIONS.split_whitespace();
    let commands = commands.filter_map(|word| word.strip_prefix('+'));
    let mut rights: Vec<_> = commands
        .map(|it| (format!("-{it}"), format!("+{it}")))
        .collect();
    rights.push(("resetkeys".into(), "~dlock:*".into()));
    rights.push(("resetchannels".into(), "&dlock:wake:*".into()));
    for (less, rule) in rights {
        let reset = PERMISSIONS.replace("app on", "app reset on");
        set_permissions(&server, &reset).await;
        set_permissions(
            &server,
            &format!("ACL SETUSER app +info +scan +psubscribe {less}"),
        )
        .await;
        let inspector = inspector(&url(&server, "app")).await;
        let report = soon(inspector.servers()).await.remove(0);
        assert_eq!(report.failure, None, "{less}");
        let rules: Vec<_> = report.denied.iter().map(|it: &Denied| &*it.rule).collect();
        assert_eq!(rules, [&*rule], "{less}");
        assert!(!report.denied[0].purpose.is_empty());
    }
    assert_eq!(
        server.keys("*").await,
        Vec::<String>::new(),
        "nothing is left"
    );
}
