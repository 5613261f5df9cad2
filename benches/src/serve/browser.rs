//! A connection that reads the events of the list of locks, as the page in a browser does.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::Failure;

pub(super) struct Browser(Lines<BufReader<TcpStream>>);

/// The list at one time.
pub(super) struct Picture {
    pub(super) locks: u64,
    /// The time at which it was read, by which pictures differ.
    pub(super) taken: String,
    /// For how long it was read, in ms.
    pub(super) took_ms: u64,
}

impl Browser {
    /// Asks for the events. `address` has a port.
    pub(super) async fn open(address: &str) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET /api/picture/events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await?.unwrap_or_default();
        if !status.contains(" 200 ") {
            return Err(format!("the page answers `{status}`").into());
        }
        Ok(Self(lines))
    }

    /// Waits for the next list that is read completely.
    pub(super) async fn picture(&mut self) -> Result<Picture, Failure> {
        loop {
            let line = self.0.next_line().await?;
            let line = line.ok_or("the page has ended its events")?;
            // Lines of other content have the sizes of chunks.
            let Some(document) = line.strip_prefix("data: ") else {
                continue;
            };
            if let Some(picture) = Picture::read(&serde_json::from_str(document)?)? {
                return Ok(picture);
            }
        }
    }

    /// Waits for a list that was read after `last`.
    pub(super) async fn after(&mut self, last: &str) -> Result<Picture, Failure> {
        loop {
            let picture = self.picture().await?;
            if picture.taken != last {
                return Ok(picture);
            }
        }
    }
}

impl Picture {
    /// `None` while nothing has been read.
    fn read(document: &Value) -> Result<Option<Self>, Failure> {
        let picture = &document["picture"];
        match picture["state"].as_str() {
            Some("reading") => Ok(None),
            Some("live") => {
                let number = |value: &Value| value.as_u64().ok_or("a number is missing");
                Ok(Some(Self {
                    locks: number(&document["totals"]["locks"])?,
                    taken: picture["taken"].as_str().unwrap_or_default().to_owned(),
                    took_ms: number(&picture["took_ms"])?,
                }))
            }
            _ => Err(format!("the page says {picture}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let document = |state| {
            let picture = json!({ "state": state, "taken": "2026", "took_ms": 7 });
            json!({ "picture": picture, "totals": { "locks": 3 } })
        };
        assert!(Picture::read(&document("reading")).unwrap().is_none());
        let live = Picture::read(&document("live")).unwrap().unwrap();
        assert_eq!((live.locks, &*live.taken, live.took_ms), (3, "2026", 7));
        assert!(Picture::read(&document("away")).is_err());
    }
}
