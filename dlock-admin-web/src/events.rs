//! Documents that follow each other in one response, as server-sent events.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use futures_util::stream::unfold;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::reply;

/// After so long the document is sent again, with its new age. Neither side nor a proxy gives the connection up, and a
/// script of the page sees that it is alive, which a comment would not show.
const QUIET: Duration = Duration::from_secs(15);

/// The time between two events of one stream, at least.
const APART: Duration = Duration::from_millis(100);

/// A stream ends if its server takes no event for so long, because its client reads nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of streams at the same time. Each makes a document of every picture, and keeps it for a browser that reads late.
pub(super) const MOST: usize = 256;

/// The streams that may still be opened.
#[derive(Debug)]
pub(super) struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

/// The source of a stream.
pub(super) trait Feed: Send + 'static {
    /// The name of its events.
    const NAME: &'static str;

    /// Waits until the document may have changed. Returns `false` at the end of the stream.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;

    fn document(&mut self) -> impl Future<Output = String> + Send;
}

/// Returns a response with an event at once, and one after each change, or a refusal if there are too many.
pub(super) fn stream<F: Feed>(streams: &Streams, feed: F) -> Response {
    let Ok(permit) = streams.0.clone().try_acquire_owned() else {
        let text = "too many pages are open at the same time: close some";
        return reply::failure(StatusCode::SERVICE_UNAVAILABLE, text);
    };
    let shelf = Arc::new(Shelf::of(Open {
        feed,
        last: None,
        _permit: permit,
    }));
    // It ends with the stream, and does not keep it.
    let mut watch = JoinSet::new();
    watch.spawn(Shelf::clear_when_left(Arc::downgrade(&shelf)));
    let events = unfold((shelf, watch), |(shelf, watch)| async {
        let mut open = shelf.take()?;
        let event = open.next().await?;
        shelf.put(open);
        Some((Ok::<_, Infallible>(event), (shelf, watch)))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    // Some proxies wait for the end of a response otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream that goes on.
struct Open<F> {
    feed: F,
    last: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl<F: Feed> Open<F> {
    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if let Some(last) = self.last {
            tokio::select! {
                goes_on = self.feed.changed() => {
                    if !goes_on {
                        return None;
                    }
                    sleep_until(last + APART).await;
                }
                () = sleep(QUIET) => {}
            }
        }
        // JSON has no line breaks outside of texts, and escapes those inside.
        let document = self.feed.document().await;
        let event = format!("event: {}\ndata: {document}\n\n", F::NAME);
        self.last = Some(Instant::now());
        Some(event)
    }
}

/// The place of a stream while its server does not wait for the next event, with the time since when.
struct Shelf<F>(Mutex<Option<(Open<F>, Instant)>>);

impl<F: Feed> Shelf<F> {
    fn of(open: Open<F>) -> Self {
        Self(Mutex::new(Some((open, Instant::now()))))
    }

    fn take(&self) -> Option<Open<F>> {
        self.place().take().map(|(open, _)| open)
    }

    fn put(&self, open: Open<F>) {
        *self.place() = Some((open, Instant::now()));
    }

    /// Drops the stream when it has lain there for too long.
    async fn clear_when_left(shelf: Weak<Self>) {
        let mut next = Instant::now() + PATIENCE;
        loop {
            sleep_until(next).await;
            let Some(shelf) = shelf.upgrade() else {
                return;
            };
            let now = Instant::now();
            let left = {
                let mut place = shelf.place();
                let since = place.as_ref().map_or(now, |(_, since)| *since);
                next = since + PATIENCE;
                (next <= now).then(|| place.take())
            };
            if left.is_some() {
                return;
            }
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<(Open<F>, Instant)>> {
        // Every change is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
