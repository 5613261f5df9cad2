//! The measured processes: this same program, started with words.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Failure;

/// A running process; dropping it kills it.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    words: String,
}

impl Process {
    pub(crate) fn start(words: &[String]) -> Result<Self, Failure> {
        let mut child = Command::new(env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().expect("the output is piped");
        Ok(Self {
            child,
            lines: BufReader::new(stdout).lines(),
            words: words.join(" "),
        })
    }

    /// Waits until it says a line of one word.
    pub(crate) async fn says(&mut self, word: &str, limit: Duration) -> Result<(), Failure> {
        let said = async {
            while let Some(line) = self.lines.next_line().await? {
                if line == word {
                    return Ok(());
                }
            }
            Err(Failure::from(format!("it ended without saying {word}")))
        };
        timeout(limit, said)
            .await
            .unwrap_or_else(|_| Err(format!("no {word} within {limit:?}").into()))
            .map_err(|reason| format!("`dlock-bench {}`: {reason}", self.words).into())
    }

    /// The JSON that the process prints at its end.
    pub(crate) async fn outcome<T: DeserializeOwned>(self, limit: Duration) -> Result<T, Failure> {
        let Self {
            mut child,
            mut lines,
            words,
        } = self;
        let ended = async {
            let mut last = None;
            while let Some(line) = lines.next_line().await? {
                last = Some(line).filter(|it| it.starts_with('{')).or(last);
            }
            let status = child.wait().await?;
            if !status.success() {
                return Err(Failure::from(status.to_string()));
            }
            let line = last.ok_or("it printed nothing")?;
            Ok(serde_json::from_str(&line)?)
        };
        timeout(limit, ended)
            .await
            .unwrap_or_else(|_| Err(format!("not ended within {limit:?}").into()))
            .map_err(|reason| format!("`dlock-bench {words}`: {reason}").into())
    }
}
