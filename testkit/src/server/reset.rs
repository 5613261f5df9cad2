//! A server that several tests use, one after the other: each finds it as if it had just started.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};

use super::RedisServer;
use crate::pool::{Pool, Pooled};
use crate::program::Make;
use dlock_waiting::within;

/// A server that needs longer is not worth the wait.
const RESET_DEADLINE: Duration = Duration::from_secs(5);

/// Idle servers, those of one make in a pool.
static POOLS: [Pool<RedisServer>; 3] = [const { Pool::new() }; 3];
static QUORUMS: Pool<Vec<RedisServer>> = Pool::new();

impl RedisServer {
    /// A server of a certain make that ran for another test before, or a new one.
    pub async fn pooled(make: Make) -> Pooled<Self> {
        let pool = &POOLS[make as usize];
        while let Some(idle) = pool.take().await {
            if idle.is_reset().await {
                return Pooled::new(idle, give_back);
            }
        }
        let new = Self::start_make(make).await;
        new.remember().await;
        Pooled::new(new, give_back)
    }

    /// So many servers, for a quorum. All callers of a process need as many.
    pub async fn pooled_quorum(count: usize) -> Pooled<Vec<Self>> {
        'idle: while let Some(idle) = QUORUMS.take().await {
            for server in &idle {
                if !server.is_reset().await {
                    continue 'idle;
                }
            }
            return Pooled::new(idle, give_quorum_back);
        }
        let mut new = Vec::new();
        for _ in 0..count {
            let server = Self::start().await;
            server.remember().await;
            new.push(server);
        }
        Pooled::new(new, give_quorum_back)
    }

    /// Whether no test has killed, paused or misled the process.
    pub(crate) fn is_undisturbed(&self) -> bool {
        !self.is_disturbed.load(Ordering::Relaxed) && self.process().exited().is_none()
    }

    /// Notes the configuration, to which no test may leave a change.
    pub(crate) async fn remember(&self) {
        let mut connection = self.connection().await;
        let configuration = configuration(&mut connection).await;
        let configuration = configuration.expect("a new server shows its configuration");
        self.configuration.get_or_init(|| configuration);
    }

    /// Empties the server. Returns `false` if its configuration is another than after its start, or if it
    /// does not answer.
    pub(crate) async fn is_reset(&self) -> bool {
        let empty = within(RESET_DEADLINE, async {
            let mut connection = self.try_connection().await?;
            empty(&mut connection).await?;
            configuration(&mut connection).await
        });
        let Some(Ok(configuration)) = empty.await else {
            return false;
        };
        self.is_undisturbed() && self.configuration.get() == Some(&configuration)
    }
}

fn give_back(server: RedisServer) {
    if server.is_undisturbed() {
        POOLS[server.make as usize].put(server);
    }
}

fn give_quorum_back(servers: Vec<RedisServer>) {
    if servers.iter().all(RedisServer::is_undisturbed) {
        QUORUMS.put(servers);
    }
}

/// Data, scripts, users, counters and connections of the test before.
async fn empty(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    cmd("CLIENT").arg("UNPAUSE").exec_async(connection).await?;
    let clients: String = cmd("CLIENT").arg("LIST").query_async(connection).await?;
    for client in clients.lines().filter(|it| it.contains(" name=dlock:")) {
        let id = client.split(' ').find_map(|it| it.strip_prefix("id="));
        let kill = cmd("CLIENT").arg("KILL").arg("ID").arg(id).to_owned();
        kill.exec_async(connection).await?;
    }
    let users: Vec<String> = cmd("ACL").arg("USERS").query_async(connection).await?;
    for user in users.iter().filter(|it| *it != "default") {
        let delete = cmd("ACL").arg("DELUSER").arg(user).to_owned();
        delete.exec_async(connection).await?;
    }
    for words in [
        ["FLUSHALL", "SYNC"],
        ["SCRIPT", "FLUSH"],
        ["CONFIG", "RESETSTAT"],
        ["SLOWLOG", "RESET"],
    ] {
        cmd(words[0]).arg(words[1]).exec_async(connection).await?;
    }
    Ok(())
}

async fn configuration(connection: &mut MultiplexedConnection) -> RedisResult<Vec<String>> {
    let mut all: Vec<String> = cmd("CONFIG")
        .arg(&["GET", "*"])
        .query_async(connection)
        .await?;
    let users: Vec<String> = cmd("ACL").arg("LIST").query_async(connection).await?;
    all.extend(users);
    Ok(all)
}
