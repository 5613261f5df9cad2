//! A connection and scripts without a library for locks.

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};

use crate::Failure;
use crate::arguments::CLUSTER;

/// Connects as dlock does, but without a limit for answers.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client(url)?
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Connects to every server that the URL names, be it one or nodes of a cluster.
pub(crate) async fn connect_to_each(url: &str) -> Result<Vec<MultiplexedConnection>, Failure> {
    let Some(hosts) = url.strip_prefix(CLUSTER) else {
        return Ok(vec![connect(url).await?]);
    };
    let mut connections = Vec::new();
    for host in hosts.split(',') {
        connections.push(connect(&format!("redis://{host}")).await?);
    }
    Ok(connections)
}

/// A client whose connections send small requests at once.
pub(crate) fn client(url: &str) -> Result<Client, Failure> {
    let information = url.into_connection_info()?;
    let settings = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(information.set_tcp_settings(settings))?)
}

/// Makes the server know a script, and says under which name.
pub(super) async fn load(
    connection: &mut MultiplexedConnection,
    source: &str,
) -> Result<String, Failure> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(source);
    Ok(command.query_async(connection).await?)
}
