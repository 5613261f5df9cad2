//! `dlock serve`: the program behind the page, as browsers see it.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod client;
mod locks;
mod outages;
mod protection;

use std::process::Command;

use dlock_testkit::{RedisServer, Worker};

use self::client::Site;
use super::{LIMIT, dlock};

/// Returns the program with a short interval, on a free port.
fn serve(server: &RedisServer, arguments: &[&str]) -> Command {
    let words = ["serve", "--listen", "127.0.0.1:0", "--interval", "100ms"];
    dlock(server, &[&words[..], arguments].concat())
}

/// Starts the program, and waits until it listens.
pub(super) async fn start(command: &mut Command) -> Site {
    let worker = Worker::spawn(command);
    let line = worker.line("The page is at http://", LIMIT).await;
    let (_, address) = line.split_once("http://").unwrap();
    let address = address.trim_end_matches('/').parse().unwrap();
    Site { worker, address }
}
