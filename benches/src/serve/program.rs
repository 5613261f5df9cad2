//! A process of `dlock serve`, and its memory as the system reports it.

use std::fs;
use std::path::Path;
use std::process::Command;

use dlock_testkit::Worker;

use super::browser::Browser;
use crate::Failure;
use crate::apart::PATIENCE;

/// Dropping it kills the process.
pub(super) struct Program {
    worker: Worker,
    address: String,
}

impl Program {
    /// Starts the program with the options that it has by itself, and waits until it listens.
    pub(super) async fn start(program: &Path, url: &str) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.env("DLOCK_URL", url);
        let worker = Worker::spawn(&mut command);
        let line = worker.line("The page is at http://", PATIENCE).await;
        let address = line.split_once("http://").ok_or("it names no address")?.1;
        let address = address.trim_end_matches('/').to_owned();
        Ok(Self { worker, address })
    }

    /// Opens the list of locks.
    pub(super) async fn open(&self) -> Result<Browser, Failure> {
        Browser::open(&self.address).await
    }

    /// The memory that it uses now, and the most that it has used, in MiB.
    pub(super) fn memory(&self) -> Result<[f64; 2], Failure> {
        let path = format!("/proc/{}/status", self.worker.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok([of(&status, "VmRSS:")?, of(&status, "VmHWM:")?])
    }
}

/// A size that stands in kB, in MiB.
fn of(status: &str, name: &str) -> Result<f64, Failure> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let size: u32 = size.ok_or("a size is missing")?.trim().parse()?;
    Ok(f64::from(size) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_their_names() {
        let status = "Name:\tdlock\nVmHWM:\t   51200 kB\nVmRSS:\t   1024 kB\n";
        assert_eq!(of(status, "VmHWM:").unwrap().to_string(), "50");
        assert_eq!(of(status, "VmRSS:").unwrap().to_string(), "1");
        assert!(of(status, "VmSwap:").is_err());
    }
}
