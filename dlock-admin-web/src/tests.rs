//! The page with an inspector in memory.

mod documents;
pub(super) mod fake;
mod following;
mod lists;
mod off_runtime;
mod past;
mod protection;
mod unlocking;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header, request::Builder},
};
use serde_json::Value;
use tower::ServiceExt as _;

/// A response that has been read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        let read = serde_json::from_str(&self.text);
        read.unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// Returns a request for this machine.
fn request(method: &str, path: &str) -> Builder {
    let builder = Request::builder().method(method).uri(path);
    builder.header(header::HOST, "127.0.0.1:8330")
}

async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    // An owner id begins with it, and is a secret.
    let secret = fake::owner(1).client().to_string();
    assert!(!text.contains(&secret), "{text}");
    Answer {
        status: head.status,
        headers: head.headers,
        text,
    }
}

async fn get(router: &Router, path: &str) -> Answer {
    send(router, request("GET", path).body(Body::empty()).unwrap()).await
}
