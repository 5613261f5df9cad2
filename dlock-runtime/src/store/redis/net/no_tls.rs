//! What stands in for TLS where it is not built in: nobody can have a [`Connector`].

use std::{convert::Infallible, time::Duration};

use tokio::net::TcpStream;

use crate::store::{StoreError, redis::config::url::Endpoint};

#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Connector(Infallible);

pub(in crate::store::redis) struct Verdict(Infallible);

impl Connector {
    #[expect(clippy::unused_async, reason = "it is async where there is TLS")]
    pub(in crate::store::redis) async fn connect(
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
    pub(in crate::store::redis) fn of_broken(&self) -> Option<StoreError> {
        match self.0 {}
    }
}
