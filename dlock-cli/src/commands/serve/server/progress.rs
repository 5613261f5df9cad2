//! A connection that fails when its client reads nothing.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection on which a write must get on within a time.
pub(super) struct Progress<S> {
    stream: S,
    patience: Duration,
    /// The end of the time for a write that waits for the client.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Progress<S> {
    pub(super) fn within(patience: Duration, stream: S) -> Self {
        Self {
            stream,
            patience,
            end: None,
        }
    }

    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.end = None;
            return written;
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(patience)));
        let failed = || Err(io::Error::from(ErrorKind::TimedOut));
        end.as_mut().poll(context).map(|()| failed())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // Neither waits for the client on a socket of TCP.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (server, client) = duplex(4);
        let patience = Duration::from_millis(200);
        let mut server = Progress::within(patience, server);
        let began = Instant::now();
        let failed = server.write_all(b"eight by").await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() >= patience);
        drop(client);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_is_not() {
        // Long enough for a machine that pauses, and shorter than all of the writing.
        let patience = Duration::from_secs(4);
        let (server, mut client) = duplex(1);
        let mut server = Progress::within(patience, server);
        let reader = tokio::spawn(async move {
            let mut read = Vec::new();
            while read.len() < 9 {
                sleep(patience / 6).await;
                read.push(client.read_u8().await.unwrap());
            }
            read
        });
        let began = Instant::now();
        server.write_all(b"nine byte").await.unwrap();
        assert!(began.elapsed() > patience);
        assert_eq!(reader.await.unwrap(), b"nine byte");
    }
}
