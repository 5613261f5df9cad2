//! Releasing a lock by force.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::SystemTime};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::ConnectInfo,
    http::{HeaderName, StatusCode, request::Builder},
};
use dlock_admin::{HolderInfo, LockInfo, Unlocked, view};
use dlock_runtime::store::{StoreError, StoreErrorKind};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    super::Page,
    Answer,
    fake::{Fake, held, owner},
    get, request, send,
};

const TOKEN: &str = "a token of this test";

fn page(fake: &Arc<Fake>) -> Router {
    Page::new(fake.clone()).allow_unlock(TOKEN).into_router()
}

fn fake() -> Arc<Fake> {
    Fake::with(vec![held("job:a", 7, "cron@host/1")])
}

fn wanted() -> Value {
    json!({"key": "job:a", "typed": "job:a", "handle": owner(7).handle().to_string(), "token": view::token(7)})
}

/// Returns a request as the page sends it.
fn asked(token: &str) -> Builder {
    request("POST", "/api/unlock")
        .header("content-type", "application/json")
        .header("origin", "http://127.0.0.1:8330")
        .header("sec-fetch-site", "same-origin")
        .header("authorization", format!("Bearer {token}"))
        .extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 4711))))
}

async fn unlock(router: &Router, builder: Builder, wanted: &Value) -> Answer {
    let body = Body::from(wanted.to_string());
    send(router, builder.body(body).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_the_token_ends_the_lease_that_was_shown() {
    let fake = fake();
    let router = page(&fake);
    assert_eq!(
        get(&router, "/api/picture").await.json()["can_unlock"],
        true
    );
    let done = unlock(&router, asked(TOKEN), &wanted()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert_eq!(done.json()["outcome"], "freed");
    assert!(done.json()["text"].as_str().unwrap().contains("free"));
    let unlocked = fake.unlocked.lock().unwrap().clone();
    assert_eq!(unlocked, [("job:a".to_owned(), Some(owner(7)))]);
}

#[tokio::test(start_paused = true)]
async fn the_token_may_come_beside_the_login_of_a_proxy() {
    let login = |token: &str| {
        let mut builder = asked(token);
        let headers = builder.headers_mut().unwrap();
        headers.insert("authorization", "Basic b3A6c2VjcmV0".parse().unwrap());
        builder.header("x-dlock-token", token)
    };
    let fake = fake();
    let router = page(&fake);
    let wrong = unlock(&router, login("another token of a test"), &wanted()).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    let done = unlock(&router, login(TOKEN), &wanted()).await;
    assert_eq!(done.json()["outcome"], "freed", "{}", done.text);
}

#[tokio::test(start_paused = true)]
async fn each_outcome_has_its_word() {
    let (mut all, mut of_one) = (wanted(), wanted());
    all["handle"] = Value::Null;
    of_one["handle"] = owner(7).handle().to_string().into();
    for (outcome, word) in [
        (Unlocked::Freed, "freed"),
        (Unlocked::Granted, "granted"),
        (Unlocked::StillShared, "still shared"),
        (Unlocked::Changed, "changed"),
    ] {
        for (wanted, holder) in [(&all, None), (&of_one, Some(owner(7)))] {
            let fake = fake();
            *fake.outcome.lock().unwrap() = Some(Ok(outcome));
            let done = unlock(&page(&fake), asked(TOKEN), wanted).await.json();
            assert_eq!(done["outcome"], word);
            assert_eq!(fake.unlocked.lock().unwrap()[0].1, holder);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_not_shown_is_left_alone() {
    for (field, value) in [
        ("token", json!(view::token(6))),
        ("handle", json!(owner(8).handle().to_string())),
        ("key", json!("job:free")),
    ] {
        let fake = fake();
        let mut wanted = wanted();
        wanted[field] = value.clone();
        if field == "key" {
            wanted["typed"] = value;
        }
        let done = unlock(&page(&fake), asked(TOKEN), &wanted).await;
        assert_eq!(done.json()["outcome"], "changed", "{field}");
        assert!(fake.unlocked.lock().unwrap().is_empty(), "{field}");
    }
    let fake = fake();
    let mut older = wanted();
    (older["handle"], older["token"]) = (Value::Null, json!(view::token(6)));
    let done = unlock(&page(&fake), asked(TOKEN), &older).await.json();
    assert_eq!(done["outcome"], "changed");
    assert!(fake.unlocked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_third_party_client_is_left_to_the_command() {
    let mut lock = LockInfo::new("job:a");
    lock.add_holder(HolderInfo::new(None, 0, SystemTime::now()));
    let fake = Fake::with(vec![lock]);
    let mut wanted = wanted();
    (wanted["handle"], wanted["token"]) = (Value::Null, Value::Null);
    let refused = unlock(&page(&fake), asked(TOKEN), &wanted).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("`dlock unlock`"), "{}", refused.text);
    assert!(fake.unlocked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_else_releases_a_lock() {
    use StatusCode as Code;

    let fake = fake();
    let open = page(&fake);
    let read_only = Page::new(fake.clone()).into_router();
    let with = |name: &str, value: &str| {
        let mut builder = asked(TOKEN);
        let headers = builder.headers_mut().unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
        builder
    };
    // A browser without `Sec-Fetch-Site`.
    let older = |origin: &str| {
        let mut builder = with("origin", origin);
        builder.headers_mut().unwrap().remove("sec-fetch-site");
        builder
    };
    let mut other_key = wanted();
    other_key["typed"] = "job:b".into();
    let mut no_token = wanted();
    no_token["token"] = "x".into();
    let mut no_handle = wanted();
    no_handle["handle"] = "x".into();
    for (router, builder, wanted, status) in [
        (&read_only, asked(TOKEN), wanted(), Code::FORBIDDEN),
        (
            &open,
            asked("another token of a test"),
            wanted(),
            Code::UNAUTHORIZED,
        ),
        (&open, asked(""), wanted(), Code::UNAUTHORIZED),
        (&open, asked(&TOKEN[..19]), wanted(), Code::UNAUTHORIZED),
        (
            &open,
            with("authorization", TOKEN),
            wanted(),
            Code::UNAUTHORIZED,
        ),
        (
            &open,
            older("http://evil.example"),
            wanted(),
            Code::FORBIDDEN,
        ),
        (&open, older("null"), wanted(), Code::FORBIDDEN),
        (
            &open,
            with("sec-fetch-site", "cross-site"),
            wanted(),
            Code::FORBIDDEN,
        ),
        (
            &open,
            with("sec-fetch-site", "none"),
            wanted(),
            Code::FORBIDDEN,
        ),
        (
            &open,
            with("content-type", "text/plain"),
            wanted(),
            Code::UNSUPPORTED_MEDIA_TYPE,
        ),
        (&open, asked(TOKEN), other_key, Code::CONFLICT),
        (&open, asked(TOKEN), no_token, Code::BAD_REQUEST),
        (&open, asked(TOKEN), no_handle, Code::BAD_REQUEST),
        (
            &open,
            asked(TOKEN),
            json!({"key": "job:a"}),
            Code::BAD_REQUEST,
        ),
        (
            &open,
            asked(TOKEN),
            json!("x".repeat(20_000)),
            Code::BAD_REQUEST,
        ),
    ] {
        let refused = unlock(router, builder, &wanted).await;
        assert_eq!(refused.status, status, "{}", refused.text);
        assert!(refused.json()["error"].is_string(), "{}", refused.text);
        assert!(!refused.text.contains(TOKEN));
    }
    let read = send(
        &open,
        request("GET", "/api/unlock").body(Body::empty()).unwrap(),
    )
    .await;
    assert_eq!(read.status, Code::METHOD_NOT_ALLOWED);
    assert!(fake.unlocked.lock().unwrap().is_empty());
    let anonymous = request("POST", "/api/unlock").header("content-type", "application/json");
    let refused = unlock(&open, anonymous, &wanted()).await;
    assert_eq!(refused.status, Code::UNAUTHORIZED);
    assert!(fake.unlocked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_of_others_never_refuse_the_right_one() {
    const WRONG: &str = "another token of a test";

    let fake = fake();
    let router = page(&fake);
    let from = |token: &str, address: [u8; 4]| {
        let peer = ConnectInfo(SocketAddr::from((address, 4711)));
        asked(token).extension(peer)
    };
    let (guesser, operator) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let status = async |builder: Builder| unlock(&router, builder, &wanted()).await.status;
    // Neither a request without a token, nor one of another site, is a guess.
    for _ in 0..10 {
        let mut without = from(TOKEN, guesser);
        without.headers_mut().unwrap().remove("authorization");
        assert_eq!(status(without).await, StatusCode::UNAUTHORIZED);
        let mut foreign = from(WRONG, guesser);
        let site = "cross-site".parse().unwrap();
        foreign
            .headers_mut()
            .unwrap()
            .insert("sec-fetch-site", site);
        assert_eq!(status(foreign).await, StatusCode::FORBIDDEN);
    }
    for _ in 0..5 {
        assert_eq!(status(from(WRONG, guesser)).await, StatusCode::UNAUTHORIZED);
    }
    for _ in 0..5 {
        let refused = unlock(&router, from(WRONG, guesser), &wanted()).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers["retry-after"], "60");
        assert!(refused.text.contains("`dlock unlock`"), "{}", refused.text);
    }
    assert_eq!(
        status(from(WRONG, operator)).await,
        StatusCode::UNAUTHORIZED
    );
    assert!(fake.unlocked.lock().unwrap().is_empty());
    for address in [operator, guesser] {
        assert_eq!(status(from(TOKEN, address)).await, StatusCode::OK);
    }
    assert_eq!(fake.unlocked.lock().unwrap().len(), 2);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(status(from(WRONG, guesser)).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_refused() {
    let fake = fake();
    let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let began = tokio::time::Instant::now();
    let refused = send(&page(&fake), asked(TOKEN).body(body).unwrap()).await;
    assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(began.elapsed(), std::time::Duration::from_secs(5));
    assert!(fake.unlocked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_an_outage_are_told_apart() {
    let refused = StoreError::new(StoreErrorKind::Refused, "a transaction relies on it").unsent();
    let away = StoreError::new(StoreErrorKind::TimedOut, "no answer");
    for (error, status) in [
        (refused, StatusCode::CONFLICT),
        (away, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let fake = fake();
        *fake.outcome.lock().unwrap() = Some(Err(error.clone()));
        let told = unlock(&page(&fake), asked(TOKEN), &wanted()).await;
        assert_eq!(told.status, status, "{}", told.text);
        assert_eq!(told.json()["error"], error.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_is_in_the_history() {
    let fake = fake();
    let router = page(&fake);
    get(&router, "/api/lock?key=job:a").await;
    unlock(&router, asked(TOKEN), &wanted()).await;
    fake.set(Vec::new());
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let told = get(&router, "/api/lock?key=job:a").await.json();
    let holds = told["history"]["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 1, "{told:#}");
    assert_eq!(holds[0]["end"], "forced");
    assert_eq!(holds[0]["by"], "127.0.0.1:4711");
    assert_eq!(holds[0]["label"], "cron@host/1");
    assert!(holds[0]["to"].is_string());
}

#[test]
#[should_panic(expected = "at least 16 characters")]
fn a_short_token_is_refused() {
    let _page = Page::new(fake()).allow_unlock("short");
}
