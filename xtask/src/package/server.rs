//! A Redis server for one program, and the wait for that program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::tools;

const START: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(20);

/// A server on a free port; it ends with this value.
pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(super) fn start() -> Result<Self, String> {
        // Another program may take the port before the server does.
        let mut failure = String::new();
        for _ in 0..5 {
            match Self::start_on(free_port()?) {
                Ok(server) => return Ok(server),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    fn start_on(port: u16) -> Result<Self, String> {
        let program = tools::program(&tools::REDIS)?;
        let child = Command::new(&program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("`{}` cannot be run: {error}", program.display()))?;
        let mut server = Self { child, port };
        let begun = Instant::now();
        while begun.elapsed() < START {
            if matches!(server.child.try_wait(), Ok(Some(_))) {
                return Err(format!("the server on port {port} has ended"));
            }
            if server.info("server").is_ok() {
                return Ok(server);
            }
            thread::sleep(PAUSE);
        }
        Err(format!("the server on port {port} does not answer"))
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The number of scripts that were run for clients.
    pub(super) fn scripts(&self) -> Result<u64, String> {
        self.info("commandstats")
            .map(|said| script_calls(&said))
            .map_err(|error| format!("the server on port {}: {error}", self.port))
    }

    fn info(&self, section: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("INFO {section}\r\n").as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        reader.read_line(&mut head)?;
        let length = head
            .trim_end()
            .strip_prefix('$')
            .and_then(|it| it.parse().ok());
        let length = length.ok_or_else(|| std::io::Error::other(head.trim_end().to_owned()))?;
        let mut text = String::new();
        reader.take(length).read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn free_port() -> Result<u16, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

/// The sum of `calls` of the commands that run scripts.
fn script_calls(said: &str) -> u64 {
    let lines = said.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = lines.filter_map(|line| line.split_once("calls=")?.1.split(',').next());
    calls.filter_map(|calls| calls.parse::<u64>().ok()).sum()
}

/// The end of a program; `None` if it was killed after `limit`.
pub(super) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if begun.elapsed() > limit {
            drop(child.kill());
            drop(child.wait());
            return None;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_scripts_are_counted() {
        let said = "# Commandstats\r\ncmdstat_info:calls=9,usec=1\r\n\
                    cmdstat_evalsha:calls=3,usec=8\r\ncmdstat_eval:calls=2,usec=5\r\n";
        assert_eq!(script_calls(said), 5);
        assert_eq!(script_calls("# Commandstats\r\n"), 0);
    }
}
