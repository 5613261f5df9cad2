use std::sync::Arc;

use axum::{body::Bytes, routing::get};
use futures_util::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// Limits that are soon reached where a test is about them.
const LIMITS: Limits = Limits {
    head: Duration::from_millis(500),
    write: Duration::from_millis(500),
    ..Limits::USUAL
};

/// Limits that no test reaches by waiting.
const PATIENT: Limits = Limits {
    head: Duration::from_secs(600),
    write: Duration::from_secs(600),
    ..Limits::USUAL
};

struct Site {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Site {
    async fn start(router: Router, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let ended = async { drop(ended.await) };
        let server = tokio::spawn(serve(listener, router, limits, ended));
        Self {
            address,
            end,
            server,
        }
    }

    /// Connects and sends a part of a request.
    async fn connect(&self, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }

    /// Asks until there is an answer: a machine that pauses can use up the time for a request.
    async fn ask(&self, path: &str) -> String {
        let asking = async {
            loop {
                let request =
                    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let answer = all_of(&mut self.connect(&request).await).await;
                if answer.starts_with("HTTP/") {
                    return answer;
                }
            }
        };
        timeout(LIMIT, asking).await.expect("the server answers")
    }

    /// Asks until the answer begins like this.
    async fn ask_until(&self, path: &str, begin: &str) -> String {
        let asking = async {
            loop {
                let answer = self.ask(path).await;
                if answer.starts_with(begin) {
                    return answer;
                }
            }
        };
        timeout(LIMIT, asking).await.expect("the answer changes")
    }
}

async fn all_of(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = timeout(LIMIT, stream.read_to_string(&mut text)).await;
    // A connection that is reset has ended too.
    drop(read.expect("the connection ends"));
    text
}

/// Reads the head of a response.
async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    };
    timeout(LIMIT, reading).await.expect("the server answers");
    String::from_utf8(head).unwrap()
}

/// Tells that it was dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A response without an end, and the end of the server's part of it.
fn endless() -> (Router, Arc<Notify>) {
    let ended = Arc::new(Notify::new());
    let guard = ended.clone();
    let body = async move || {
        let parts =
            stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'a'; 16_384])));
        let guard = Guard(guard.clone());
        Body::from_stream(parts.map(move |part| {
            let _ = &guard;
            part
        }))
    };
    (Router::new().route("/", get(body)), ended)
}

/// The address of the client.
fn peer() -> Router {
    let told = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
    Router::new().route("/", get(told))
}

#[tokio::test]
async fn a_client_without_a_request_loses_its_connection() {
    let site = Site::start(peer(), LIMITS).await;
    for sent in ["", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        let answer = all_of(&mut site.connect(sent).await).await;
        assert!(!answer.contains("200"), "{sent}: {answer}");
    }
    let answer = site.ask("/").await;
    assert!(answer.contains("127.0.0.1:"), "{answer}");
    site.end.send(()).unwrap();
    timeout(LIMIT, site.server).await.unwrap().unwrap();
    assert!(TcpStream::connect(site.address).await.is_err());
}

#[tokio::test]
async fn a_client_that_never_ends_its_request_loses_its_connection() {
    let site = Site::start(peer(), LIMITS).await;
    let (mut read, mut write) = site
        .connect("GET / HTTP/1.1\r\nHost: a\r\na: ")
        .await
        .into_split();
    let drip = async {
        while write.write_all(b"a").await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let mut answer = Vec::new();
    let end = async { drop(read.read_to_end(&mut answer).await) };
    let ended = timeout(LIMIT, async {
        tokio::select! {
            () = drip => {}
            () = end => {}
        }
    });
    ended.await.expect("the connection ends");
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_without_another_request_loses_its_connection() {
    let site = Site::start(peer(), LIMITS).await;
    let mut idle = site.connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    // With or without an answer, on a machine that pauses.
    all_of(&mut idle).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_stream() {
    let (router, ended) = endless();
    let limits = Limits {
        head: PATIENT.head,
        ..LIMITS
    };
    let site = Site::start(router, limits).await;
    let deaf = site.connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let left = timeout(LIMIT, ended.notified()).await;
    left.expect("the stream ends");
    drop(deaf);
}

#[tokio::test]
async fn a_client_that_reads_keeps_its_stream() {
    let (router, ended) = endless();
    let site = Site::start(router, PATIENT).await;
    let mut client = site.connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut read = vec![0; 64 * 65536];
    let reading = timeout(LIMIT, client.read_exact(&mut read)).await;
    reading.expect("it goes on").unwrap();
    drop(client);
    let left = timeout(LIMIT, ended.notified()).await;
    left.expect("the stream ends with its client");
}

/// A router with a response without an end, and one with an end.
fn both() -> Router {
    let (endless, _) = endless();
    endless.route("/short", get(async || "short"))
}

#[tokio::test]
async fn so_many_clients_are_connected_at_the_same_time() {
    let limits = Limits {
        connections: 2,
        refused: 1,
        ..PATIENT
    };
    let site = Site::start(both(), limits).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = site.connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let head = head_of(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        open.push(stream);
    }
    let request = "GET /short HTTP/1.1\r\nHost: a\r\n\r\n";
    for _ in 0..3 {
        // One that never asks does not keep others from their answer.
        let _silent = site.connect("").await;
        // The connection ends with the answer, though the client has not asked for that.
        let refused = all_of(&mut site.connect(request).await).await;
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.contains(r#"{"error":"too many"#), "{refused}");
    }
    open.pop();
    site.ask_until("/short", "HTTP/1.1 200").await;
}

#[tokio::test]
async fn clients_without_a_request_make_way_for_others() {
    let limits = Limits {
        connections: 3,
        refused: 1,
        ..PATIENT
    };
    let site = Site::start(both(), limits).await;
    let mut stream = site.connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    head_of(&mut stream).await;
    let mut open = Vec::new();
    for sent in [
        "",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "GET /short HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        // More than there are places of either kind.
        for _ in 0..6 {
            open.push(site.connect(sent).await);
        }
        let answer = timeout(LIMIT, site.ask("/short")).await;
        let answer = answer.expect("it is accepted");
        assert!(answer.starts_with("HTTP/1.1 200"), "{sent}: {answer}");
    }
    // One whose response goes on has kept its place: more comes than was on the way.
    let mut read = vec![0; 256 * 65536];
    let reading = timeout(LIMIT, stream.read_exact(&mut read)).await;
    reading.expect("it goes on").expect("it is open");
    drop(open);
}
