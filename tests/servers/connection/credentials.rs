//! Users and passwords that do not stand in the URL.

use std::{
    env, fmt,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    ConnectError, LockManager,
    store::{
        StoreErrorKind,
        redis::{Credentials, CredentialsProvider, RedisConfig},
    },
};
use dlock_testkit::{RedisServer, Worker, eventually};

use crate::common::{Log, assert_idle, builder, shown, soon};
use crate::connection::{LIMIT, SECRET, clients, not_reached, run};

async fn with_user(password: &str) -> RedisServer {
    let server = RedisServer::start().await;
    let rule = format!("ACL SETUSER me on >{password} ~* &* +@all");
    run(&mut server.connection().await, &rule).await;
    server
}

/// The password is changed on the server and everybody is thrown out: locks go on.
#[tokio::test]
async fn a_password_is_rotated_while_locks_are_held() {
    for protocol in ["resp3", "resp2"] {
        let server = with_user("old").await;
        let url = format!("{}?protocol={protocol}", server.url());
        let password = Arc::new(Mutex::new("old"));
        let asked = Arc::new(AtomicUsize::new(0));
        let builder = {
            let (password, asked) = (password.clone(), asked.clone());
            builder().credentials(move || {
                asked.fetch_add(1, Ordering::Relaxed);
                let password = *password.lock().unwrap();
                async move { Ok::<_, fmt::Error>(Credentials::new("me", password)) }
            })
        };
        let manager = soon(builder.ttl(LIMIT).connect(&url)).await.unwrap();
        let guard = soon(manager.lock("order:1").acquire()).await.unwrap();
        for new in ["new", "newer"] {
            *password.lock().unwrap() = new;
            let before = asked.load(Ordering::Relaxed);
            let mut behind = server.connection().await;
            run(&mut behind, &format!("ACL SETUSER me resetpass >{new}")).await;
            run(&mut behind, "CLIENT KILL USER me").await;
            eventually(LIMIT, "locks are taken", async || {
                let lock = manager.lock("order:2");
                matches!(soon(lock.run(async |_| 7)).await, Ok(7))
            })
            .await;
            let after = asked.load(Ordering::Relaxed);
            assert!(after > before, "it is asked before every login");
        }
        assert!(!guard.is_lost());
        soon(guard.release()).await.unwrap();
        assert_idle(&[&manager]).await;
        let clients = clients(&server).await;
        assert!(
            clients.iter().all(|it| it.contains(" user=me ")),
            "{clients:?}"
        );
    }
}

#[tokio::test]
async fn a_provider_that_has_none_is_asked_again() {
    type Answer = Result<Credentials, &'static str>;

    let (log, _capturing) = Log::capture();
    let server = with_user(SECRET).await;
    let begins_with = async |deed, words| {
        let deed = Arc::new(Mutex::new(deed));
        let builder = || {
            let deed = deed.clone();
            LockManager::builder().credentials(move || {
                let deed = *deed.lock().unwrap();
                async move {
                    let answer: Answer = match deed {
                        "fails" => Err("the vault is sealed"),
                        "hangs" => std::future::pending().await,
                        "panics" => panic!("as this test wants"),
                        _ => Ok(Credentials::new("me", SECRET)),
                    };
                    answer
                }
            })
        };
        let (kind, text) = not_reached(builder(), &server.url()).await;
        assert_eq!(kind, StoreErrorKind::NoCredentials, "{text}");
        assert!(text.contains(words), "{text}");

        let manager = builder().connect_lazy(server.url()).unwrap();
        let lock = manager.lock("order:42").wait(Duration::from_millis(1500));
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(error.retry_after().is_some(), "it may get better: {error}");
        assert_idle(&[&manager]).await;
        *deed.lock().unwrap() = "has some";
        let lock = manager.lock("order:42").wait(LIMIT);
        assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7), "{words}");
    };
    tokio::join!(
        begins_with("fails", "the vault is sealed"),
        begins_with("hangs", "did not answer within"),
        begins_with("panics", "the callback panicked"),
    );
    assert!(!log.text().contains(SECRET), "{}", log.text());
}

