//! A master with replicas, and the Sentinels that watch over them.

mod process;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};

use crate::pool::{Pool, Pooled};
use crate::server::RedisServer;
use dlock_waiting::eventually;
use dlock_waiting::within;
use process::{SentinelProcess, brief};

/// Sentinels exchange their addresses every two seconds.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// Servers that need longer are not worth the wait.
const RESET_DEADLINE: Duration = Duration::from_secs(5);

/// The silence after which a server counts as down where none is to be replaced.
const PATIENT: Duration = Duration::from_secs(60);

/// How many servers of which sort there are, and how the Sentinels judge them.
#[derive(Clone, Debug)]
pub struct SentinelShape {
    /// Servers beside the master.
    pub replicas: usize,
    /// Most of them have to agree before a replica becomes the master.
    pub sentinels: usize,
    /// The password that the master and its replicas want of a client, and of each other.
    pub password: Option<&'static str>,
    /// The password that the Sentinels want of a client.
    pub sentinel_password: Option<&'static str>,
    /// The silence after which a server counts as down.
    pub down_after: Duration,
    /// The time after which a Sentinel tries again, or corrects a replica of a wrong master.
    pub failover_timeout: Duration,
}

impl Default for SentinelShape {
    /// Two replicas, three Sentinels, no passwords, down after a second.
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            password: None,
            sentinel_password: None,
            down_after: Duration::from_secs(1),
            failover_timeout: Duration::from_secs(3),
        }
    }
}

/// A master, its replicas and the Sentinels that watch over them, of a test's own.
///
/// The service has a name that no other test's Sentinels know. Dropping it ends all of them.
pub struct Sentinels {
    shape: SentinelShape,
    service: String,
    // They are declared, and so dropped, before those they watch.
    watching: Vec<SentinelProcess>,
    servers: Vec<RedisServer>,
    /// A test has stopped a Sentinel, or sent a replica elsewhere.
    is_disturbed: AtomicBool,
}

/// Idle groups of one replica and one Sentinel.
static POOL: Pool<Sentinels> = Pool::new();

impl Sentinels {
    /// Starts a master, two replicas and three Sentinels, and waits until all know each other.
    pub async fn start() -> Self {
        Self::start_with(SentinelShape::default()).await
    }

    /// Starts one replica and one Sentinel, which is faster, and enough where none of them dies
    /// but the master.
    pub async fn start_small() -> Self {
        Self::start_with(SentinelShape {
            replicas: 1,
            sentinels: 1,
            ..SentinelShape::default()
        })
        .await
    }

    /// One replica and one Sentinel that ran for another test before, or new ones. No server of theirs counts as down before
    /// a minute has passed: a test that lets the master fail has Sentinels of its own.
    pub async fn pooled() -> Pooled<Self> {
        while let Some(idle) = POOL.take().await {
            if idle.is_reset().await {
                return Pooled::new(idle, give_back);
            }
        }
        let new = Self::start_with(SentinelShape {
            replicas: 1,
            sentinels: 1,
            // A process that stands still for a second is no reason for a fail-over.
            down_after: PATIENT,
            ..SentinelShape::default()
        })
        .await;
        for server in &new.servers {
            server.remember().await;
        }
        Pooled::new(new, give_back)
    }

    /// Empties the servers. Returns `false` if they are not as after their start.
    async fn is_reset(&self) -> bool {
        let (master, replicas) = (&self.servers[0], &self.servers[1..]);
        if self.named().await != Some(master.port()) || !self.is_complete().await {
            return false;
        }
        for replica in replicas {
            if !is_in_sync(replica).await {
                return false;
            }
        }
        // The master empties its replicas.
        let is_replicated = self.until_replicated(master, replicas.len());
        master.is_reset().await && within(RESET_DEADLINE, is_replicated).await.is_some()
    }

    fn is_undisturbed(&self) -> bool {
        let mut servers = self.servers.iter();
        !self.is_disturbed.load(Ordering::Relaxed) && servers.all(RedisServer::is_undisturbed)
    }

    /// A Sentinel that a test kills or stops.
    fn disturbed(&self, index: usize) -> &SentinelProcess {
        self.is_disturbed.store(true, Ordering::Relaxed);
        &self.watching[index]
    }

