//! Servers of tests that say what no real one can be made to say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The answer to the words of a command.
type Answer = Arc<dyn Fn(Vec<String>) -> BoxFuture<'static, String> + Send + Sync>;

/// A server for as long as it lives.
pub(super) struct Fake {
    pub(super) port: u16,
    logins: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Fake {
    pub(super) async fn start<F>(answer: impl Fn(Vec<String>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        Self::silent_at_first(0, answer).await
    }

    /// Its first connections are accepted and not answered.
    pub(super) async fn silent_at_first<F>(
        silent: usize,
        answer: impl Fn(Vec<String>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer: Answer = Arc::new(move |words| Box::pin(answer(words)));
        let logins = Arc::new(AtomicUsize::new(0));
        let counted = logins.clone();
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = connections.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                let (answer, counted) = (answer.clone(), counted.clone());
                connections.spawn(async move {
                    if number < silent {
                        std::future::pending::<()>().await;
                    }
                    serve(stream, &answer, &counted).await.ok();
                });
            }
        });
        Self {
            port,
            logins,
            connections,
            _tasks: tasks,
        }
    }

    /// The number of logins.
    pub(super) fn logins(&self) -> usize {
        self.logins.load(Ordering::Relaxed)
    }

    /// The number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A text as an answer.
pub(super) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

async fn serve(stream: TcpStream, answer: &Answer, logins: &AtomicUsize) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = command(&mut stream).await?;
        // The library's own, of which there is one for each connection.
        if words[0] == "HELLO" && words.get(1).is_some_and(|it| it == "3") {
            logins.fetch_add(1, Ordering::Relaxed);
        }
        let answer = answer(words).await;
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
}

/// The words of one command.
async fn command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..length(stream).await? {
        let mut word = vec![0; length(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Ok(words)
}

/// The number in a line such as `*2`.
async fn length(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let number = line.get(1..).and_then(|it| it.trim_end().parse().ok());
    number.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

/// The answers to the requests of a new connection for itself: the server's identity, and the
/// subscription to hints.
pub(super) fn courtesy(words: &[String]) -> String {
    match words[0].as_str() {
        "HELLO" => "%0\r\n".to_owned(),
        "SUBSCRIBE" => format!(">3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(&words[1])),
        _ => "+OK\r\n".to_owned(),
    }
}
