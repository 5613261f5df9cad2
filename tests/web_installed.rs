//! Both frameworks send the problems that the application has installed. The test has its own process, because problems
//! are installed once per process.
#![cfg(all(feature = "axum", feature = "actix-web"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::time::Duration;

use axum::response::IntoResponse;
use dlock::{
    LockError, LockManager, distributed_lock,
    web::{self, Problem, Problems, ProblemsError},
};

#[distributed_lock(key = "order:<id>", wait = never)]
async fn by_axum(axum::extract::Path(id): axum::extract::Path<u64>) -> Result<(), LockError> {
    Ok(())
}

#[actix_web::get("/{id}")]
#[distributed_lock(key = "order:<id.0>", wait = never)]
async fn by_actix(id: actix_web::web::Path<(u64,)>) -> Result<&'static str, LockError> {
    Ok("")
}

fn serve_axum() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let router = axum::Router::new().route("/{id}", axum::routing::get(by_axum));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/42")
}

fn serve_actix() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = actix_web::HttpServer::new(|| actix_web::App::new().service(by_actix));
    let server = server.workers(1).disable_signals();
    tokio::spawn(server.listen(listener).unwrap().run());
    format!("http://{address}/42")
}

#[tokio::test]
async fn what_is_installed_is_told_by_both() {
    let manager = dlock::install(LockManager::memory()).unwrap();
    let problems = Problems::builder()
        .base_uri("https://shop.example/problems/")
        .status("busy", 423)
        .title("busy", "In use\r\nx-evil: 1")
        .detail("busy", "Another request is changing this order.")
        .retry_after("busy", Duration::from_millis(2500))
        .retry_after("closed", None)
        .build()
        .unwrap();
    let before = Problem::of(&LockError::Closed {
        key: "order:42".try_into().unwrap(),
    });
    assert_eq!(before.type_uri(), "about:blank");
    web::install(problems).unwrap();
    let again = web::install(Problems::default()).unwrap_err();
    assert_eq!(again, ProblemsError::AlreadyInstalled);

    let urls = [serve_axum(), serve_actix()];
    let guard = manager.lock("order:42").acquire().await.unwrap();
    for url in &urls {
        let response = reqwest::get(url).await.unwrap();
        assert_eq!(response.status(), 423);
        let header = |name| response.headers().get(name).map(|it| it.to_str().unwrap());
        assert_eq!(header("retry-after"), Some("3"));
        assert_eq!(header("x-evil"), None, "a title stays in the body");
        let body: serde_json::Value = response.json().await.unwrap();
        let expected = serde_json::json!({
            "type": "https://shop.example/problems/busy",
            "title": "In use\r\nx-evil: 1",
            "status": 423,
            "detail": "Another request is changing this order.",
            "code": "busy",
        });
        assert_eq!(body, expected);
    }
    guard.release().await.unwrap();

    dlock::shutdown(Duration::from_secs(1)).await;
    for url in &urls {
        let response = reqwest::get(url).await.unwrap();
        assert_eq!(response.status(), 503);
        assert!(response.headers().get("retry-after").is_none());
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body["type"], "https://shop.example/problems/closed");
        assert_eq!(body["title"], "Shutting down");
    }

    // A change of one response overrides the installed problems.
    let error = LockError::Closed {
        key: "order:42".try_into().unwrap(),
    };
    let response = Problem::of(&error).with_status(500).into_response();
    assert_eq!(response.status(), 500);
}
