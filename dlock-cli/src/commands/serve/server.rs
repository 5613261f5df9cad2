//! The server of the page, with limits on clients: one that sends no request, or reads no response, does not keep its
//! connection, and there are only so many connections. No client keeps the server from accepting others.

mod places;
mod progress;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    io::ErrorKind,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::ConnectInfo,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

use self::{
    places::{Busy, Place, Places},
    progress::Progress,
};

/// The pause when no connection can be accepted: most often, too many are open.
const PAUSE: Duration = Duration::from_secs(1);

/// The limits on clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The time for which a connection may be without a complete head of a request.
    pub(super) head: Duration,
    /// The time for which a client may read nothing of a response.
    pub(super) write: Duration,
    /// The number of connections at the same time. Those without a request make way for others.
    pub(super) connections: usize,
    /// The number of further connections that are answered with status 503.
    pub(super) refused: usize,
}

impl Limits {
    /// Fewer than the 1024 files that a process may have open on most systems.
    pub(super) const USUAL: Self = Self {
        head: Duration::from_secs(30),
        write: Duration::from_secs(60),
        connections: 512,
        refused: 32,
    };
}

/// Serves `router` until `end`, and then until the responses under way are complete.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
) {
    let server = Server::new(router, limits);
    tokio::select! {
        never = server.accept(&listener) => match never {},
        () = pin!(end) => {}
    }
    // The next client is refused instead of waiting.
    drop(listener);
    server.connections.shutdown().await;
}

struct Server {
    router: Router,
    limits: Limits,
    http: http1::Builder,
    connections: GracefulShutdown,
    places: Arc<Places>,
}

/// The body of a response, which keeps the place of its connection.
struct Answer {
    body: Body,
    _busy: Busy,
}

impl Server {
    fn new(router: Router, limits: Limits) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.head);
        Self {
            router,
            limits,
            http,
            connections: GracefulShutdown::new(),
            places: Places::new(limits.connections, limits.refused),
        }
    }

    async fn accept(&self, listener: &TcpListener) -> Infallible {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Without a place it is closed.
                    if let Some(place) = self.places.take(peer.ip()) {
                        self.start(stream, peer, place);
                    }
                }
                Err(error) if is_of_client(error.kind()) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr, place: Place) {
        let page = TowerToHyperService::new(self.router.clone());
        let is_refused = place.is_refused;
        let place = Arc::new(place);
        let of_requests = place.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = of_requests.serves();
            let peer: ConnectInfo<SocketAddr> = ConnectInfo(peer);
            request.extensions_mut().insert(peer);
            let answer = (!is_refused).then(|| page.call(request));
            async move {
                let response = match answer {
                    Some(answer) => answer.await?,
                    None => refusal(),
                };
                let answer = |body| Answer { body, _busy: busy };
                Ok::<_, Infallible>(response.map(answer))
            }
        });
        let stream = TokioIo::new(Progress::within(self.limits.write, stream));
        let mut http = self.http.clone();
        http.keep_alive(!is_refused);
        let connection = self
            .connections
            .watch(http.serve_connection(stream, service));
        tokio::spawn(async move {
            tokio::select! {
                // A client that leaves is no fault of the server.
                _ = connection => {}
                () = place.ends() => {}
            }
        });
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn refusal() -> Response {
    let text = r#"{"error":"too many connections are open at the same time: close some pages"}"#;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn is_of_client(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}