    /// Starts another number of servers, or with passwords.
    pub async fn start_with(shape: SentinelShape) -> Self {
        let mut servers = vec![server(&shape, None).await];
        for _ in 0..shape.replicas {
            servers.push(server(&shape, Some(servers[0].port())).await);
        }
        for replica in &servers[1..] {
            eventually(START_DEADLINE, "a replica follows the master", async || {
                is_in_sync(replica).await
            })
            .await;
        }
        let service = format!("test-{}-{}", std::process::id(), servers[0].port());
        let mut watching = Vec::new();
        for _ in 0..shape.sentinels {
            watching.push(SentinelProcess::start(&shape, &service, servers[0].port()).await);
        }
        let started = Self {
            shape,
            service,
            watching,
            servers,
            is_disturbed: AtomicBool::new(false),
        };
        eventually(
            START_DEADLINE,
            "all Sentinels know all servers",
            async || started.is_complete().await,
        )
        .await;
        started
            .until_replicated(&started.servers[0], started.shape.replicas)
            .await;
        started
    }

    /// The URL with all Sentinels and the service, and the password of the servers if they have
    /// one, but not that of the Sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&self.service)
    }

    /// The same for another service.
    #[must_use]
    pub fn url_of(&self, service: &str) -> String {
        let login = self.shape.password.map(|it| format!(":{it}@"));
        let ports = self.watching.iter().map(|it| it.port);
        let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        let (login, hosts) = (login.unwrap_or_default(), hosts.join(","));
        format!("redis-sentinel://{login}{hosts}/{service}")
    }

    /// The name by which the Sentinels know the master.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Master and replicas, in whatever role they are by now; the first was the first master.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The master, as the Sentinel sees it that knows of the latest change. Waits for the answer of one.
    pub async fn master(&self) -> &RedisServer {
        let mut named = None;
        // On a machine under load none of them may answer in time for once.
        eventually(START_DEADLINE, "a Sentinel answers", async || {
            named = self.named().await;
            named.is_some()
        })
        .await;
        self.at(named.expect("it was waited for"))
    }

    /// The port of the master that the latest answer names.
    async fn named(&self) -> Option<u16> {
        let mut latest = None;
        for sentinel in &self.watching {
            let Some(known) = sentinel.master(&self.service).await else {
                continue;
            };
            let epoch: u64 = known["config-epoch"].parse().expect("it is a number");
            let Some(port) = sentinel.address(&self.service).await else {
                continue;
            };
            if latest.is_none_or(|(other, _)| other < epoch) {
                latest = Some((epoch, port));
            }
        }
        latest.map(|(_, port)| port)
    }

    /// Waits until the Sentinels have made another server the master than `last`, and that one
    /// answers as a master. Returns it.
    pub async fn master_after(&self, last: &RedisServer) -> &RedisServer {
        eventually(START_DEADLINE, "there is a new master", async || {
            let master = self.master().await;
            master.port() != last.port() && info(master, "role").await.as_deref() == Some("master")
        })
        .await;
        self.master().await
    }

    /// The servers other than `master`.
    pub fn others<'a>(&'a self, master: &RedisServer) -> impl Iterator<Item = &'a RedisServer> {
        let port = master.port();
        self.servers.iter().filter(move |it| it.port() != port)
    }

    /// Stops a Sentinel: its connections stay open, and nothing is answered.
    pub fn pause_sentinel(&self, index: usize) {
        self.disturbed(index).process().pause();
    }

    /// Lets a paused Sentinel go on.
    pub fn resume_sentinel(&self, index: usize) {
        self.disturbed(index).process().resume();
    }

    /// Kills a Sentinel.
    pub fn kill_sentinel(&self, index: usize) {
        self.disturbed(index).process().kill();
    }

    /// Starts a killed Sentinel again, with what it knew.
    pub async fn restart_sentinel(&self, index: usize) {
        let sentinel = self.disturbed(index);
        sentinel.process().kill();
        let process = sentinel.launch();
        *sentinel.process() = process;
        eventually(START_DEADLINE, "the Sentinel is back", async || {
            sentinel.master(&self.service).await.is_some()
        })
        .await;
    }

    /// A connection of the test's own to a Sentinel that runs.
    pub async fn sentinel_connection(&self, index: usize) -> MultiplexedConnection {
        let mut connection = None;
        eventually(START_DEADLINE, "the Sentinel answers", async || {
            connection = self.watching[index].connection().await;
            connection.is_some()
        })
        .await;
        connection.expect("it was waited for")
    }

    /// Cuts the replication of `replica`, which keeps what it has. The Sentinels set it right after
    /// the fail-over timeout, or when they choose a new master.
    pub async fn cut_off(&self, replica: &RedisServer) {
        self.is_disturbed.store(true, Ordering::Relaxed);
        // No server listens there.
        let sent = follow(replica, 1).await;
        sent.expect("a replica can be sent elsewhere");
    }

    /// Waits until these servers follow the master. They are not the one that the Sentinels have chosen, unless those have changed
    /// their minds: from now on, no server counts as down before a minute has passed.
    ///
    /// Now and then the Sentinels leave a former master alone after its return. After half a minute it is sent to the
    /// master that they name.
    pub async fn until_in_sync(&self, replicas: &[&RedisServer]) {
        const PATIENCE: Duration = Duration::from_secs(30);
        for sentinel in &self.watching {
            sentinel.be_patient(&self.service).await;
        }
        for replica in replicas {
            let since = Instant::now();
            eventually(START_DEADLINE, "a replica follows the master", async || {
                if is_in_sync(replica).await {
                    return true;
                }
                let master = self.master().await;
                if master.port() == replica.port() {
                    // The other one seemed down, before the Sentinels were told to be patient.
                    return info(replica, "role").await.as_deref() == Some("master");
                }
                if since.elapsed() > PATIENCE {
                    // It is repeated until it has had an effect.
                    follow(replica, master.port()).await.ok();
                }
                false
            })
            .await;
        }
    }

    /// Waits until `count` replicas of `master` have all that it was told.
    pub async fn until_replicated(&self, master: &RedisServer, count: usize) {
        let mut connection = master.connection().await;
        eventually(START_DEADLINE, "replicas have it all", async || {
            // Only the writes of this connection count.
            let mut written = redis::pipe();
            written.cmd("SET").arg("testkit:mark").arg(1).ignore();
            written.cmd("DEL").arg("testkit:mark").ignore();
            written.cmd("WAIT").arg(count).arg(1000);
            let confirmed: Result<(usize,), _> = written.query_async(&mut connection).await;
            confirmed.is_ok_and(|(confirmed,)| confirmed >= count)
        })
        .await;
    }

    fn at(&self, port: u16) -> &RedisServer {
        let mut servers = self.servers.iter();
        servers
            .find(|it| it.port() == port)
            .expect("the Sentinels name one of ours")
    }

    async fn is_complete(&self) -> bool {
        for sentinel in &self.watching {
            let Some(known) = sentinel.master(&self.service).await else {
                return false;
            };
            let counts = [&known["num-slaves"], &known["num-other-sentinels"]];
            let expected = [self.shape.replicas, self.shape.sentinels - 1];
            if counts != [&expected[0].to_string(), &expected[1].to_string()]
                || known["flags"] != "master"
                || !sentinel.has_good_replicas(&self.service).await
            {
                return false;
            }
        }
        true
    }
}

