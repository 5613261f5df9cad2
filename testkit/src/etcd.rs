//! One etcd server, and an ensemble of three, for tests.

mod api;
mod ensemble;
mod grpc_proxy;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::sync::OnceCell;
use tokio::time::sleep;

pub use api::etcd_call;
pub use ensemble::EtcdEnsemble;
pub use grpc_proxy::EtcdGrpcProxy;

use crate::child::OwnedChild;
use crate::data;
use crate::program::{self, EtcdMake};
use crate::tls::{Authority, Identity};
use crate::{port, reaper};
use dlock_waiting::within;

const PORTS_TO_TRY: usize = 5;
const START_DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    make: EtcdMake,
    arguments: Vec<OsString>,
    is_tls: bool,
    is_durable: bool,
    disk_delay: Option<Duration>,
}

impl EtcdOptions {
    /// A server of the usual make, whose data outlives its process, but not the machine's power.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another make of server.
    #[must_use]
    pub fn make(mut self, make: EtcdMake) -> Self {
        self.make = make;
        self
    }

    /// Writes to the disk before each answer, as servers in use do.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// The same with a slow disk: each write to it takes longer by this time, from the start on.
    ///
    /// Go programs call the kernel without the C library, so strace delays these calls. Only on Linux.
    #[must_use]
    pub fn slow_disk(mut self, by: Duration) -> Self {
        self.disk_delay = Some(by);
        self.durable()
    }

    /// Adds an argument, such as `--max-txn-ops=10`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The call of the server without its arguments. strace is a process of its own beside it, and ends with it.
    fn program(&self) -> Command {
        let etcd = program::etcd(self.make);
        let Some(delay) = self.disk_delay else {
            return Command::new(etcd);
        };
        let delay = format!("inject=fsync,fdatasync:delay_enter={}", delay.as_micros());
        let mut command = Command::new(program::strace());
        command.args([
            "-D",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            &delay,
        ]);
        command.arg(etcd);
        command
    }

    /// Speaks TLS with this certificate, and nothing else. Clients must show one of the authority if there is one.
    /// [`EtcdServer::call`] cannot be used then.
    #[must_use]
    pub fn tls(mut self, identity: &Identity, clients_of: Option<&Authority>) -> Self {
        self.is_tls = true;
        let mut files = vec![
            ("--cert-file", identity.cert_file()),
            ("--key-file", identity.key_file()),
        ];
        if let Some(authority) = clients_of {
            self.arguments.push("--client-cert-auth".into());
            files.push(("--trusted-ca-file", authority.ca_file()));
        }
        for (name, file) in files {
            self.arguments.extend([name.into(), file.into()]);
        }
        self
    }
}

/// A running server with a port, a directory and data of its own.
///
/// Dropping it kills the process, also a paused one, and removes the directory.
pub struct EtcdServer {
    name: String,
    port: u16,
    peer_port: u16,
    /// The port by which other members reach this one.
    known_port: u16,
    options: EtcdOptions,
    /// All members, as `name=url`.
    members: String,
    // The process is declared, and so dropped, before the directory it works in.
    process: Mutex<Option<OwnedChild>>,
    /// Keeps the ports while the server is down: a server of another process would answer in its place.
    held_ports: Mutex<Vec<TcpSocket>>,
    directory: TempDir,
}

/// The data of a server at one moment.
pub struct EtcdBackup(TempDir);

