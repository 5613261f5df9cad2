//! Releases a lock by force, for a client that has the token.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Bytes,
    extract::{self, ConnectInfo, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use dlock_admin::{HolderInfo, Inspect, LockInfo, Unlocked, view};
use dlock_runtime::{
    LockKey,
    store::{ClaimHandle, OwnerId, StoreError, StoreErrorKind},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use tracing::warn;

use super::{
    protect::is_same_origin,
    reply,
    room::Room,
    token::{Given, Token},
};

/// The greatest size of a request.
const MOST: usize = 16 * 1024;

/// The target of the log events.
const TARGET: &str = "dlock::admin::web";

/// The lease to end, as the page has shown it.
#[derive(Debug, Deserialize)]
struct UnlockForm {
    key: String,
    /// The key as the operator has typed it.
    typed: String,
    /// That of the holder; `None` for all that share the lock.
    handle: Option<String>,
    /// The fencing token of the lease; `None` for a third-party client.
    token: Option<String>,
}

type Refused = (StatusCode, String);

/// A request that may be carried out.
struct UnlockRequest {
    key: LockKey,
    lease: ShownLease,
    client: Client,
}

/// The identity of a lease, as the page has shown it.
struct ShownLease {
    /// That of the holder; `None` for all that share the lock.
    handle: Option<ClaimHandle>,
    token: Option<String>,
}

/// The sender of a request, for the log.
struct Client {
    peer: String,
    /// `None` if the server does not tell it.
    address: Option<IpAddr>,
    /// The address and the user that a proxy has named, or another client pretends.
    claimed: Option<String>,
}

impl Client {
    /// The number of characters of a claim that are logged.
    const MOST: usize = 200;

    fn of(request: &extract::Request) -> Self {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let named = ["x-forwarded-for", "x-forwarded-user"].map(|name| {
            let value = request.headers().get(name)?;
            value.to_str().ok()
        });
        let claimed: Vec<_> = named.into_iter().flatten().collect();
        let claimed = claimed
            .join(" ")
            .chars()
            .take(Self::MOST)
            .collect::<String>();
        Self {
            address: peer.map(|peer| peer.0.ip()),
            peer: peer.map_or_else(|| "unknown".to_owned(), |peer| peer.0.to_string()),
            claimed: Some(claimed).filter(|claimed| !claimed.is_empty()),
        }
    }

    /// Returns the name of the sender, for the history.
    fn shown(&self) -> Arc<str> {
        match &self.claimed {
            Some(claimed) => format!("{claimed}, through {}", self.peer).into(),
            None => self.peer.as_str().into(),
        }
    }
}

/// The time for which a request is read, and for which it then waits for a connection. Later, the operator no longer
/// expects it to be carried out.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn handle(State(room): State<Arc<Room>>, request: extract::Request) -> Response {
    match answer(&room, request).await {
        Ok(response) => response,
        Err((status, text)) => reply::failure(status, text),
    }
}

async fn answer(room: &Arc<Room>, request: extract::Request) -> Result<Response, Refused> {
    let client = Client::of(&request);
    let (head, body) = request.into_parts();
    let Some(token) = &room.token else {
        let text = "this page is read-only";
        return Err((StatusCode::FORBIDDEN, text.to_owned()));
    };
    if !is_same_origin(&head.headers, &head.uri) {
        let text = "another site may not release locks";
        return Err((StatusCode::FORBIDDEN, text.to_owned()));
    }
    if let Some(denial) = denial(token, &head.headers, &client) {
        return Ok(denial);
    }
    let kind = head.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // A form of another site cannot send this type without asking.
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let text = "the request must be of the type `application/json`";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_owned()));
    }
    let body = timeout(PATIENCE, axum::body::to_bytes(body, MOST)).await;
    let late = |_| {
        (
            StatusCode::REQUEST_TIMEOUT,
            "the request does not end".to_owned(),
        )
    };
    let body = body.map_err(late)?;
    let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let wanted = read(&body)?;
    if wanted.key != wanted.typed {
        let text = "the typed key is another one";
        return Err((StatusCode::CONFLICT, text.to_owned()));
    }
    unlock(room, &wanted, client).await
}

/// Returns the response to a request without the right token.
fn denial(token: &Token, headers: &HeaderMap, client: &Client) -> Option<Response> {
    let unauthorized = |text| Some(reply::failure(StatusCode::UNAUTHORIZED, text));
    let Some(given) = given(headers) else {
        // It guesses nothing.
        return unauthorized("the token is missing");
    };
    let given = token.compare(given, client.address);
    let Client { peer, claimed, .. } = client;
    if matches!(given, Given::Wrong | Given::OneTooMany) {
        warn!(target: TARGET, %peer, claimed, "refused to release a lock: wrong token");
    }
    match given {
        Given::Right => None,
        Given::Wrong => unauthorized("wrong token"),
        Given::OneTooMany => {
            warn!(target: TARGET, %peer, claimed, "too many wrong tokens: those of this address are not logged for a minute");
            unauthorized("wrong token")
        }
        Given::Guess(left) => Some(too_many(left)),
    }
}

