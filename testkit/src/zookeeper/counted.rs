//! Counts the requests of clients on their way to a server.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// A ping of the client, by its number in the protocol.
const PING: i32 = 11;
/// A `sync`. With the root of the locks, it is how dlock proves the session to be alive.
const SYNC: i32 = 9;

/// A server's port behind which the requests are counted.
pub struct CountedRequests {
    port: u16,
    requests: Arc<AtomicUsize>,
    _links: JoinSet<()>,
}

impl CountedRequests {
    /// Starts to forward connections to a server on this port.
    pub async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let mut links = JoinSet::new();
        links.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    return;
                };
                // A server that is down refuses, and so does this: the connection is closed.
                let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)).await else {
                    continue;
                };
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = server.into_split();
                open.spawn(forward(from_client, to_server, count.clone()));
                open.spawn(
                    async move { copy(&mut from_server, &mut to_client).await.ok().map(drop) },
                );
            }
        });
        Self {
            port,
            requests,
            _links: links,
        }
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of requests so far, without those that keep the session.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Forwards requests until an end of the connection is closed.
async fn forward(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    count: Arc<AtomicUsize>,
) -> Option<()> {
    let mut is_first = true;
    loop {
        let length = client.read_i32().await.ok()?;
        let mut request = vec![0; usize::try_from(length).ok()?];
        client.read_exact(&mut request).await.ok()?;
        // The first one makes the session, and has another form.
        if !is_first && !keeps_the_session(&request) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        is_first = false;
        server.write_i32(length).await.ok()?;
        server.write_all(&request).await.ok()?;
    }
}

fn keeps_the_session(request: &[u8]) -> bool {
    let code = request.get(4..8).and_then(|code| code.try_into().ok());
    match code.map(i32::from_be_bytes) {
        Some(PING) => true,
        Some(SYNC) => request.get(12..) == Some(b"/dlock"),
        _ => false,
    }
}
