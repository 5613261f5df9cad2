//! Documents that follow each other in one response, as server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream::unfold;
use tokio::time::{Instant, sleep, sleep_until};

/// After so long without an event a comment is sent, so that neither side nor a proxy gives the connection up.
const QUIET: Duration = Duration::from_secs(15);

/// The time between two events of one stream, at least.
const APART: Duration = Duration::from_millis(100);

/// The source of a stream.
pub(super) trait Feed: Send + 'static {
    /// The name of its events.
    const NAME: &'static str;

    /// Waits until the document may have changed. Returns `false` at the end of the stream.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;

    fn document(&mut self) -> String;
}

/// Returns a response with an event at once, and one after each change.
pub(super) fn stream<F: Feed>(feed: F) -> Response {
    let events = unfold((feed, None), |(mut feed, last)| async move {
        if let Some(last) = last {
            tokio::select! {
                goes_on = feed.changed() => {
                    if !goes_on {
                        return None;
                    }
                    sleep_until(last + APART).await;
                }
                () = sleep(QUIET) => {
                    return Some((Ok(":\n\n".to_owned()), (feed, Some(last))));
                }
            }
        }
        // JSON has no line breaks outside of texts, and escapes those inside.
        let event = format!("event: {}\ndata: {}\n\n", F::NAME, feed.document());
        Some((Ok::<_, Infallible>(event), (feed, Some(Instant::now()))))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    // Some proxies wait for the end of a response otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
