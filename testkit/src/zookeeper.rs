//! A ZooKeeper ensemble of three servers, for tests.

mod between;
mod counted;
mod counting;
mod ensemble;
mod secure;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use between::Between;
pub use counted::CountedRequests;
pub use secure::SecureZooKeeper;

use crate::child::OwnedChild;
use crate::data;
use crate::disk::Disk;
use crate::ensemble::{Ensemble, hosts};
use crate::pool::{Pool, Pooled};
use crate::{port, program, reaper};
use dlock_waiting::within;

const SERVERS: usize = 3;
const ENSEMBLES_TO_TRY: usize = 3;
const START_DEADLINE: Duration = Duration::from_secs(120);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// The directory of a server's transactions and snapshots, in that of the server.
const DATA: &str = "version-2";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing is forced to the disk.
    Quick,
    Durable,
    Apart,
    /// A session is known to its server only.
    Local,
    /// Empty containers stay.
    Keeping,
}

/// Three servers with ports, directories and data of their own. Their `tickTime` is 500 ms.
///
/// Dropping it kills the servers, also paused ones, and removes the directories.
pub struct ZooKeepers {
    // The processes are declared, and so dropped, before the directory they work in.
    servers: Vec<Server>,
    /// Empty unless they can be separated from each other.
    between: Between,
    _directory: TempDir,
}

struct Server {
    port: u16,
    configuration: PathBuf,
    /// The environment of its process.
    environment: Vec<(OsString, OsString)>,
    process: Mutex<OwnedChild>,
}

/// The data of an ensemble at one moment.
pub struct ZooKeeperBackup(TempDir);

impl ZooKeepers {
    /// The `tickTime` of the servers.
    pub const TICK: Duration = Duration::from_millis(500);

    /// Starts three servers, and waits until they have a leader.
    pub async fn start() -> Self {
        Self::start_with(Kind::Quick, None).await
    }

    /// Starts three servers that write to the disk before each answer, as servers in use do.
    pub async fn start_durable() -> Self {
        Self::start_with(Kind::Durable, None).await
    }

    /// Starts three servers that write to this disk before each answer. It must live as long as they do.
    pub async fn start_on(disk: &Disk) -> Self {
        Self::start_with(Kind::Durable, Some(disk)).await
    }

    /// Starts three servers that [`isolate`](Ensemble::isolate) can separate from each other.
    pub async fn start_apart() -> Self {
        Self::start_with(Kind::Apart, None).await
    }

    /// Starts three servers that do not remove empty containers.
    pub async fn start_keeping() -> Self {
        Self::start_with(Kind::Keeping, None).await
    }

    /// Starts three servers that keep sessions to themselves, and refuse ephemeral nodes of such sessions.
    pub async fn start_local() -> Self {
        Self::start_with(Kind::Local, None).await
    }

    async fn start_with(kind: Kind, disk: Option<&Disk>) -> Self {
        for _ in 0..ENSEMBLES_TO_TRY {
            let started = Self::launch(kind, disk);
            if started.is_up().await {
                return started;
            }
        }
        panic!("the servers do not start, or other processes take their ports");
    }

