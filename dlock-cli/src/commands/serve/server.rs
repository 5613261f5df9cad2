//! The server of the page. A client that sends no request does not keep its connection.

use std::{convert::Infallible, io::ErrorKind, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, extract::ConnectInfo};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, time::sleep};

/// The time for which a connection may be without a complete head of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The pause when no connection can be accepted: most often, too many are open.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves `router` until `end`, and then until the responses under way are complete.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    patience: Duration,
    end: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    let connections = GracefulShutdown::new();
    tokio::select! {
        never = accept(&listener, &router, &http, &connections) => match never {},
        () = pin!(end) => {}
    }
    // The next client is refused instead of waiting.
    drop(listener);
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    router: &Router,
    http: &http1::Builder,
    connections: &GracefulShutdown,
) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let page = TowerToHyperService::new(router.clone());
                let service = service_fn(move |mut request: Request<Incoming>| {
                    let peer: ConnectInfo<SocketAddr> = ConnectInfo(peer);
                    request.extensions_mut().insert(peer);
                    page.call(request)
                });
                let connection = http.serve_connection(TokioIo::new(stream), service);
                // A client that leaves is no fault of the server.
                tokio::spawn(connections.watch(connection));
            }
            Err(error) if is_of_client(error.kind()) => {}
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn is_of_client(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        sync::oneshot,
        time::timeout,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn all_of(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let read = timeout(LIMIT, stream.read_to_string(&mut text)).await;
        // A connection that is reset has ended too.
        drop(read.expect("the connection ends"));
        text
    }

    #[tokio::test]
    async fn a_client_without_a_request_loses_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let told = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
        let router = Router::new().route("/", get(told));
        let ended = async { drop(ended.await) };
        let patience = Duration::from_millis(500);
        let server = tokio::spawn(serve(listener, router, patience, ended));
        for sent in ["", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(sent.as_bytes()).await.unwrap();
            let answer = all_of(&mut silent).await;
            assert!(!answer.contains("200"), "{sent}: {answer}");
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let peer = client.local_addr().unwrap().to_string();
        let answer = all_of(&mut client).await;
        assert!(answer.ends_with(&peer), "{answer}");
        end.send(()).unwrap();
        timeout(LIMIT, server).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
