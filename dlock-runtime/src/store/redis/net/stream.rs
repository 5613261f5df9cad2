//! Streams of bytes, over whatever address.

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes, over whatever address.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}
