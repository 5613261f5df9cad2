//! Byte streams over any kind of address, and streams whose reads are observed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of bytes over any kind of address.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// Observes the bytes that a stream has read.
pub(crate) trait ReadObserver {
    /// Called with at least one byte.
    fn read(&mut self, bytes: &[u8]);
}

/// A stream that passes its reads to an observer.
pub(crate) struct ObservedStream<S, O> {
    stream: S,
    observer: O,
}

impl<S, O> ObservedStream<S, O> {
    pub(super) fn observed(stream: S, observer: O) -> Self {
        Self { stream, observer }
    }
}

impl<S: AsyncRead + Unpin, O: ReadObserver + Unpin> AsyncRead for ObservedStream<S, O> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            this.observer.read(bytes);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, O: Unpin> AsyncWrite for ObservedStream<S, O> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
