//! Reads an error that a server sends before any request and that explains why it refuses the connection.
//!
//! A server with too many clients, or one that serves only its own machine, sends such an error and closes the
//! connection. The library does not expect an answer without a request, and reports only a broken connection.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::Value;

use super::stream::{ObservedStream, ReadObserver};
use crate::store::{StoreError, redis::protocol::errors};

/// Refusals are much shorter.
const LONGEST_LINE: usize = 1024;

/// The first line from the server, if it is an error.
#[derive(Clone, Default)]
pub(crate) struct EarlyError(Arc<OnceLock<Vec<u8>>>);

impl EarlyError {
    /// Returns the reason why the server has closed the connection, if it sent one.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        let said = redis::parse_redis_value(self.0.get()?);
        let error = said.and_then(Value::extract_error).err()?;
        Some(errors::of_request(&error, Duration::ZERO))
    }
}

/// A stream that records an early error.
pub(crate) type EarlyErrorStream<S> = ObservedStream<S, FirstLine>;

/// The received part of the first line.
pub(crate) struct FirstLine {
    early_error: EarlyError,
    /// `None` once it is known whether the line is an error.
    line: Option<Vec<u8>>,
}

impl<S> EarlyErrorStream<S> {
    pub(crate) fn new(stream: S) -> (Self, EarlyError) {
        let early_error = EarlyError::default();
        let first = FirstLine {
            early_error: early_error.clone(),
            line: Some(Vec::new()),
        };
        (Self::observed(stream, first), early_error)
    }
}

impl ReadObserver for FirstLine {
    fn read(&mut self, bytes: &[u8]) {
        let Some(mut line) = self.line.take() else {
            return;
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        line.extend(&bytes[..end.map_or(bytes.len(), |end| end + 1)]);
        if !line.starts_with(b"-") && !line.is_empty() || line.len() > LONGEST_LINE {
            return;
        }
        if end.is_some() {
            // It is set only here.
            self.early_error.0.set(line).ok();
        } else {
            self.line = Some(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::store::StoreErrorKind;

    async fn heard(said: &'static [u8], at_once: usize) -> Option<(StoreErrorKind, String)> {
        let (mut stream, early_error) = EarlyErrorStream::new(said);
        let mut buffer = vec![0; at_once];
        while stream.read(&mut buffer).await.unwrap() > 0 {}
        let error = early_error.refusal()?;
        Some((error.kind(), error.message().to_owned()))
    }

    #[tokio::test]
    async fn a_refusal_is_heard_however_it_is_read() {
        let said = b"-ERR max number of clients reached\r\n+OK\r\n";
        for at_once in [1, 7, 1000] {
            let (kind, text) = heard(said, at_once).await.expect("it was said");
            assert_eq!(kind, StoreErrorKind::Refused);
            assert_eq!(text, "max number of clients reached");
        }
    }

    #[tokio::test]
    async fn anything_else_is_none() {
        for said in [
            b"".as_slice(),
            b"+OK\r\n-ERR later\r\n",
            b"-ERR half a line",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            &[b'-'; 3000],
        ] {
            for at_once in [1, 4000] {
                assert_eq!(heard(said, at_once).await, None, "{said:?}");
            }
        }
    }
}