fn too_many(left: Duration) -> Response {
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    let text = "too many of this address are wrong. The right one is accepted at any time, and `dlock unlock` needs none";
    let mut response = reply::failure(StatusCode::TOO_MANY_REQUESTS, text);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Returns the token of a request.
fn given(headers: &HeaderMap) -> Option<&str> {
    // The page sends it so: a proxy before it may have a use for `Authorization`.
    if let Some(token) = headers.get("x-dlock-token") {
        return token.to_str().ok();
    }
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn read(body: &Bytes) -> Result<UnlockForm, Refused> {
    serde_json::from_slice(body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

async fn unlock(
    room: &Arc<Room>,
    wanted: &UnlockForm,
    client: Client,
) -> Result<Response, Refused> {
    let invalid = |text: String| (StatusCode::BAD_REQUEST, text);
    let key = LockKey::new(&wanted.key).map_err(|error| invalid(error.to_string()))?;
    let handle = wanted.handle.as_deref().map(str::parse::<ClaimHandle>);
    let handle = handle
        .transpose()
        .map_err(|error| invalid(error.to_string()))?;
    let token = wanted.token.clone();
    if let Some(token) = &token
        && token.parse::<u64>().is_err()
    {
        return Err(invalid(format!("invalid fencing token `{token}`")));
    }
    if handle.is_none() && token.is_none() {
        let text = "a lease of a third-party client looks like the next one on the same key: use `dlock unlock`";
        return Err((StatusCode::CONFLICT, text.to_owned()));
    }
    let inspector = timeout(PATIENCE, room.desk.inspector()).await;
    let unavailable = |reason| (StatusCode::SERVICE_UNAVAILABLE, reason);
    let inspector = inspector
        .unwrap_or_else(|_| Err("the store is unreachable: nothing was changed".to_owned()))
        .map_err(unavailable)?;
    let request = UnlockRequest {
        key,
        lease: ShownLease { handle, token },
        client,
    };
    // The client may leave at any time. A release that has begun is completed, and logged, without it.
    let done = tokio::spawn(request.carry_out(room.clone(), inspector)).await;
    done.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

impl UnlockRequest {
    async fn carry_out(
        self,
        room: Arc<Room>,
        inspector: Arc<dyn Inspect>,
    ) -> Result<Response, Refused> {
        let Self {
            key: lock,
            lease,
            client,
        } = self;
        let by = client.shown();
        let Client { peer, claimed, .. } = client;
        let (key, handle) = (lock.as_str(), lease.handle.map(|it| it.to_string()));
        let token = &lease.token;
        warn!(target: TARGET, %peer, claimed, key, handle, token, "force-release requested");
        let done = lease.end(&*inspector, &lock).await;
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
                warn!(target: TARGET, %peer, claimed, key, handle, token, error, "force-release failed");
                return Err((status, error));
            }
        };
        let holder = seen.as_ref().and_then(|seen| lease.holder(seen));
        if outcome != Unlocked::Changed
            && let Some(holder) = holder
        {
            let owner = lease.handle.and(holder.owner);
            room.desk.forced(key, owner, holder.fence, by);
        }
        let (outcome, text) = told(outcome);
        let holder = holder.and_then(HolderInfo::known_label);
        warn!(target: TARGET, %peer, claimed, key, holder, handle, token, outcome, "force-release");
        Ok(reply::document(
            &json!({ "outcome": outcome, "text": text }),
        ))
    }
}

impl ShownLease {
    /// Ends the lease that the page has shown, unless it has changed since.
    async fn end(
        &self,
        inspector: &dyn Inspect,
        key: &LockKey,
    ) -> Result<(Unlocked, Option<LockInfo>), StoreError> {
        let Some(seen) = inspector.lock(key).await? else {
            return Ok((Unlocked::Changed, None));
        };
        let Some(holder) = self.holder(&seen) else {
            return Ok((Unlocked::Changed, Some(seen)));
        };
        let owner = self.handle.and(holder.owner);
        let outcome = inspector.unlock(&seen, owner).await?;
        Ok((outcome, Some(seen)))
    }

    /// Returns the holder with this handle, or without one the first, if it has this token.
    fn holder<'a>(&self, seen: &'a LockInfo) -> Option<&'a HolderInfo> {
        let handle = self.handle;
        let is_it = |it: &&HolderInfo| handle.is_none() || it.owner.map(OwnerId::handle) == handle;
        let found = seen.holders().find(is_it);
        found.filter(|it| view::token(it.fence) == self.token)
    }
}

fn told(outcome: Unlocked) -> (&'static str, &'static str) {
    match outcome {
        Unlocked::Freed => ("freed", "The lease was ended, and the lock is free."),
        Unlocked::Granted => (
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
        _ => ("unlocked", "The lease was ended."),
    }
}
