//! A small client for HTTP, and for streams of events.

use std::net::SocketAddr;

use dlock_testkit::{Worker, eventually};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::super::LIMIT;

/// The program with its page.
pub(in super::super) struct Site {
    pub(in super::super) worker: Worker,
    pub(super) address: SocketAddr,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.body);
        read.unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }
}

/// A stream of events.
pub(in super::super) struct Events(BufReader<TcpStream>);

impl Site {
    async fn send(&self, head: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // With HTTP/1.0 a body ends with the connection, and has no chunks.
        let length = body.len();
        let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    /// Sends a request with these headers, each with its line break.
    pub(super) async fn ask(&self, request: &str, headers: &str, body: &str) -> Answer {
        let head = format!("{request} HTTP/1.0\r\n{headers}");
        let mut stream = self.send(&head, body).await;
        let mut text = String::new();
        let read = timeout(LIMIT, stream.read_to_string(&mut text)).await;
        read.expect("the program answers").unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("it is HTTP");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        let host = format!("Host: {}\r\n", self.address);
        self.ask(&format!("GET /{path}"), &host, "").await
    }

    /// Returns the document at a path. A request does not wait long for the first picture: one that came too early is
    /// repeated.
    pub(in super::super) async fn json(&self, path: &str) -> Value {
        let mut told = Value::Null;
        eventually(LIMIT, "there is a picture", async || {
            let answer = self.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            told = answer.json();
            told["picture"]["state"] != "reading"
        })
        .await;
        told
    }

    pub(in super::super) async fn events(&self, path: &str) -> Events {
        let head = format!("GET /{path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        let mut stream = self.send(&head, "").await;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            let read = timeout(LIMIT, stream.read_line(&mut line)).await;
            assert_ne!(read.expect("it answers").unwrap(), 0, "it has a head");
        }
        Events(stream)
    }
}

impl Events {
    /// Returns the next document, or `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let read = timeout(LIMIT, self.0.read_line(&mut line)).await;
            // A program that ends may cut the connection.
            if read.expect("something comes").unwrap_or(0) == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Returns the first document that fits.
    pub(in super::super) async fn until(
        &mut self,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let found = timeout(LIMIT * 2, async {
            loop {
                last = self.next().await.expect("the stream goes on");
                if fits(&last) {
                    return;
                }
            }
        });
        let found = found.await;
        found.unwrap_or_else(|_| panic!("{what} is not shown: {last:#}"));
        last
    }
}
