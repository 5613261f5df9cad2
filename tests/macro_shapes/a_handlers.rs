//! Handlers of web frameworks, called as those call them.

use dlock::distributed_lock;

use crate::{Fault, Result, record, say, under, while_held};

/// A8: handlers of axum, called by its router.
mod a8_axum {
    #![allow(clippy::unused_async, reason = "in what `debug_handler` makes")]
    use super::*;
    use axum::{
        Json, Router,
        body::{Body, to_bytes},
        debug_handler,
        extract::{Path, State},
        http::{Request, StatusCode},
        response::{IntoResponse, Response},
        routing::get,
    };
    use tower::ServiceExt;

    impl IntoResponse for Fault {
        fn into_response(self) -> Response {
            let status = match &self {
                Self::Lock(error) if error.is_busy() => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, self.to_string()).into_response()
        }
    }

    #[derive(Clone)]
    struct Shop {
        name: &'static str,
    }

    #[debug_handler]
    #[distributed_lock(key = "order:<id>/<line>", wait = never)]
    async fn below(Path((id, line)): Path<(u32, u64)>) -> Result<Json<u64>> {
        say("body");
        Ok(Json(u64::from(id) + line))
    }

    #[distributed_lock(key = "order:<shop.name>/<id>", wait = never)]
    #[debug_handler(state = Shop)]
    async fn above(
        State(shop): State<Shop>,
        Path(id): Path<u32>,
        body: String,
    ) -> Result<impl IntoResponse> {
        say("body");
        Ok(format!("{} {id}{body}", shop.name))
    }

    async fn call(uri: &str) -> (StatusCode, String) {
        let router = Router::new()
            .route("/below/{id}/{line}", get(below))
            .route("/above/{id}", get(above))
            .with_state(Shop { name: "nord" });
        let request = Request::get(uri).body(Body::from("!")).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn run() {
        let (status, body) = under("order:3/4", call("/below/3/4")).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "7"));
        let (status, body) = under("order:nord/5", call("/above/5")).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "nord 5!"));
    }

    #[tokio::test]
    async fn a_busy_lock_is_the_handlers_answer() {
        let (held, events) =
            record(async { while_held("order:3/4", async { call("/below/3/4").await }).await })
                .await;
        assert_eq!(held.0, StatusCode::CONFLICT);
        assert!(held.1.contains("`order:3/4` is busy"), "{}", held.1);
        assert!(!events.contains(&"body".to_owned()), "{events:?}");
    }
}

/// A8: handlers of actix.
mod a8_actix {
    use super::*;
    use actix_web::{
        App, HttpResponse, ResponseError, get, http::StatusCode, post, test, web::Path,
    };

    impl ResponseError for Fault {
        fn status_code(&self) -> StatusCode {
            match self {
                Self::Lock(error) if error.is_busy() => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            }
        }
    }

    #[get("/below/{id}")]
    #[distributed_lock(key = "order:<id.0>", wait = never)]
    async fn below(id: Path<(u32,)>) -> Result<HttpResponse> {
        say("body");
        Ok(HttpResponse::Ok().body(format!("order {}", id.0)))
    }

    #[distributed_lock(key = "order:<path.0>/<path.1>", wait = never)]
    #[post("/above/{shop}/{id}")]
    async fn above(path: Path<(u8, u8)>) -> Result<HttpResponse> {
        say("body");
        Ok(HttpResponse::Ok().body(format!("order {}", path.1)))
    }

    async fn call(request: test::TestRequest) -> (StatusCode, String) {
        let app = App::new().service(below).service(above);
        let app = test::init_service(app).await;
        let response = test::call_service(&app, request.to_request()).await;
        let status = response.status();
        let body = test::read_body(response).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[actix_web::test]
    async fn run() {
        let request = test::TestRequest::get().uri("/below/3");
        let (status, body) = under("order:3", call(request)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "order 3"));
        let request = test::TestRequest::post().uri("/above/1/4");
        let (status, body) = under("order:1/4", call(request)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "order 4"));
    }

    #[actix_web::test]
    async fn a_busy_lock_is_the_handlers_answer() {
        let (held, events) = record(async {
            let request = test::TestRequest::get().uri("/below/3");
            while_held("order:3", call(request)).await
        })
        .await;
        assert_eq!(held.0, StatusCode::CONFLICT);
        assert!(!events.contains(&"body".to_owned()), "{events:?}");
    }
}
