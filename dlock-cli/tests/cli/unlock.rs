//! `dlock unlock`: it releases only the lease that it has shown.

use dlock::LockError;
use dlock_testkit::RedisServer;
use serde_json::Value;

use super::{
    call, dlock, locks,
    reads::{manager, scene, set},
    run_signals::at_a_terminal,
};

#[tokio::test]
async fn without_a_terminal_it_requires_yes() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    for words in [&["unlock", "job"][..], &["--json", "unlock", "job"]] {
        let refused = call(&mut dlock(&server, words)).await.with(2);
        assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
    assert_eq!(locks(&server).await, ["dlock:{job}"]);
}

#[tokio::test]
async fn a_lock_is_released_and_its_holder_is_notified() {
    let server = RedisServer::start().await;
    let manager = manager(&server, "billing").await;
    let guard = manager.lock("job").acquire().await.unwrap();
    let ended = call(&mut dlock(&server, &["unlock", "job", "--yes"]))
        .await
        .with(0);
    for words in [
        "holder         billing@",
        "The holder is notified",
        "There are no waiters",
        "Released `job`: it is free.",
    ] {
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
    assert!(matches!(guard.lost().await, LockError::Lost { .. }));
    assert!(locks(&server).await.is_empty());

    let ended = call(&mut dlock(&server, &["unlock", "job", "--yes"]))
        .await
        .with(1);
    let free = format!(
        "`job` is free in namespace `dlock` of 127.0.0.1:{}, read at ",
        server.port()
    );
    assert!(ended.stdout.starts_with(&free), "{}", ended.stdout);
    let ended = call(&mut dlock(&server, &["--json", "unlock", "job", "--yes"]))
        .await
        .with(1);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&said["outcome"], &said["holder"]),
        (&"free".into(), &Value::Null)
    );
}

#[tokio::test]
async fn a_release_leaves_a_record_of_who_did_it() {
    let server = RedisServer::start().await;
    let scene = scene(&server).await;
    let inspected = call(&mut dlock(&server, &["--json", "inspect", "order:1"])).await;
    let inspected: Value = serde_json::from_str(&inspected.with(0).stdout).unwrap();
    let holder = &inspected["holder"];
    let mut command = dlock(&server, &["unlock", "-y", "order:1"]);
    command
        .env("SUDO_USER", "op\u{1b}\" outcome=x")
        .env("USER", "root");
    let ended = call(&mut command).await.with(0);
    let line = ended.stderr.lines().find(|it| it.contains("force-release"));
    let line = line.unwrap_or_else(|| panic!("no record: {}", ended.stderr));
    let host = rustix::system::uname();
    for part in [
        "WARN",
        "dlock::unlock",
        r#"key="order:1""#,
        r#"holder="billing@"#,
        &format!("handle={}", holder["handle"]),
        &format!("token={}", holder["token"]),
        r#"outcome="granted""#,
        r#"by="op\u{1b}\" outcome=x@"#,
        host.nodename().to_str().expect("it is text"),
    ] {
        assert!(line.contains(part), "no `{part}`: {line}");
    }
    let guard = scene.waiter.await.unwrap().unwrap();

    // As JSON, with the reason of a failure; without a name the number of the user is told.
    let mut command = dlock(&server, &["--json", "unlock", "-y", "order:1"]);
    for name in ["SUDO_USER", "USER", "LOGNAME", "USERNAME"] {
        command.env_remove(name);
    }
    let ended = call(&mut command).await.with(0);
    let told: Value = serde_json::from_str(&ended.stderr).unwrap();
    let fields = &told["log"]["fields"];
    assert_eq!(
        (&fields["message"], &fields["outcome"]),
        (&"force-release".into(), &"freed".into())
    );
    let by = fields["by"].as_str().expect("it is a text");
    assert!(by.starts_with("uid-"), "{by}");
    guard.lost().await;

    // Nothing was released, and nothing is recorded.
    let ended = call(&mut dlock(&server, &["unlock", "-y", "order:1"]))
        .await
        .with(1);
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn a_release_that_fails_is_recorded_with_the_reason() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    let user = include_str!("../../../dlock-admin/src/redis/permissions_look.txt");
    let mut order = redis::cmd("ACL");
    for word in user.split_whitespace().skip(1) {
        order.arg(word);
    }
    server.read::<()>(&order).await;
    let mut command = dlock(&server, &["unlock", "-y", "job"]);
    let url = format!("redis://viewer:change-me@127.0.0.1:{}", server.port());
    let ended = call(command.env("DLOCK_URL", url)).await.with(69);
    let record = ended
        .stderr
        .lines()
        .find(|it| it.contains("force-release failed"));
    let record = record.unwrap_or_else(|| panic!("no record: {}", ended.stderr));
    assert!(
        record.contains("error=") && record.contains(r#"key="job""#),
        "{record}"
    );
    assert_eq!(locks(&server).await, ["dlock:{job}"]);
}

#[tokio::test]
async fn the_first_waiter_holds_the_lock_next() {
    let server = RedisServer::start().await;
    let scene = scene(&server).await;
    let ended = call(&mut dlock(&server, &["--json", "unlock", "-y", "order:1"]))
        .await
        .with(0);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said["outcome"], "granted");
    assert_eq!(said["holder"]["process"]["application"], "billing");
    let guard = scene.waiter.await.unwrap().unwrap();
    assert!(matches!(
        scene.holder.await.unwrap(),
        Err(LockError::Lost { .. })
    ));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_third_party_lock_can_be_released() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    let ended = call(&mut dlock(&server, &["unlock", "--yes", "job"]))
        .await
        .with(0);
    assert!(
        ended.stdout.contains("It is not notified"),
        "{}",
        ended.stdout
    );
    assert!(locks(&server).await.is_empty());
}

