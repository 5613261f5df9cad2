//! The task that moves the bytes of a connection and passes on its messages. The thread of the store runs it: a runtime of
//! the user may be blocked, or not be polled.

use std::{future::poll_fn, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, Socket,
    tls::{MakeTlsConnect, TlsStream},
};

use crate::{errors, hints::Sinks};

/// The task of a connection. Dropped, it ends, and with it the connection and its requests.
pub(crate) struct Pump(JoinHandle<()>);

impl Pump {
    /// Waits until the connection ends.
    pub(crate) async fn ended(&mut self) {
        // A task that has panicked has ended as well.
        (&mut self.0).await.ok();
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects, and starts the task of the connection on the current runtime.
pub(crate) async fn connect<T>(
    config: &tokio_postgres::Config,
    tls: T,
    sinks: Option<&Sinks>,
) -> Result<(Arc<Client>, Pump), Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    let task = tokio::spawn(serve(connection, sinks.cloned()));
    Ok((Arc::new(client), Pump(task)))
}

/// Moves the bytes of a connection until it ends, and passes on its messages.
async fn serve<S, T>(mut connection: Connection<S, T>, sinks: Option<Sinks>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: TlsStream + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(sinks) = &sinks {
                    sinks.pass_on(&notification);
                }
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(target: "dlock::store", notice = notice.message(), "PostgreSQL says");
                // The answer comes after it. Without an answer, the outcome is unknown.
                if errors::is_not_replicated(&notice) {
                    return;
                }
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}
