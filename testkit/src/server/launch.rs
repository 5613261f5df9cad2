//! The process of a server: its arguments, its start and its log.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::child::OwnedChild;
use crate::clock::WallClock;
use crate::program::Make;
use dlock_waiting::within;

/// Long enough for a loaded machine; a server usually answers within 50 ms.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(20);

/// Starts a server, which does not answer yet.
pub(super) fn spawn(
    make: Make,
    port: u16,
    arguments: &[OsString],
    clock: Option<&WallClock>,
    directory: &Path,
) -> OwnedChild {
    let socket = directory.join("s");
    let program = make.program();
    let mut command = Command::new(&program);
    if let Some(clock) = clock {
        clock.set_for(&mut command);
    }
    OwnedChild::spawn(
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
    .unwrap_or_else(|error| panic!("{} cannot be run: {error}", program.display()))
}

/// Waits for the first answer of a server; `false` if its port was taken meanwhile.
pub(super) async fn is_up(process: &Mutex<OwnedChild>, directory: &Path) -> bool {
    let has_ended = || {
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        process.exited().is_some()
    };
    let socket = directory.join("s");
    let is_up = within(START_DEADLINE, async {
        loop {
            if has_ended() {
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
        Some(true) => true,
        Some(false) => {
            let log = log();
            let is_taken = log.contains("already in use");
            assert!(is_taken, "the server ended at once:\n{log}");
            false
        }
        None => panic!(
            "the server gave no answer within {START_DEADLINE:?}:\n{}",
            log()
        ),
    }
}

/// Whether the server is ready.
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

pub(super) fn password(arguments: &[OsString]) -> Option<String> {
    let option = arguments
        .iter()
        .position(|argument| argument == "--requirepass")?;
    let value = arguments.get(option + 1)?;
    Some(
        value
            .to_str()
            .expect("a test's password is text")
            .to_owned(),
    )
}

pub(super) fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_else(|_| "it left no log".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_from_the_arguments() {
        let arguments = ["--maxclients", "9", "--requirepass", "x"].map(OsString::from);
        assert_eq!(password(&arguments).as_deref(), Some("x"));
        assert_eq!(password(&arguments[..2]), None);
    }
}
