//! Releases a lock by force, for a client that has the token.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{self, ConnectInfo, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tracing::warn;

use super::{
    protect::{is_same_origin, is_token},
    reply,
    room::Room,
    views::label_of,
};
use crate::{
    admin::{Inspect, LockInfo, Unlocked},
    key::LockKey,
    owner::OwnerId,
    store::{StoreError, StoreErrorKind},
};

/// The greatest size of a request.
const MOST: usize = 16 * 1024;

/// The target of the log events.
const TARGET: &str = "dlock::admin::web";

/// The lease to end, as the page has shown it.
#[derive(Debug, Deserialize)]
struct Wanted {
    key: String,
    /// The key as the operator has typed it.
    typed: String,
    /// The owner id; `None` for all that share the lock.
    owner: Option<String>,
    /// A text, because a double cannot represent it.
    fence: String,
}

type Refused = (StatusCode, String);

/// A request that may be carried out.
struct Request {
    key: LockKey,
    owner: Option<OwnerId>,
    fence: u64,
    peer: String,
}

/// The time for which a request waits for a connection. Later, the operator no longer expects it to be carried out.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn handle(State(room): State<Arc<Room>>, request: extract::Request) -> Response {
    match answer(&room, request).await {
        Ok(response) => response,
        Err((status, text)) => reply::failure(status, text),
    }
}

async fn answer(room: &Arc<Room>, request: extract::Request) -> Result<Response, Refused> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.0.to_string());
    let (head, body) = request.into_parts();
    let Some(token) = &room.token else {
        let text = "this page is read-only";
        return Err((StatusCode::FORBIDDEN, text.to_owned()));
    };
    if !is_same_origin(&head.headers, &head.uri) {
        let text = "another site may not release locks";
        return Err((StatusCode::FORBIDDEN, text.to_owned()));
    }
    if !bearer(&head.headers).is_some_and(|given| is_token(token, given)) {
        warn!(target: TARGET, %peer, "refused to release a lock: wrong token");
        return Err((StatusCode::UNAUTHORIZED, "wrong token".to_owned()));
    }
    let kind = head.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // A form of another site cannot send this type without asking.
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let text = "the request must be of the type `application/json`";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_owned()));
    }
    let body = axum::body::to_bytes(body, MOST).await;
    let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let wanted = read(&body)?;
    if wanted.key != wanted.typed {
        let text = "the typed key is another one";
        return Err((StatusCode::CONFLICT, text.to_owned()));
    }
    unlock(room, &wanted, &peer).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn read(body: &Bytes) -> Result<Wanted, Refused> {
    serde_json::from_slice(body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

async fn unlock(room: &Arc<Room>, wanted: &Wanted, peer: &str) -> Result<Response, Refused> {
    let invalid = |text: String| (StatusCode::BAD_REQUEST, text);
    let key = LockKey::new(&wanted.key).map_err(|error| invalid(error.to_string()))?;
    let owner = wanted.owner.as_deref().map(str::parse::<OwnerId>);
    let owner = owner
        .transpose()
        .map_err(|error| invalid(error.to_string()))?;
    let fence = wanted
        .fence
        .parse()
        .map_err(|_| invalid(format!("invalid fence `{}`", wanted.fence)))?;
    if owner.is_none() && fence == 0 {
        let text = "a lease of a third-party client looks like the next one on the same key: use `dlock unlock`";
        return Err((StatusCode::CONFLICT, text.to_owned()));
    }
    let inspector = timeout(PATIENCE, room.desk.inspector()).await;
    let unavailable = |reason| (StatusCode::SERVICE_UNAVAILABLE, reason);
    let inspector = inspector
        .unwrap_or_else(|_| Err("the store is unreachable: nothing was changed".to_owned()))
        .map_err(unavailable)?;
    let request = Request {
        key,
        owner,
        fence,
        peer: peer.to_owned(),
    };
    // The client may leave at any time. A release that has begun is completed, and logged, without it.
    let done = tokio::spawn(request.carry_out(room.clone(), inspector)).await;
    done.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

impl Request {
    async fn carry_out(
        self,
        room: Arc<Room>,
        inspector: Arc<dyn Inspect>,
    ) -> Result<Response, Refused> {
        let Self {
            key: lock,
            owner: of,
            fence,
            peer,
        } = self;
        let (key, owner) = (lock.as_str(), of.map(|owner| owner.to_string()));
        warn!(target: TARGET, %peer, key, owner, fence, "force-release requested");
        let done = end_lease(&*inspector, &lock, of, fence).await;
        let (outcome, seen) = match done {
            Ok(done) => done,
            Err(error) => {
                // A lease on which a transaction relies, for example.
                let is_refused = error.kind() == StoreErrorKind::Refused && error.has_no_effect();
                let status = if is_refused {
                    StatusCode::CONFLICT
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                };
                // As a text it is escaped: keys and labels must not control a terminal.
                let error = error.to_string();
                warn!(target: TARGET, %peer, key, owner, fence, error, "force-release failed");
                return Err((status, error));
            }
        };
        if outcome != Unlocked::Changed {
            room.desk.forced(key, of, fence);
        }
        let (outcome, text) = told(outcome);
        let holder = seen.and_then(|seen| name(&seen, of));
        warn!(target: TARGET, %peer, key, holder, owner, fence, outcome, "force-release");
        Ok(reply::document(
            &json!({ "outcome": outcome, "text": text }),
        ))
    }
}

/// Ends the lease that the page has shown, unless it has changed since.
async fn end_lease(
    inspector: &dyn Inspect,
    key: &LockKey,
    owner: Option<OwnerId>,
    fence: u64,
) -> Result<(Unlocked, Option<LockInfo>), StoreError> {
    let Some(seen) = inspector.lock(key).await? else {
        return Ok((Unlocked::Changed, None));
    };
    let is_there = match owner {
        Some(owner) => seen
            .holders()
            .any(|holder| holder.owner == Some(owner) && holder.fence == fence),
        None => seen
            .holder
            .as_ref()
            .is_some_and(|holder| holder.fence == fence),
    };
    if !is_there {
        return Ok((Unlocked::Changed, Some(seen)));
    }
    let outcome = inspector.unlock(&seen, owner).await?;
    Ok((outcome, Some(seen)))
}

/// Returns the label of the holder whose lease was to be ended.
fn name(seen: &LockInfo, owner: Option<OwnerId>) -> Option<String> {
    let mut holders = seen.holders();
    let holder = holders.find(|holder| owner.is_none() || holder.owner == owner)?;
    label_of(holder).map(str::to_owned)
}

fn told(outcome: Unlocked) -> (&'static str, &'static str) {
    match outcome {
        Unlocked::Freed => ("freed", "The lease was ended, and the lock is free."),
        Unlocked::HandedOn => (
            "granted",
            "The lease was ended, and the lock was granted to the next waiter, or to all that may share it.",
        ),
        Unlocked::StillShared => (
            "still shared",
            "The lease was ended. Others share the lock, with the same fencing token.",
        ),
        Unlocked::Changed => (
            "changed",
            "Nothing was changed: the lock has another holder by now, or is free.",
        ),
    }
}