fn give_back(all: Sentinels) {
    if all.is_undisturbed() {
        POOL.put(all);
    }
}

async fn server(shape: &SentinelShape, master: Option<u16>) -> RedisServer {
    // A replica that joins is served at once, and one that lags behind is noticed.
    let mut arguments = vec!["--repl-diskless-sync-delay", "0"];
    arguments.extend(["--repl-ping-replica-period", "1"]);
    if let Some(password) = shape.password {
        arguments.extend(["--requirepass", password, "--masterauth", password]);
    }
    let port = master.map(|port| port.to_string());
    if let Some(port) = &port {
        arguments.extend(["--replicaof", "127.0.0.1", port]);
    }
    RedisServer::start_with(&arguments).await
}

/// One field of what a server tells of its replication; `None` if it does not answer.
async fn info(server: &RedisServer, field: &str) -> Option<String> {
    let client = Client::open(server.url()).ok()?;
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&brief())
        .await
        .ok()?;
    let report: String = redis::cmd("INFO")
        .arg("replication")
        .query_async(&mut connection)
        .await
        .ok()?;
    let mut lines = report.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| *name == field)?;
    Some(value.to_owned())
}

/// Makes a server the replica of what listens on this port.
async fn follow(replica: &RedisServer, port: u16) -> RedisResult<()> {
    let mut connection = replica.connection().await;
    let mut order = redis::cmd("REPLICAOF");
    let order = order.arg("127.0.0.1").arg(port);
    order.query_async(&mut connection).await
}

async fn is_in_sync(replica: &RedisServer) -> bool {
    info(replica, "role").await.as_deref() == Some("slave")
        && info(replica, "master_link_status").await.as_deref() == Some("up")
}
