//! A program in another language, which does what it is told.

use std::process::Command;

use dlock_testkit::Worker;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use super::{LIMIT, soon};

/// A process that gets its orders over a socket, one a line, and answers each with a line.
pub(crate) struct Program {
    pub(crate) process: Worker,
    orders: OwnedWriteHalf,
    outcomes: BufReader<OwnedReadHalf>,
}

impl Program {
    /// Its last argument is the port that it has to call.
    pub(crate) async fn start(command: &mut Command) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let process = Worker::spawn(command.arg(port.to_string()));
        // An interpreter starts slowly on a loaded machine.
        let (stream, _) = timeout(3 * LIMIT, listener.accept())
            .await
            .unwrap_or_else(|_| panic!("it does not call: {}", process.stderr()))
            .unwrap();
        let (outcomes, orders) = stream.into_split();
        Self {
            process,
            orders,
            outcomes: BufReader::new(outcomes),
        }
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
