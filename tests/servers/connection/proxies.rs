//! Proxies that understand Redis, and do not forward what dlock needs.

use dlock::{LockManager, store::StoreErrorKind};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::connection::refused;

/// The answer to the words of a command; an empty one closes the connection.
type Answer = fn(&[String]) -> String;

/// A proxy for as long as the set lives, by its address.
async fn start(answer: Answer) -> (JoinSet<()>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move { drop(serve(stream, answer).await) });
        }
    });
    (tasks, address.to_string())
}

async fn serve(stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        for _ in 0..length(&mut stream).await? {
            let mut word = vec![0; length(&mut stream).await? + 2];
            stream.read_exact(&mut word).await?;
            words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
        }
        let answer = answer(&words);
        if answer.is_empty() {
            return Ok(());
        }
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
}

/// The number in a line such as `*2`.
async fn length(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let number = line.get(1..).and_then(|it| it.trim_end().parse().ok());
    number.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

/// The list of commands in its `notes/redis.md` has these, and neither `HELLO`, `CLIENT`, `SCRIPT` nor `SUBSCRIBE`. At any
/// other one, `redis_parse_req` in its `nc_redis.c` ends with an error, and the connection is closed.
fn twemproxy(words: &[String]) -> String {
    let answer = match words[0].to_ascii_uppercase().as_str() {
        "PING" => "+PONG\r\n",
        "AUTH" | "SELECT" => "+OK\r\n",
        "EVAL" => ":1\r\n",
        "EVALSHA" => "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        _ => "",
    };
    answer.to_owned()
}

#[tokio::test]
async fn one_that_closes_the_connection_at_a_command_is_named() {
    let (_tasks, address) = start(twemproxy).await;
    for url in [
        format!("redis://{address}"),
        format!("redis://{address}?protocol=resp2"),
        format!("redis://:s3cr3t-p4ssw0rd@{address}?protocol=resp2"),
    ] {
        let (kind, text) = refused(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Unsupported, "{url}: {text}");
        for words in ["a proxy such as twemproxy", "connect to the server itself"] {
            assert!(text.contains(words), "{url}: {text}");
        }
        assert!(!text.contains("rediss://"), "{url}: {text}");
    }
}

/// Its documentation of Redis lists the commands, and the error of one that is not among them.
fn envoy(words: &[String]) -> String {
    let command = &words[0];
    match command.to_ascii_uppercase().as_str() {
        "PING" => "+PONG\r\n".to_owned(),
        "INFO" => "$0\r\n\r\n".to_owned(),
        "EVAL" | "EVALSHA" if words.len() < 4 => {
            format!("-wrong number of arguments for '{command}' command\r\n")
        }
        _ => format!("-ERR unknown command '{command}', with args beginning with: \r\n"),
    }
}

/// Before it took over the words of Redis.
fn early_envoy(words: &[String]) -> String {
    let answer = envoy(words);
    if answer.contains("unknown command") {
        format!("-unsupported command '{}'\r\n", words[0])
    } else {
        answer
    }
}

#[tokio::test]
async fn one_that_refuses_commands_is_named() {
    for answer in [envoy, early_envoy] {
        let (_tasks, address) = start(answer).await;
        let url = format!("redis://{address}");
        let (kind, text) = refused(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
        assert!(text.contains("a proxy that forwards `SUBSCRIBE`"), "{text}");

        let url = format!("redis://{address}?protocol=resp2");
        let (kind, text) = refused(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
        for words in [
            "unknown command 'SUBSCRIBE'",
            "a proxy, such as Envoy",
            "connect to the server itself",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
}