impl EtcdServer {
    /// Starts a server on free ports and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(EtcdOptions::new()).await
    }

    /// Starts a server with options.
    pub async fn start_with(options: EtcdOptions) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let (port, peer_port) = (port::free(), port::free());
            let members = format!("n0=http://127.0.0.1:{peer_port}");
            let ports = (port, peer_port, peer_port);
            let server = Self::launch(options.clone(), "n0", ports, &members);
            if server.is_up().await {
                return server;
            }
        }
        panic!("the server does not start: other processes take its ports");
    }

    /// A server that several tests of this process use, each with keys of its own.
    pub async fn shared(make: EtcdMake) -> &'static Self {
        static SERVERS: [OnceCell<EtcdServer>; 3] = [const { OnceCell::const_new() }; 3];
        let server = &SERVERS[make as usize];
        server
            .get_or_init(|| Self::start_with(EtcdOptions::new().make(make)))
            .await
    }

    /// Starts the process, which may take some time to answer.
    fn launch(
        options: EtcdOptions,
        name: &str,
        (port, peer_port, known_port): (u16, u16, u16),
        members: &str,
    ) -> Self {
        let directory = data::directory("dlock-etcd-");
        reaper::removes(directory.path());
        let server = Self {
            name: name.to_owned(),
            port,
            peer_port,
            known_port,
            options,
            members: members.to_owned(),
            process: Mutex::default(),
            held_ports: Mutex::default(),
            directory,
        };
        server.spawn();
        server
    }

    fn spawn(&self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file());
        let scheme = if self.options.is_tls { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let known = format!("http://127.0.0.1:{}", self.known_port);
        let mut command = self.options.program();
        command.arg("--name").arg(&self.name);
        command.arg("--data-dir").arg(self.data());
        command.args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ]);
        command.args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &known,
        ]);
        command.args([
            "--initial-cluster",
            &self.members,
            "--initial-cluster-token",
            &self.members,
        ]);
        command.args(["--logger", "zap", "--log-level", "warn"]);
        if !self.options.is_durable {
            command.arg("--unsafe-no-fsync");
        }
        command.args(&self.options.arguments);
        // Every variable of this name is an argument of the server.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log can be written"));
        let child = OwnedChild::spawn(&mut command);
        *self.process() =
            Some(child.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}")));
    }

    /// Waits for the first answer; `false` if a port was taken meanwhile.
    async fn is_up(&self) -> bool {
        let up = within(START_DEADLINE, async {
            loop {
                // What answers in the place of one that has ended is another server.
                if self.answers().await && !self.has_ended() {
                    return true;
                }
                if self.has_ended() {
                    let log = self.log();
                    assert!(
                        log.contains("address already in use"),
                        "the server ended:\n{log}"
                    );
                    return false;
                }
                sleep(PAUSE).await;
            }
        });
        up.await
            .unwrap_or_else(|| panic!("the server does not answer:\n{}", self.log()))
    }

    /// Asks something that needs a majority.
    async fn answers(&self) -> bool {
        if self.options.is_tls {
            // Its log says nothing at this level, and its port is open once it serves.
            return tokio::net::TcpStream::connect(("127.0.0.1", self.port))
                .await
                .is_ok();
        }
        let range = r#"{"key":"AA=="}"#;
        api::post(self.port, "kv/range", range, None)
            .await
            // One that wants a login answers as well.
            .is_some_and(|(status, _)| status == 200 || status == 400)
    }

    fn has_ended(&self) -> bool {
        let mut process = self.process();
        process
            .as_mut()
            .is_none_or(|process| process.exited().is_some())
    }

    /// The URL of this server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }

    /// The port for clients on 127.0.0.1; [`restart`](Self::restart) keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the server has written to its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Ends the log, so that the next one is that of one start.
    fn put_log_aside(&self) {
        let earlier = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.path().join("earlier-log"));
        let mut earlier = earlier.expect("a log can be written");
        let log = fs::read(self.log_file()).unwrap_or_default();
        earlier.write_all(&log).expect("a log can be written");
        fs::remove_file(self.log_file()).ok();
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Kills the server at once. What was committed is still there after a restart.
    pub fn kill(&self) {
        let Some(mut process) = self.process().take() else {
            return;
        };
        process.kill();
        let ports = [self.port, self.peer_port]
            .into_iter()
            .filter_map(port::hold);
        self.held().extend(ports);
    }

    /// Kills the server if it runs, and starts it again with its data on the same ports.
    pub async fn restart(&self) {
        self.start_again().await;
        assert!(
            self.is_up().await,
            "the server does not start again:\n{}",
            self.log()
        );
    }

    /// Starts it again, without waiting for an answer, which needs a majority.
    async fn start_again(&self) {
        self.kill();
        self.held().clear();
        let started = within(START_DEADLINE, async {
            // Something else may hold a port for a moment: a connection being closed.
            loop {
                self.put_log_aside();
                self.spawn();
                if within(Duration::from_millis(300), self.ends())
                    .await
                    .is_none()
                {
                    return;
                }
                let log = self.log();
                assert!(
                    log.contains("address already in use"),
                    "the server ended:\n{log}"
                );
            }
        });
        assert!(
            started.await.is_some(),
            "the server does not start again:\n{}",
            self.log()
        );
    }

    async fn ends(&self) {
        while !self.has_ended() {
            sleep(PAUSE).await;
        }
    }

    /// Stops the process: connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.process().as_ref().expect("the server runs").pause();
    }

    /// Lets a paused server go on; it then works through what was sent meanwhile.
    pub fn resume(&self) {
        self.process().as_ref().expect("the server runs").resume();
    }

    /// Kills the server and copies its data.
    #[must_use]
    pub fn save(&self) -> EtcdBackup {
        self.kill();
        let copy = data::directory("dlock-etcd-backup-");
        reaper::removes(copy.path());
        copy_all(&self.data(), &copy.path().join("data"));
        EtcdBackup(copy)
    }

    /// Kills the server and puts saved data in the place of its own. [`restart`](Self::restart) starts it.
    pub fn restore(&self, backup: &EtcdBackup) {
        self.kill();
        fs::remove_dir_all(self.data()).expect("the data can be removed");
        copy_all(&backup.0.path().join("data"), &self.data());
    }

    fn process(&self) -> MutexGuard<'_, Option<OwnedChild>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Vec<TcpSocket>> {
        self.held_ports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("the data can be read") {
        let entry = entry.expect("the data can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("the data can be copied");
        }
    }
}