    /// An ensemble that several tests of this process use, none of which breaks it.
    pub async fn shared() -> &'static Self {
        static ENSEMBLE: OnceCell<ZooKeepers> = OnceCell::const_new();
        ENSEMBLE.get_or_init(Self::start).await
    }

    /// An ensemble that this test alone uses and may break. Another test gets it afterwards with its data, unless this one fails:
    /// each has a directory of its own.
    pub async fn lent() -> Pooled<Self> {
        static IDLE: Pool<ZooKeepers> = Pool::new();
        let servers = match IDLE.take().await {
            Some(servers) => {
                servers.mend().await;
                servers
            }
            None => Self::start().await,
        };
        Pooled::new(servers, |it| IDLE.put(it))
    }

    /// Has all servers run again.
    async fn mend(&self) {
        for server in &self.servers {
            let mut process = server.process();
            if process.exited().is_none() {
                process.resume();
            }
        }
        for server in 0..SERVERS {
            self.restart(server).await;
        }
    }

    fn launch(kind: Kind, disk: Option<&Disk>) -> Self {
        let directory = data::directory("dlock-zookeeper-");
        reaper::removes(directory.path());
        let ports: Vec<_> = (0..SERVERS)
            .map(|_| [(); 3].map(|()| port::free()))
            .collect();
        let own = ports
            .iter()
            .map(|[_, quorum, election]| [*quorum, *election]);
        let own: Vec<_> = own.collect();
        let between = if kind == Kind::Apart {
            Between::start(&own)
        } else {
            Between::default()
        };
        // No test is about the power of the machine.
        let forced = if kind == Kind::Durable { "yes" } else { "no" };
        let sessions = if kind == Kind::Local {
            "localSessionsEnabled=true\n"
        } else {
            ""
        };
        // Each server has its own view of the others.
        let members_of = |from: usize| {
            let members = own.iter().enumerate().map(|(to, own)| {
                let [quorum, election] = between.ports(from, to).unwrap_or(*own);
                format!("server.{}=127.0.0.1:{quorum}:{election}", to + 1)
            });
            members.collect::<Vec<_>>().join("\n")
        };
        let servers = (1..).zip(&ports).map(|(id, [port, ..])| {
            let members = members_of(id - 1);
            let place = directory.path().join(id.to_string());
            fs::create_dir(&place).expect("the directory can be written to");
            let write = |name: &str, text: String| {
                fs::write(place.join(name), text).expect("the directory can be written to");
            };
            write("myid", format!("{id}\n"));
            let settings = format!(
                "tickTime={}\ninitLimit=40\nsyncLimit=6\nmaxSessionTimeout=120000\ndataDir={}\nclientPort={port}\n\
                 clientPortAddress=127.0.0.1\nforceSync={forced}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{sessions}{members}\n",
                Self::TICK.as_millis(),
                place.display()
            );
            write("zoo.cfg", settings);
            let configuration = place.join("zoo.cfg");
            let mut environment: Vec<_> = disk.into_iter().flat_map(Disk::environment).collect();
            if kind == Kind::Keeping {
                let never = "-Dznode.container.checkIntervalMs=1000000000";
                environment.push(("JAVA_TOOL_OPTIONS".into(), never.into()));
            }
            Server {
                port: *port,
                process: Mutex::new(spawn(&configuration, &environment)),
                configuration,
                environment,
            }
        });
        Self {
            servers: servers.collect(),
            between,
            _directory: directory,
        }
    }

    /// Waits until all servers have a leader; `false` if one has ended.
    async fn is_up(&self) -> bool {
        let up = within(START_DEADLINE, async {
            loop {
                if self
                    .servers
                    .iter()
                    .any(|it| it.process().exited().is_some())
                {
                    return false;
                }
                let mut modes = Vec::new();
                for server in 0..SERVERS {
                    modes.push(self.mode(server).await);
                }
                if modes.iter().all(Option::is_some) {
                    return true;
                }
                sleep(PAUSE).await;
            }
        });
        up.await.expect("the servers have a leader")
    }

    /// The URL of all servers, for sessions of this length.
    #[must_use]
    pub fn url(&self, session: Duration) -> String {
        Self::url_of(&hosts(self.ports()), session)
    }

    /// The URL of other addresses of the servers, such as proxies.
    #[must_use]
    pub fn url_of(hosts: &str, session: Duration) -> String {
        let (session, tick) = (session.as_millis(), Self::TICK.as_millis());
        format!("zookeeper://{hosts}?session={session}ms&tick={tick}ms")
    }

    /// The port of a server on 127.0.0.1.
    #[must_use]
    pub fn port(&self, server: usize) -> u16 {
        self.servers[server].port
    }

    /// Kills all servers and copies their data.
    #[must_use]
    pub fn save(&self) -> ZooKeeperBackup {
        let copy = data::directory("dlock-zookeeper-backup-");
        reaper::removes(copy.path());
        for (number, server) in self.servers.iter().enumerate() {
            server.process().kill();
            copy_all(&server.data(), &copy.path().join(number.to_string()));
        }
        ZooKeeperBackup(copy)
    }

    /// Kills all servers and copies their directories there, with their data and their logs: for people who look for a fault.
    pub fn keep(&self, there: &Path) {
        for (number, server) in (1..).zip(&self.servers) {
            server.process().kill();
            let copy = there.join(number.to_string());
            copy_all(server.place(), &copy);
            copy_all(&server.data(), &copy.join(DATA));
        }
    }

    /// The numbers of the servers, from 1, that have written transactions to their logs twice. It is a fault of ZooKeeper
    /// (ZOOKEEPER-4394), after which the data of a server may be older than it says.
    #[must_use]
    pub fn repeated(&self) -> Vec<usize> {
        let has_repeated = |server: &Server| {
            let log = fs::read(server.place().join("log")).unwrap_or_default();
            String::from_utf8_lossy(&log).contains("FileTxnLog - Current zxid ")
        };
        let numbered = (1..).zip(&self.servers);
        let repeated = numbered.filter(|(_, server)| has_repeated(server));
        repeated.map(|(number, _)| number).collect()
    }

    /// Kills all servers and puts saved data in the place of their own. [`restart_all`](Ensemble::restart_all) starts them.
    pub fn restore(&self, backup: &ZooKeeperBackup) {
        self.forget();
        for (number, server) in self.servers.iter().enumerate() {
            copy_all(&backup.0.path().join(number.to_string()), &server.data());
        }
    }

    /// Kills all servers and removes their data.
    pub fn forget(&self) {
        for server in &self.servers {
            server.process().kill();
            fs::remove_dir_all(server.data()).expect("the data can be removed");
        }
    }

    /// The number of watches that a server keeps for its clients; `None` if it does not answer.
    pub async fn watches(&self, server: usize) -> Option<usize> {
        self.counter(server, "zk_watch_count").await
    }

    /// The number of sessions that the leader knows; `None` if it does not answer.
    pub async fn sessions(&self) -> Option<usize> {
        let leader = self.leader().await;
        self.counter(leader, "zk_global_sessions").await
    }

    async fn counter(&self, server: usize, name: &str) -> Option<usize> {
        let said = timeout(ANSWER_LIMIT, ask(self.port(server), "mntr")).await;
        let said = said.ok()?.ok()?;
        let count = said.lines().find_map(|line| line.strip_prefix(name))?;
        count.trim().parse().ok()
    }

    /// `leader` or `follower`, if the server answers and serves clients.
    async fn mode(&self, server: usize) -> Option<String> {
        let said = timeout(ANSWER_LIMIT, ask(self.port(server), "srvr"))
            .await
            .ok()?
            .ok()?;
        let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode.to_owned())
    }
}

