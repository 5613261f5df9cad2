//! Documents that follow each other in one response, as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use futures_util::stream::unfold;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, sleep_until},
};

use super::reply;

/// After so long the document is sent again, with its new age. Neither side nor a proxy gives the connection up, and a
/// script of the page sees that it is alive, which a comment would not show.
const QUIET: Duration = Duration::from_secs(15);

/// The time between two events of one stream, at least.
const APART: Duration = Duration::from_millis(100);

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
    let events = unfold(
        (feed, None, permit),
        |(mut feed, last, permit)| async move {
            if let Some(last) = last {
                tokio::select! {
                    goes_on = feed.changed() => {
                        if !goes_on {
                            return None;
                        }
                        sleep_until(last + APART).await;
                    }
                    () = sleep(QUIET) => {}
                }
            }
            // JSON has no line breaks outside of texts, and escapes those inside.
            let document = feed.document().await;
            let event = format!("event: {}\ndata: {document}\n\n", F::NAME);
            let next = (feed, Some(Instant::now()), permit);
            Some((Ok::<_, Infallible>(event), next))
        },
    );
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    // Some proxies wait for the end of a response otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
