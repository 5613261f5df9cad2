//! The task that moves the bytes of a connection, and the runtime that it is on.
//!
//! A request is answered sooner if it does not change threads on its way. So the connection of requests begins on the
//! runtime in which the store was made. It moves to the thread of the store, for good, as soon as that runtime has
//! ended, a request comes from another runtime, or an answer does not come. A body that blocks the threads of its
//! runtime therefore delays requests for one time limit, and an idle runtime delays none.
//!
//! A runtime that is not polled drops no task either. So a connection that is given up is dropped from outside of its
//! task: its requests end, and its socket is closed.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::{Notify, oneshot},
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, Socket,
    tls::{MakeTlsConnect, TlsStream},
};

use crate::{errors, hints::Sinks};

/// The runtime of a connection.
pub(crate) struct Home {
    /// The runtime of the callers.
    callers: Option<Handle>,
    has_moved: AtomicBool,
    moved: Notify,
}

impl Home {
    /// The runtime of the caller, if there is one.
    pub(crate) fn of_callers() -> Self {
        Self::new(Handle::try_current().ok())
    }

    /// The thread of the store.
    pub(crate) fn of_store() -> Self {
        Self::new(None)
    }

    fn new(callers: Option<Handle>) -> Self {
        Self {
            callers,
            has_moved: AtomicBool::new(false),
            moved: Notify::new(),
        }
    }

    /// Returns the runtime of the callers, as long as the connection is there.
    pub(crate) fn callers(&self) -> Option<&Handle> {
        let callers = self.callers.as_ref();
        callers.filter(|_| !self.has_moved.load(Ordering::Acquire))
    }

    /// Leaves the runtime of the callers for the thread of the store.
    pub(crate) fn move_to_store(&self) {
        if self.callers().is_some() {
            self.has_moved.store(true, Ordering::Release);
            self.moved.notify_one();
        }
    }

    /// Moves if the request that calls this is on another runtime: that of the connection may not be polled.
    pub(crate) fn note_caller(&self) {
        if let Some(callers) = self.callers()
            && let Ok(other) = Handle::try_current()
            && other.id() != callers.id()
        {
            self.move_to_store();
        }
    }

    /// Waits until the connection has to move.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }
}

/// A connection, and the task that moves its bytes.
pub(crate) struct Pumped {
    pub(crate) client: Arc<Client>,
    pub(crate) pump: Unused,
    /// Whether the task is on the runtime of the callers.
    pub(crate) is_with_callers: bool,
}

/// The task that moves the bytes of a connection.
pub(crate) struct Pump {
    task: JoinHandle<()>,
    work: Weak<Mutex<Work>>,
}

impl Pump {
    /// Waits until the connection ends. An error says that its runtime has ended, or that the task has panicked.
    pub(crate) async fn ended(&mut self) -> Result<(), JoinError> {
        (&mut self.task).await
    }

    /// Waits until all requests have been answered, but not longer than `limit`. Nothing new is requested.
    pub(crate) async fn run_out(mut self, limit: Duration) {
        if timeout(limit, self.ended()).await.is_err() {
            self.end();
        }
    }

    /// Ends the connection and its requests now.
    pub(crate) fn end(&self) {
        if let Some(work) = self.work.upgrade() {
            let ended = locked(&work).take();
            drop(ended);
        }
        self.task.abort();
    }
}

/// A connection that no request has used. Dropped, it ends.
pub(crate) struct Unused(Option<Pump>);

impl Unused {
    pub(crate) fn into_used(mut self) -> Pump {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(pump) = &self.0 {
            pump.end();
        }
    }
}

/// Connects on the runtime of `home`, or on the current one, that of the store.
pub(crate) async fn connect<T>(
    config: &tokio_postgres::Config,
    tls: T,
    home: &Home,
    sinks: Option<&Sinks>,
) -> Result<Pumped, Error>
where
    T: MakeTlsConnect<Socket> + Clone + Send + 'static,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    loop {
        let (tell, told) = oneshot::channel();
        let (config, tls, sinks) = (config.clone(), tls.clone(), sinks.cloned());
        let work = Shared::new(async move {
            match config.connect(tls).await {
                Ok((client, connection)) => {
                    if tell.send(Ok(client)).is_ok() {
                        serve(connection, sinks).await;
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let callers = home.callers();
        let is_with_callers = callers.is_some();
        let pump = Unused(Some(Pump {
            work: Arc::downgrade(&work.work),
            task: match callers {
                Some(runtime) => runtime.spawn(work),
                None => tokio::spawn(work),
            },
        }));
        let told = tokio::select! {
            told = told => told,
            // That runtime may not be polled.
            () = home.moved(), if is_with_callers => continue,
        };
        match told {
            Ok(connected) => {
                let client = Arc::new(connected?);
                return Ok(Pumped {
                    client,
                    pump,
                    is_with_callers,
                });
            }
            // That runtime has ended, or has no sockets.
            Err(_) if is_with_callers => home.move_to_store(),
            // The thread of the store ends, and with it this task.
            Err(_) => std::future::pending().await,
        }
    }
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

/// The future of a connection; `None` once the connection was given up.
type Work = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// Polls a future that can be dropped from elsewhere.
struct Shared {
    process: u32,
    work: Arc<Mutex<Work>>,
}

impl Shared {
    fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            process: process::id(),
            work: Arc::new(Mutex::new(Some(Box::pin(work)))),
        }
    }
}

impl Future for Shared {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A forked child has a copy of the socket, and would read the answers of its parent. In its copy, a thread that it
        // does not have may have locked the mutex.
        if self.process != process::id() {
            return Poll::Pending;
        }
        match &mut *locked(&self.work) {
            Some(work) => work.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

fn locked(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    // A task that has panicked is not polled again.
    work.lock().unwrap_or_else(PoisonError::into_inner)
}