impl Server {
    fn place(&self) -> &Path {
        self.configuration.parent().expect("it is in a directory")
    }

    fn data(&self) -> PathBuf {
        self.place().join(DATA)
    }

    /// Starts the process again, which has ended.
    fn spawn(&self) {
        *self.process() = spawn(&self.configuration, &self.environment);
    }

    fn process(&self) -> MutexGuard<'_, OwnedChild> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the files of a directory.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("the data can be read") {
        let entry = entry.expect("the data can be read");
        if entry.path().is_dir() {
            continue;
        }
        fs::copy(entry.path(), to.join(entry.file_name())).expect("the data can be copied");
    }
}

async fn ask(port: u16, word: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    Ok(said)
}

fn spawn(configuration: &Path, environment: &[(OsString, OsString)]) -> OwnedChild {
    let place = configuration.parent().expect("it is in a directory");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(place.join("log"));
    let log = log.expect("a log can be written");
    let mut command = Command::new(program::java());
    command
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        // Debian's directory has several loggers, of which one writes nothing. The first one is taken.
        .arg("-Dorg.slf4j.simpleLogger.showDateTime=true")
        .arg("-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")
        .arg("-cp")
        .arg(format!(
            "{0}/slf4j-simple.jar:{0}/*",
            program::zookeeper().display()
        ))
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(configuration)
        .current_dir(place)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    OwnedChild::spawn(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
