//! Reads the state of each server: version, mode, ensemble, sessions, permissions, the base of fences, and round trips.

use std::time::{Duration, Instant};

use dlock_admin::ServerReport;
use dlock_runtime::store::StoreError;
use futures_util::future::join_all;
use tokio::time::timeout;
use zookeeper_client::{Client, Error};

use super::{
    link::{self, Link},
    permissions::permissions,
    word,
};
use crate::{base, config::Config, errors, names};

/// The number of round trips that are measured.
const SAMPLES: usize = 20;

/// The session time-out that a server is asked for to learn the shortest one that it allows.
const SHORT: Duration = Duration::from_secs(1);

/// Reports on each server of the URL.
pub(super) async fn report(link: &Link) -> Vec<ServerReport> {
    let hosts = link.config().hosts.split(',');
    join_all(hosts.map(|host| of_server(link, host))).await
}

async fn of_server(link: &Link, host: &str) -> ServerReport {
    let mut report = ServerReport::new(format!("zookeeper://{host}"));
    report.product = Some("ZooKeeper".to_owned());
    if let Err(failure) = fill(link, host, &mut report).await {
        report.failure = Some(failure);
    }
    report
}

/// Fails only if the server cannot be asked at all.
async fn fill(link: &Link, host: &str, report: &mut ServerReport) -> Result<(), StoreError> {
    let (config, limit) = (link.config(), link.connect_limit());
    let told = word::ask(config, host).await;
    if let Some(version) = &told.version {
        report.set("zookeeper_version", version);
        report.version = Some(version.clone());
    }
    if let Some(mode) = &told.mode {
        report.set("mode", mode);
    }
    let client = link::open(config, host, limit).await?;
    let within = Within(config);
    // A server makes a session only with a majority.
    report.set("has_leader", true);
    let login = config.login.as_deref().unwrap_or_default();
    report.set("user", login.split(':').next().unwrap_or_default());
    report.set("session_wanted_ms", config.session.as_millis());
    report.set("session_granted_ms", client.session_timeout().as_millis());
    report.set("tick_wanted_ms", config.tick.as_millis());
    if let Some(shortest) = shortest_session(config, host).await {
        report.set("session_shortest_ms", shortest.as_millis());
    }
    if told.version.is_none() {
        let least = within.ask(least_version(&client)).await?;
        report.set("version_at_least", least);
    }
    let ensemble = within.ask(members(&client)).await?;
    if let Some((members, observers)) = ensemble {
        let own = session_server(&client);
        if members.contains(&own) || observers.contains(&own) {
            report.set("member_id", own);
        }
        report.set("members", members.join(","));
        report.set("observers", observers.join(","));
    }
    let found = within.ask(permissions(&client, &config.root)).await?;
    report.set("reads_locks", found.reads);
    if let Some(is_open) = found.is_open {
        report.set("is_open", is_open);
    }
    report.denied = found.denied;
    if found.reads {
        let state = within.ask(state_of_base(&client, &config.root)).await?;
        report.set("fence_base", state);
    }
    for _ in 0..SAMPLES {
        let sent = Instant::now();
        let read = async {
            let read = client.check_stat(&config.root).await;
            read.map_err(|error| errors::store_error(&error))
        };
        within.ask(read).await?;
        report.round_trips.push(sent.elapsed());
    }
    Ok(())
}

struct Within<'a>(&'a Config);

impl Within<'_> {
    async fn ask<T>(
        &self,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.0.response_limit;
        let answer = timeout(limit, asked).await;
        answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
    }
}

/// Returns the shortest session that a server allows, which is twice its `tickTime` unless it is set. `None` if the server was
/// too slow.
async fn shortest_session(config: &Config, host: &str) -> Option<Duration> {
    let short = Config {
        session: SHORT,
        ..config.clone()
    };
    let client = link::open(&short, host, config.response_limit).await.ok()?;
    Some(client.session_timeout())
}

/// Finds the least version by the requests that a server knows.
async fn least_version(client: &Client) -> Result<&'static str, StoreError> {
    match client.list_auth_users().await {
        Ok(_) => return Ok("3.7"),
        Err(Error::Unimplemented) => {}
        Err(error) => return Err(errors::store_error(&error)),
    }
    // It names the own ephemeral nodes there, and there are none.
    match client.list_ephemerals("/").await {
        Ok(_) => Ok("3.6"),
        Err(Error::Unimplemented) => Ok("3.5"),
        Err(error) => Err(errors::store_error(&error)),
    }
}

/// Returns the numbers of the members that vote, and of those that do not. `None` if the ensemble is unknown.
async fn members(client: &Client) -> Result<Option<(Vec<String>, Vec<String>)>, StoreError> {
    match client.get_config().await {
        Ok((text, _)) => Ok(read_members(&String::from_utf8_lossy(&text))),
        // A server alone has none, and the node may have an ACL.
        Err(Error::NoNode | Error::NoAuth) => Ok(None),
        Err(error) => Err(errors::store_error(&error)),
    }
}

/// Reads lines such as `server.1=zk-1:2888:3888:participant;0.0.0.0:2181`.
fn read_members(text: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (mut members, mut observers) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let Some((id, place)) = line
            .strip_prefix("server.")
            .and_then(|rest| rest.split_once('='))
        else {
            continue;
        };
        let place = place.split(';').next().unwrap_or_default();
        if place.ends_with(":observer") {
            observers.push(id.to_owned());
        } else {
            members.push(id.to_owned());
        }
    }
    (!members.is_empty()).then_some((members, observers))
}

/// The first byte of a session's number is that of the server that has made the session.
fn session_server(client: &Client) -> String {
    let [server, ..] = client.session_id().0.to_be_bytes();
    server.to_string()
}

/// Tells of the base of fences: `fine`, `missing`, `hidden` from this user, or `foreign` with nodes of another program.
async fn state_of_base(client: &Client, root: &str) -> Result<&'static str, StoreError> {
    let found = match client.list_children(&names::bases(root)).await {
        Ok(found) => found,
        Err(Error::NoNode) => return Ok("missing"),
        Err(Error::NoAuth) => return Ok("hidden"),
        Err(error) => return Err(errors::store_error(&error)),
    };
    // The next acquire makes one of several.
    Ok(match base::values(&found).as_deref() {
        Some([_, ..]) => "fine",
        _ => "foreign",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_members_and_observers() {
        let text = "server.1=zk-1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=zk-2:2888:3888\n\
                    server.11=zk-3:2888:3888:observer;2181\nversion=100000000";
        let (members, observers) = read_members(text).unwrap();
        assert_eq!(
            (members, observers),
            (vec!["1".into(), "2".into()], vec!["11".into()])
        );
        for alone in ["", "version=0", "server.=x"] {
            assert!(
                read_members(alone).is_none_or(|(ids, _)| ids == [""]),
                "{alone}"
            );
        }
    }
}
