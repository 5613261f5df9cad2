//! The paths of the page.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{OriginalUri, Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::from_fn_with_state,
    response::Response,
    routing::{get, post},
};
use dlock_runtime::LockKey;
use serde_json::json;
use url::form_urlencoded;

use super::{
    assets, events,
    feeds::{List, One, shown},
    processes,
    protect::protect,
    query::Query,
    reply,
    room::{Room, cannot},
    unlock,
};

type InRoom = State<Arc<Room>>;

/// Returns the router of a page.
pub(super) fn router(room: Room) -> Router {
    let room = Arc::new(room);
    let mut router = Router::new()
        .route("/", get(home))
        // For probes: the program runs, whatever the store does. Its outages are for the page to show.
        .route("/healthz", get(async || "ok\n"))
        .route("/assets/{name}", get(asset))
        .route("/api/picture", get(picture))
        .route("/api/picture/events", get(picture_events))
        .route("/api/lock", get(lock))
        .route("/api/lock/events", get(lock_events))
        .route("/api/processes", get(of_processes))
        .route("/api/doctor", get(doctor))
        .route("/api/unlock", post(unlock::handle));
    for view in ["/locks", "/lock", "/processes", "/doctor"] {
        router = router.route(view, get(async || assets::document()));
    }
    router
        .layer(from_fn_with_state(room.clone(), protect))
        .with_state(room)
}

/// Leads to the list, by a relative URL: the page may lie below any prefix, and behind a proxy that removes it.
async fn home(OriginalUri(uri): OriginalUri) -> Response {
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let place = if last.is_empty() {
        "locks".to_owned()
    } else {
        format!("{last}/locks")
    };
    let mut response = Response::new(Body::empty());
    // The path of a request is valid in a header.
    if let Ok(place) = HeaderValue::try_from(place) {
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let found = assets::asset(&name, &headers);
    found.unwrap_or_else(|| reply::failure(StatusCode::NOT_FOUND, "there is no such file"))
}

async fn picture(State(room): InRoom, RawQuery(query): RawQuery) -> Response {
    match Query::read(&query.unwrap_or_default()) {
        Ok(query) => reply::of_text(List::new(room, query).once().await),
        Err(reason) => reply::failure(StatusCode::BAD_REQUEST, reason),
    }
}

async fn picture_events(State(room): InRoom, RawQuery(query): RawQuery) -> Response {
    match Query::read(&query.unwrap_or_default()) {
        Ok(query) => events::stream(&room.streams, List::new(room.clone(), query)),
        Err(reason) => reply::failure(StatusCode::BAD_REQUEST, reason),
    }
}

async fn lock(State(room): InRoom, RawQuery(query): RawQuery) -> Response {
    match one(room, query) {
        Ok(one) => reply::of_text(one.once().await),
        Err(refused) => refused,
    }
}

async fn lock_events(State(room): InRoom, RawQuery(query): RawQuery) -> Response {
    match one(room.clone(), query) {
        Ok(one) => events::stream(&room.streams, one),
        Err(refused) => refused,
    }
}

/// Begins to look at the lock that a query names.
#[allow(clippy::result_large_err, reason = "it is returned at once")]
fn one(room: Arc<Room>, query: Option<String>) -> Result<One, Response> {
    let query = query.unwrap_or_default();
    let mut fields = form_urlencoded::parse(query.as_bytes());
    let key = fields.find(|(name, _)| name == "key").map(|(_, key)| key);
    let key = LockKey::new(key.unwrap_or_default());
    let key = key.map_err(|error| reply::failure(StatusCode::BAD_REQUEST, error.to_string()))?;
    One::new(room, key).ok_or_else(|| {
        let text = "too many locks are looked at one by one: close the pages of some";
        reply::failure(StatusCode::SERVICE_UNAVAILABLE, text)
    })
}

async fn of_processes(State(room): InRoom) -> Response {
    let shown = shown(&room).await;
    let (count, of) = (shown.count(), room.clone());
    let document = move || {
        let picture = shown.picture.as_deref();
        reply::document(&json!({
            "server": &shown.server,
            "picture": of.age(&shown, picture.map(|it| (it.began_ms(), it.at))),
            "cannot": cannot(&shown),
            "processes": picture.map(processes::rows),
        }))
    };
    room.desk.work.about(count, document).await
}

async fn doctor(State(room): InRoom) -> Response {
    let shown = shown(&room).await;
    reply::of_text(room.examination.document(&room.desk, &shown).await)
}
