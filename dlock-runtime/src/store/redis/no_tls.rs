//! What stands in for TLS where it is not built in: nobody can have a [`Connector`].

use std::{convert::Infallible, time::Duration};

use tokio::net::TcpStream;

use super::url::Endpoint;
use crate::store::StoreError;

#[derive(Clone, Debug)]
pub(super) struct Connector(Infallible);

pub(super) struct Verdict(Infallible);

impl Connector {
    #[expect(clippy::unused_async, reason = "it is async where there is TLS")]
    pub(super) async fn connect(
        &self,
        _endpoint: &Endpoint,
        _host: &str,
        _socket: TcpStream,
        _limit: Duration,
    ) -> Result<(TcpStream, Verdict), StoreError> {
        match self.0 {}
    }
}

impl Verdict {
    pub(super) fn of_broken(&self) -> Option<StoreError> {
        match self.0 {}
    }
}