#[tokio::test]
async fn at_a_terminal_it_asks_for_confirmation() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    let told = at_a_terminal(&server, "[y/N] ", "", r"\n", &["unlock", "job"]).await;
    assert!(
        told.contains("`job` was not released.") && told.contains("code 1"),
        "{told}"
    );
    assert_eq!(locks(&server).await, ["dlock:{job}"]);
    let told = at_a_terminal(&server, "[y/N] ", "", r"y\n", &["unlock", "job"]).await;
    assert!(
        told.contains("Released `job`") && told.contains("code 0"),
        "{told}"
    );
    assert!(locks(&server).await.is_empty());
}

#[tokio::test]
async fn only_the_shown_lease_is_released() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    let meanwhile =
        "import redis; redis.Redis.from_url(os.environ['DLOCK_URL']).set('dlock:{job}', 'other')";
    let told = at_a_terminal(&server, "[y/N] ", meanwhile, r"y\n", &["unlock", "job"]).await;
    assert!(
        told.contains("`job` was not released: it has another holder"),
        "{told}"
    );
    assert!(told.contains("code 1"), "{told}");
    assert_eq!(locks(&server).await, ["dlock:{job}"]);
}

#[tokio::test]
async fn a_shared_lock_requires_a_choice() {
    let server = RedisServer::start().await;
    let (one, other) = (
        manager(&server, "billing").await,
        manager(&server, "mail").await,
    );
    let first = one.lock("catalog").shared().acquire().await.unwrap();
    let second = other.lock("catalog").shared().acquire().await.unwrap();
    let shown = call(&mut dlock(&server, &["--json", "inspect", "catalog"]))
        .await
        .with(0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["mode"], &shown["holder_count"]),
        (&"shared".into(), &2.into())
    );
    let holders = shown["holders"].as_array().unwrap();
    let of_billing = holders
        .iter()
        .find(|it| it["process"]["application"] == "billing");
    let handle = of_billing.unwrap()["handle"].as_str().unwrap();

    let refused = call(&mut dlock(&server, &["unlock", "-y", "catalog"]))
        .await
        .with(2);
    for words in [
        "`--holder HANDLE` or `--all`",
        handle,
        "(billing@",
        "(mail@",
    ] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let stranger = "0".repeat(16);
    let words = ["unlock", "-y", "catalog", "--holder", &stranger];
    let refused = call(&mut dlock(&server, &words)).await.with(1);
    assert!(
        refused.stderr.contains("does not hold `catalog`"),
        "{}",
        refused.stderr
    );
    first.ensure_held().unwrap();

    let words = ["unlock", "-y", "catalog", "--holder", handle];
    let ended = call(&mut dlock(&server, &words)).await.with(0);
    for words in [
        "holders        2",
        "Fencing tokens do not stop it",
        "1 other holder stays.",
        "others share it.",
    ] {
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
    assert!(matches!(first.lost().await, LockError::Lost { .. }));
    second.ensure_held().unwrap();

    let again = one.lock("catalog").shared().acquire().await.unwrap();
    let words = ["--json", "unlock", "-y", "catalog", "--all"];
    let ended = call(&mut dlock(&server, &words)).await.with(0);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said["outcome"], "freed");
    assert_eq!(said["holders"].as_array().unwrap().len(), 2);
    again.lost().await;
    second.lost().await;
    assert!(locks(&server).await.is_empty());
}
