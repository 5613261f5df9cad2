//! Starts the process of a server, and waits for its first answer.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::child::OwnedChild;
use crate::clock::WallClock;
use crate::program::Make;
use crate::within::within;

/// Long enough for a loaded machine; a server usually answers within 50 ms.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(20);

/// Starts a server and waits for its first answer; `None` if the port was taken meanwhile.
pub(super) async fn launch(
    make: Make,
    port: u16,
    arguments: &[OsString],
    clock: Option<&WallClock>,
    directory: &Path,
) -> Option<OwnedChild> {
    let socket = directory.join("s");
    let program = make.program();
    let mut command = Command::new(&program);
    if let Some(clock) = clock {
        clock.set_for(&mut command);
    }
    let mut process = OwnedChild::spawn(
        command
            .args(["--bind", "127.0.0.1", "--protected-mode", "yes"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--port", &port.to_string()])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(directory)
            .arg("--logfile")
            .arg(directory.join("log"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
    .unwrap_or_else(|error| panic!("{} cannot be run: {error}", program.display()));

    let is_up = within(START_DEADLINE, async {
        loop {
            if process.exited().is_some() {
                return false;
            }
            if answers(&socket).await {
                return true;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    let is_up = is_up.await;
    let log = || log(directory);
    match is_up {
        Some(true) => Some(process),
        Some(false) => {
            let log = log();
            let is_taken = log.contains("already in use");
            assert!(is_taken, "the server ended at once:\n{log}");
            None
        }
        None => panic!(
            "the server gave no answer within {START_DEADLINE:?}:\n{}",
            log()
        ),
    }
}

/// `true` once the server is ready.
///
/// Asked through a socket in the server's directory: another server may have won the race for
/// the TCP port, and would answer there. This socket is opened after that port.
async fn answers(socket: &Path) -> bool {
    let ping = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut reply = [0; 64];
        let length = stream.read(&mut reply).await?;
        // A server that wants a password first is up too; one that is loading is not.
        std::io::Result::Ok(
            reply[..length].starts_with(b"+PONG") || reply[..length].starts_with(b"-NOAUTH"),
        )
    };
    matches!(timeout(Duration::from_secs(1), ping).await, Ok(Ok(true)))
}

pub(super) fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_else(|_| "it left no log".to_owned())
}
