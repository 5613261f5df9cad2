//! A client of another make, in a process of its own.

use std::time::Duration;

use dlock_testkit::{RedisServer, Worker, python};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::{
    KEY,
    common::{LIMIT, soon},
};

/// A Python process that does with the lock of redis-py what it is told.
pub(crate) struct Foreign {
    pub(crate) process: Worker,
    orders: OwnedWriteHalf,
    outcomes: BufReader<OwnedReadHalf>,
}

impl Foreign {
    /// One with a lock at [`KEY`] that nobody has taken yet; without a TTL it never expires.
    pub(crate) async fn start(server: &RedisServer, ttl: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let process = Worker::spawn(
            python()
                .args(["-c", include_str!("client.py")])
                .args([server.url(), port.to_string()]),
        );
        let (stream, _) = timeout(LIMIT, listener.accept())
            .await
            .unwrap_or_else(|_| panic!("it does not call: {}", process.stderr()))
            .unwrap();
        let (outcomes, orders) = stream.into_split();
        let mut foreign = Self {
            process,
            orders,
            outcomes: BufReader::new(outcomes),
        };
        let ttl = ttl.map_or_else(String::new, |ttl| ttl.as_secs_f64().to_string());
        assert_eq!(foreign.ask(&format!("lock {KEY} {ttl}")).await, "ready");
        foreign
    }

    /// Gives an order and waits for what comes of it.
    pub(crate) async fn ask(&mut self, order: &str) -> String {
        self.tell(order).await;
        self.outcome().await
    }

    pub(crate) async fn tell(&mut self, order: &str) {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await.unwrap();
    }

    /// What came of the order that was given last.
    pub(crate) async fn outcome(&mut self) -> String {
        let mut line = String::new();
        soon(self.outcomes.read_line(&mut line)).await.unwrap();
        let outcome = line.strip_suffix('\n');
        outcome.map_or_else(|| panic!("{}", self.process.stderr()), ToOwned::to_owned)
    }
}
