//! A connection to memcached: its meta commands, answered in order and within a time limit.
//!
//! It is written by hand. The maintained client, `async-memcached`, sends one command at a time, and depends on a
//! crate that is no longer maintained.

use std::{io, sync::Arc, time::Duration};

use dlock::{StoreError, StoreErrorKind};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};

/// Lines and values of locks are shorter.
const LONGEST: usize = 4096;

/// The reply to one command.
#[derive(Debug)]
pub(crate) struct Reply {
    line: String,
    pub(crate) value: String,
}

impl Reply {
    /// Returns the two letters at the beginning, such as `HD`.
    pub(crate) fn status(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// Returns the text of a flag: `42` of `c42`.
    pub(crate) fn flag(&self, flag: char) -> String {
        let mut words = self
            .line
            .split(' ')
            .filter_map(|word| word.strip_prefix(flag));
        words.next().unwrap_or_default().to_owned()
    }

    /// Returns the value of a counter.
    pub(crate) fn number(&self) -> Result<u64, StoreError> {
        let number = self.value.trim().parse();
        number.map_err(|_| self.unexpected(StoreErrorKind::BadAnswer))
    }

    pub(crate) fn unexpected(&self, kind: StoreErrorKind) -> StoreError {
        let Self { line, value } = self;
        StoreError::new(
            kind,
            format!("unexpected reply `{line}` with value `{value}`"),
        )
    }
}

/// One connection, made when it is needed. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    address: Arc<str>,
    limit: Duration,
    stream: Arc<Mutex<Option<BufReader<TcpStream>>>>,
}

impl Connection {
    pub(crate) fn new(address: &str, limit: Duration) -> Self {
        let (address, stream) = (address.into(), Arc::default());
        Self {
            address,
            limit,
            stream,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a few commands, and returns a reply to each of them.
    ///
    /// What was begun is completed even if this future is dropped, so no later command overtakes it.
    pub(crate) async fn ask(&self, commands: &[String]) -> Result<Vec<Reply>, StoreError> {
        let (this, text, replies) = (self.clone(), commands.concat(), commands.len());
        let asked = tokio::spawn(async move {
            let mut place = this.stream.lock().await;
            // Unless all replies arrive, the connection is not put back.
            let exchanged = timeout(this.limit, this.exchange(place.take(), &text, replies)).await;
            let (stream, replies) = exchanged.unwrap_or(Err(StoreError::timed_out(this.limit)))?;
            *place = Some(stream);
            Ok(replies)
        });
        let ended = |_| StoreError::new(StoreErrorKind::Disconnected, "the runtime has ended");
        asked.await.map_err(ended)?
    }

    async fn exchange(
        &self,
        stream: Option<BufReader<TcpStream>>,
        text: &str,
        count: usize,
    ) -> Result<(BufReader<TcpStream>, Vec<Reply>), StoreError> {
        let failed =
            |kind, error: io::Error| StoreError::new(kind, format!("{}: {error}", self.address));
        let mut stream = match stream.filter(is_open) {
            Some(stream) => stream,
            None => match TcpStream::connect(&*self.address).await {
                Ok(stream) => BufReader::new(stream),
                Err(error) => return Err(failed(StoreErrorKind::Unreachable, error)),
            },
        };
        let exchanged = async {
            stream.write_all(text.as_bytes()).await?;
            let mut replies = Vec::with_capacity(count);
            for _ in 0..count {
                replies.push(reply(&mut stream).await?);
            }
            Ok(replies)
        };
        let replies = exchanged
            .await
            .map_err(|error| failed(StoreErrorKind::Disconnected, error))?;
        // After an error line, it is not certain which reply is next.
        match replies.iter().find(|it| it.status().len() != 2) {
            Some(error) if error.line.starts_with("SERVER_ERROR out of memory") => {
                Err(error.unexpected(StoreErrorKind::OutOfMemory))
            }
            Some(error) => Err(error.unexpected(StoreErrorKind::Refused)),
            None => Ok((stream, replies)),
        }
    }
}

/// A connection that the server has closed has an end to read, and no request need fail on it.
fn is_open(stream: &BufReader<TcpStream>) -> bool {
    let next = stream.get_ref().try_read(&mut [0]);
    next.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

async fn reply(stream: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    let mut line = String::new();
    stream.take(LONGEST as u64).read_line(&mut line).await?;
    let line = line
        .strip_suffix("\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?
        .to_owned();
    let mut value = Vec::new();
    if let Some(rest) = line.strip_prefix("VA ") {
        let size = rest
            .split(' ')
            .next()
            .and_then(|it| it.parse::<usize>().ok());
        let size = size
            .filter(|it| *it <= LONGEST)
            .ok_or(io::ErrorKind::InvalidData)?;
        value.resize(size + "\r\n".len(), 0);
        stream.read_exact(&mut value).await?;
        value.truncate(size);
    }
    let value = String::from_utf8(value).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Reply { line, value })
}
