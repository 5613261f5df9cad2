//! Waits for signals that end the program, and for those that continue it.

/// Waits for Ctrl-C, `SIGTERM` or `SIGHUP`, and returns the exit code that shells expect for the signal. It listens
/// from the call on, not from the first poll.
pub(crate) fn interrupted() -> impl Future<Output = u8> {
    /// 128 plus the number of the signal.
    const INTERRUPTED: u8 = 130;
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).expect("tokio runs and takes signals");
        let mut hang_up = listen(SignalKind::hangup());
        let mut terminate = listen(SignalKind::terminate());
        let mut interrupt = listen(SignalKind::interrupt());
        async move {
            tokio::select! {
                _ = hang_up.recv() => 129,
                _ = interrupt.recv() => INTERRUPTED,
                _ = terminate.recv() => 143,
            }
        }
    }
    #[cfg(not(unix))]
    async {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        INTERRUPTED
    }
}

/// The moments at which the program continues after it was stopped.
pub(crate) struct Continued(#[cfg(unix)] tokio::signal::unix::Signal);

/// Listens for `SIGCONT` from the call on.
pub(crate) fn continued() -> Continued {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let kind = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        Continued(signal(kind).expect("tokio runs and takes signals"))
    }
    #[cfg(not(unix))]
    Continued()
}

impl Continued {
    /// Waits until the program is continued.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if self.0.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
