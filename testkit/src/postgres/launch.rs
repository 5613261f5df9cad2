//! The programs of PostgreSQL, run by a user who is not root, as they insist.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::geteuid;
use tempfile::TempDir;

use super::ADMIN;
use super::group::OwnedGroup;
use crate::data;
use crate::{program, reaper};

/// The id of `nobody`.
const NOBODY: u32 = 65_534;

/// The settings of every server, before the test's own settings. Nothing here outlives the machine's power.
const SETTINGS: [&str; 10] = [
    "fsync=off",
    "listen_addresses=127.0.0.1",
    "max_connections=100",
    "shared_buffers=16MB",
    "dynamic_shared_memory_type=mmap",
    "wal_level=replica",
    "max_wal_size=256MB",
    "jit=off",
    "autovacuum_naptime=5s",
    "log_line_prefix=%m [%p] ",
];

/// A directory that belongs to the user of the server.
pub(crate) fn directory() -> TempDir {
    let directory = data::directory("dlock-postgres-");
    reaper::removes(directory.path());
    give(directory.path());
    directory
}

/// A call of a program of PostgreSQL.
fn call(program: &Path) -> Command {
    let mut command = if geteuid().is_root() {
        let mut command = Command::new("setpriv");
        // It may read what lies below a directory of root's, but is not root.
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.args([
            "--inh-caps=+dac_read_search",
            "--ambient-caps=+dac_read_search",
        ]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .env("LD_LIBRARY_PATH", program::postgres_libraries())
        .env("LC_ALL", "C")
        .env_remove("PGOPTIONS")
        .stdin(Stdio::null());
    command
}

/// Frees the piece of shared memory that a killed server has left to the machine, which has room for 4,096.
pub(crate) fn free_memory(directory: &Path) {
    let state = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
    // Its seventh line has the key and the id.
    let memory = state
        .lines()
        .nth(6)
        .and_then(|line| line.split_whitespace().last());
    if let Some(id) = memory {
        let mut free = Command::new("ipcrm");
        // Without the program, or if another server has it now, it stays.
        free.args(["-m", id]).stderr(Stdio::null()).status().ok();
    }
}

fn program(name: &str) -> Command {
    call(&program::postgres().join(name))
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How the data of a new server is made: with short files for its log, which are copied with it.
const INITDB: [&str; 10] = [
    "--no-sync",
    "--no-instructions",
    "--wal-segsize=1",
    "-A",
    "trust",
    "-E",
    "UTF8",
    "--locale=C",
    "-U",
    ADMIN,
];

/// Fills a directory with the data of a new server.
pub(crate) fn copy_of_template(directory: &Path) {
    static OWN: OnceLock<TempDir> = OnceLock::new();
    static SHARED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let data = if let Some(data) = SHARED.get_or_init(shared_template) {
        data.clone()
    } else {
        let own = OWN.get_or_init(|| {
            let own = self::directory();
            initialize(own.path());
            own
        });
        own.path().join("data")
    };
    let mut copy = Command::new("cp");
    run(copy
        .args(["-R", "-p"])
        .arg(data)
        .arg(directory.join("data")));
}

/// The data of a new server beside the programs, which outlives this process: making it takes as long as a test. `None`
/// if nothing can be written there.
fn shared_template() -> Option<PathBuf> {
    let beside = program::our_postgres()?;
    let mut hasher = DefaultHasher::new();
    (INITDB, geteuid().as_raw()).hash(&mut hasher);
    let data = beside.join(format!("data-{:016x}", hasher.finish()));
    if !data.is_dir() {
        let made = TempDir::with_prefix_in("making-data-", &beside).ok()?;
        reaper::removes(made.path());
        give(made.path());
        initialize(made.path());
        // Another process may have been faster.
        if let Err(error) = fs::rename(made.path().join("data"), &data) {
            assert!(data.is_dir(), "{}: {error}", data.display());
        }
    }
    Some(data)
}

fn initialize(directory: &Path) {
    let mut initdb = program("initdb");
    run(initdb.args(INITDB).arg("-D").arg(directory.join("data")));
}

/// Fills a directory with the data of a running server.
pub(crate) fn backup_of(port: u16, directory: &Path) {
    let mut backup = program("pg_basebackup");
    backup.args(["-h", "127.0.0.1", "-U", ADMIN, "-p", &port.to_string()]);
    run(backup
        .args(["--no-sync", "-c", "fast", "-D"])
        .arg(directory.join("data")));
}

/// Writes who may connect, and what a standby follows.
pub(crate) fn configure(directory: &Path, access: &[String], follows: Option<u16>) {
    let last = "local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n";
    let lines = format!("{}\n{last}", access.join("\n"));
    let data = directory.join("data");
    let write = |name: &str, text: String| {
        fs::write(data.join(name), text).expect("the directory can be written to");
        give(&data.join(name));
    };
    write("pg_hba.conf", lines);
    if let Some(port) = follows {
        let source = format!("host=127.0.0.1 port={port} user={ADMIN}");
        write(
            "postgresql.auto.conf",
            format!("primary_conninfo = '{source}'\n"),
        );
        write("standby.signal", String::new());
    }
}

/// Starts a server, which does not answer yet.
pub(crate) fn postgres(
    directory: &Path,
    port: u16,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
) -> OwnedGroup {
    let data = directory.join("data");
    // Left behind by a server that was killed.
    fs::remove_file(data.join("postmaster.pid")).ok();
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_file(directory));
    let log = log.expect("a log can be written");
    let mut command = program("postgres");
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .arg("-c")
        .arg(format!("unix_socket_directories={}", directory.display()));
    command.envs(environment.iter().cloned());
    command.args(arguments).stdout(Stdio::null()).stderr(log);
    OwnedGroup::spawn(&mut command)
}

/// Starts PgBouncer with this configuration.
pub(crate) fn pgbouncer(directory: &Path, configuration: &str) -> OwnedGroup {
    let file = configure_pgbouncer(directory, configuration);
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_file(directory));
    let mut command = call(&program::pgbouncer());
    command
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(log.expect("a log can be written"));
    OwnedGroup::spawn(&mut command)
}

/// Writes the configuration of PgBouncer, which reads it at its start and when it is told to.
pub(crate) fn configure_pgbouncer(directory: &Path, configuration: &str) -> PathBuf {
    let file = directory.join("pgbouncer.ini");
    fs::write(&file, configuration).expect("the directory can be written to");
    file
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("log")
}

pub(crate) fn log(directory: &Path) -> String {
    fs::read_to_string(log_file(directory)).unwrap_or_default()
}

/// Empties the log, in which the end of an earlier process would be taken for that of the next.
pub(crate) fn forget_log(directory: &Path) {
    fs::remove_file(log_file(directory)).ok();
}

/// Removes the data of a server that was killed.
pub(crate) fn forget_data(directory: &Path) {
    let removed = fs::remove_dir_all(directory.join("data"));
    removed.expect("the directory is ours, and nothing writes to it");
}

/// Copies a file for the user of the server, which nobody else may read.
pub(crate) fn own_copy(from: &Path, to: &Path) -> PathBuf {
    fs::copy(from, to).expect("a file of the test can be copied");
    fs::set_permissions(to, Permissions::from_mode(0o600)).expect("it is ours");
    give(to);
    to.to_path_buf()
}

/// Gives a file to the user of the server.
fn give(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
    }
}
