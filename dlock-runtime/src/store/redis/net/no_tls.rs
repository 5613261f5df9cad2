//! Replaces TLS when it is not compiled in: a [`Connector`] cannot be created.

use std::{convert::Infallible, fmt::Display, time::Duration};

use tokio::net::TcpStream;

use crate::store::StoreError;

#[derive(Clone, Debug)]
pub(crate) struct Connector(Infallible);

pub(crate) struct Verdict(Infallible);

impl Connector {
    #[expect(clippy::unused_async, reason = "it is async where there is TLS")]
    pub(crate) async fn connect(
        &self,
        _server: impl Display + Copy,
        _host: &str,
        _socket: TcpStream,
        _limit: Duration,
    ) -> Result<(TcpStream, Verdict), StoreError> {
        match self.0 {}
    }
}

impl Verdict {
    pub(crate) fn of_broken(&self) -> Option<StoreError> {
        match self.0 {}
    }
}