#[tokio::test]
async fn they_stand_in_one_place_and_are_never_shown() {
    let mine = Credentials::new("me", SECRET);
    let provider = CredentialsProvider::fixed(mine.clone());
    let config = RedisConfig::new("redis://h").credentials(provider.clone());
    let builder = LockManager::builder().credentials(move || {
        let mine = mine.clone();
        async { Ok::<_, fmt::Error>(mine) }
    });
    let seen = format!("{config:?} {provider:?} {builder:?}");
    assert!(!seen.contains(SECRET), "{seen}");
    let url = format!("redis://:{SECRET}@h");
    let error = builder.connect_lazy(&url).expect_err("which of the two?");
    assert!(
        matches!(
            error,
            ConnectError::InvalidOption {
                option: "credentials",
                ..
            }
        ),
        "{error}"
    );
    assert!(!shown(&error).contains(SECRET), "{error}");
}

/// Set for a process that connects as its environment says.
const CHILD: &str = "DLOCK_TEST_FROM_ENV";

/// The test is all processes: it runs itself again, with other environments.
#[tokio::test]
async fn the_environment_is_asked_when_the_url_has_none() {
    if let Ok(way) = env::var(CHILD) {
        let connected = if way == "connect" {
            LockManager::connect(env::var("DLOCK_URL").unwrap()).await
        } else {
            LockManager::connect_env().await
        };
        match connected {
            Ok(manager) => {
                let outcome = manager.lock("order:42").run(async |_| "works").await;
                println!("it {}", outcome.unwrap());
            }
            Err(error) => println!("it fails: {}", shown(&error).replace('\n', " ")),
        }
        return;
    }
    let server = with_user("mine").await;
    run(
        &mut server.connection().await,
        "CONFIG SET requirepass shared",
    )
    .await;
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    for (url, user, password, expected) in [
        (url(""), Some("me"), Some("mine"), "it works"),
        (url(""), None, Some("shared"), "it works"),
        (url(""), Some("me"), Some(SECRET), "it fails: "),
        (url(""), Some("me"), None, "`DLOCK_USER`"),
        (
            url(""),
            Some(""),
            Some(""),
            "the server requires a password",
        ),
        (url(":shared@"), Some("me"), Some(SECRET), "it works"),
        ("memory://".to_owned(), Some("me"), None, "it works"),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        let test = "connection::credentials::the_environment_is_asked_when_the_url_has_none";
        command
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .env("DLOCK_URL", &url)
            .env_remove("DLOCK_USER")
            .env_remove("DLOCK_PASSWORD")
            .envs(user.map(|user| ("DLOCK_USER", user)))
            .envs(password.map(|password| ("DLOCK_PASSWORD", password)));
        let child = Worker::spawn(&mut command);
        let line = child.line("it ", LIMIT).await;
        assert!(line.contains(expected), "{url} {user:?}: {line}");
        assert!(!line.contains(SECRET), "{line}");
    }
}

#[tokio::test]
async fn the_environment_is_not_asked_by_who_connects_to_a_url_and_that_is_told() {
    const UNREAD: &str = "`DLOCK_PASSWORD`";
    let server = with_user("mine").await;
    run(
        &mut server.connection().await,
        "CONFIG SET requirepass shared",
    )
    .await;
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    for (url, password, works, is_told) in [
        (url(""), Some("shared"), false, true),
        (url(""), None, false, false),
        (url(""), Some(""), false, false),
        (url(":shared@"), Some("shared"), true, false),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        let test = "connection::credentials::the_environment_is_asked_when_the_url_has_none";
        command
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "connect")
            .env("DLOCK_URL", &url)
            .env_remove("DLOCK_USER")
            .env_remove("DLOCK_PASSWORD")
            .envs(password.map(|password| ("DLOCK_PASSWORD", password)));
        let child = Worker::spawn(&mut command);
        let line = child.line("it ", LIMIT).await;
        assert_eq!(line.contains("it works"), works, "{url}: {line}");
        assert_eq!(line.contains(UNREAD), is_told, "{url} {password:?}: {line}");
    }
}
